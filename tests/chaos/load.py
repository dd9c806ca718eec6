"""The load of a chaos test: jobs of an open loop to several routers, and a book in which each of them has one end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from time import monotonic

import aiohttp

from router.protocol.stream import Answer, Request
from services.loadgen.client.mended import MendedStream


class Job:
    """One job: where it went, when, and what became of it."""

    __slots__ = ("ended_s", "outcome", "reason", "router", "sent_s", "server")

    def __init__(self, router: str, sent_s: float) -> None:
        self.router = router
        self.sent_s = sent_s
        self.ended_s = float("nan")
        self.outcome = self.reason = self.server = ""

    def __repr__(self) -> str:
        return f"Job({self.router} → {self.server or 'no server'}: {self.outcome or 'no end'} {self.reason})"


class Load:
    """Sends jobs and books their ends; no job waits for another one.

    Args:
        rng: Draws gaps, sizes and routers.

    Attributes:
        jobs: All jobs so far, by number. `doubled`: those that had a second end.
    """

    def __init__(self, rng: Random) -> None:
        self.jobs: list[Job] = []
        self.doubled: list[int] = []
        self.one_clock, self.delay_s, self.delays = True, 0.0, 0  # what a stream asks of a book
        self._rng = rng
        self._streams: dict[str, MendedStream] = {}
        self._sending: asyncio.Task[None] | None = None

    async def dial(self, session: aiohttp.ClientSession, routers: Mapping[str, str]) -> None:
        """Open a stream to each router, given by name and URL."""
        for name, url in routers.items():
            self._streams[name] = await MendedStream.connect(session, url, self, "boot")

    async def close(self) -> None:
        """Send nothing more, and give the streams up."""
        try:
            await self.stop()
        finally:
            for stream in self._streams.values():
                await stream.close()

    def start(self, jobs_per_s: float) -> None:
        """Send Poisson jobs of exponential sizes, evenly over the routers, until told to stop."""
        self._sending = asyncio.create_task(self._send_on(jobs_per_s))

    async def stop(self) -> None:
        """Send nothing more; what is under way goes on.

        Raises:
            Exception: Why it had ended of itself.
        """
        if self._sending is not None:
            sending, self._sending = self._sending, None
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    def send(self, router: str, size: float) -> Job:
        """Send one job now."""
        now = monotonic()
        job = Job(router, now)
        self.jobs.append(job)
        self._streams[router].send([Request(len(self.jobs) - 1, size, None)], now)
        return job

    def ends(self, answer: Answer, now: float) -> None:
        """A job has come back."""
        job = self.jobs[answer.id]
        if job.outcome:
            self.doubled.append(answer.id)
            return
        job.outcome, job.reason, job.server = answer.outcome, answer.reason, answer.server
        job.ended_s = now

    def streams_up(self) -> int:
        """Routers that can be sent jobs."""
        return sum(stream.is_up for stream in self._streams.values())

    def under_way(self) -> int:
        """Jobs without an end."""
        return sum(not job.outcome for job in self.jobs)

    async def _send_on(self, jobs_per_s: float) -> None:
        rng, routers = self._rng, list(self._streams)
        due = monotonic()
        while True:
            due += rng.expovariate(jobs_per_s)
            await asyncio.sleep(max(due - monotonic(), 0.0))
            self.send(routers[int(rng.random() * len(routers))], rng.expovariate(1.0))


def outcomes(jobs: list[Job]) -> Counter[tuple[str, str]]:
    """Jobs by outcome and reason."""
    return Counter((job.outcome, job.reason) for job in jobs)
