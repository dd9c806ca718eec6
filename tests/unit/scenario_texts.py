"""Scenarios as text, for tests of how they are read."""

BASE = """
name = "x"

[policy]
name = "pull"
stale = "keep"

[[pools]]
name = "slow"
servers = 2

[[pools]]
name = "fast"
servers = 3
rate = 2.0
slots = 4
capacity = 10

[arrivals]
load = 0.5
"""

TRACE = """
name = "x"
policy.name = "random"

[[pools]]
name = "slow"
servers = 2

[arrivals]
law = "trace"
path = "jobs.csv"
time_column = "at"
speedup = 2.0
"""
