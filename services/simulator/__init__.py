"""The cores of the live processes in virtual time: deterministic, and as fast as events allow."""
