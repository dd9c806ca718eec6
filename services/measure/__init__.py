"""From the records of a run, live or simulated, to quantities with intervals and a verdict."""
