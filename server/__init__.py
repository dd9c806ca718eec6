"""Servers: the pure core, the laws of service and patience, and the process around them."""
