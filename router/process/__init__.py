"""The plumbing that every process needs: serve HTTP, send in batches, show metrics."""
