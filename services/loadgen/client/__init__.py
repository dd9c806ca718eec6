"""The generator that talks to routers: it sends on schedule, come what may, and writes down what became of each job."""
