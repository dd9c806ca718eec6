"""Starts a cluster, measures it, and compares what it measured with simulation and theory."""
