"""Everything around routers and servers: scenarios, simulator, models, load, lab, command line."""
