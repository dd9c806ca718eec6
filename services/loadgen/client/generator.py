"""Sends a workload on its schedule: open loop, so it never waits for an answer before the next job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from router.protocol.stream import Request
from server.app.timer import PreciseTimer
from services.loadgen.client.ledger import Ledger
from services.loadgen.client.links import RouterLink
from services.loadgen.workload import Workload

LEAD_S = 0.1
"""From the start of the call to the schedule's 0."""


class Generator:
    """One schedule on its way.

    The schedule is absolute: a job that goes out late delays no other, and its sojourn counts from the instant
    at which it should have gone.

    Args:
        workload: The jobs, in time units.
        links: To the routers, in the order of the workload's `routers`.
        ledger: Where the sending is booked.
        time_unit_s: Seconds in a time unit.

    Attributes:
        start_s: The schedule's 0 on the monotonic clock.
    """

    def __init__(self, workload: Workload, links: Sequence[RouterLink], ledger: Ledger, time_unit_s: float) -> None:
        self.start_s = time.monotonic() + LEAD_S
        self._links = links
        self._ledger = ledger
        self._due_s: list[float] = (self.start_s + workload.instants * time_unit_s).tolist()
        self._routers: list[int] = workload.routers.tolist()
        self._sizes: list[float] = workload.sizes.tolist()
        self._patience = [None if value != value else value for value in workload.patience.tolist()]
        self._next = 0
        self._all_sent = asyncio.Event()
        self._timer = PreciseTimer(asyncio.get_running_loop(), self._send_due)

    async def send_all(self) -> None:
        """Return when the last job is on its way."""
        self._arm()
        try:
            await self._all_sent.wait()
        finally:
            self._timer.close()

    def _arm(self) -> None:
        if self._next < len(self._due_s):
            self._timer.arm(self._due_s[self._next])
        else:
            self._all_sent.set()

    def _send_due(self) -> None:
        due_s, routers, sizes, patience = self._due_s, self._routers, self._sizes, self._patience
        batches: dict[int, list[Request]] = {}
        now = time.monotonic()
        job, jobs = self._next, len(due_s)
        while job < jobs and due_s[job] <= now:
            batches.setdefault(routers[job], []).append(Request(job, sizes[job], patience[job]))
            self._ledger.sends(job, now)
            job += 1
        self._next = job
        for router, requests in batches.items():
            self._links[router].send(requests, now)
        self._arm()
