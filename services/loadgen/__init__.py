"""Open-loop generators: the arrival schedule, the client that follows it, and trace replay."""
