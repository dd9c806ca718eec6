"""The router as a process: HTTP and WebSockets around the pure core."""
