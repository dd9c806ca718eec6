"""Closed-loop load for Locust: each user sends a job, waits for its end, and sends the next (see load.md)."""

import os
import random

from locust import HttpUser, constant, task


class Client(HttpUser):
    """One user of a router, `--host http://…`; names of several routers need as many runs of Locust."""

    wait_time = constant(0)

    def on_start(self) -> None:
        """A cluster may have a token."""
        if token := os.environ.get("HERDLESS_TOKEN"):
            self.client.headers["Authorization"] = f"Bearer {token}"

    @task
    def send_a_job(self) -> None:
        """A job of exponential size, mean 1. What is blocked or abandoned is an outcome, not an error of the test."""
        job = {"size": random.expovariate(1.0)}
        with self.client.post("/v1/jobs", json=job, catch_response=True) as response:
            if response.status_code in (200, 503, 504):
                response.success()
