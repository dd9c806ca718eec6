"""The server process: the core, driven by real links and real time."""
