"""A generator that runs until it is told to end: routers may come and go, and the load may be changed."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable

import aiohttp

from router.process.identity import make_identity
from router.protocol.errors import SettingsError, TransportError
from router.protocol.stream import Request
from server.app.discovery import Address, Discovery, Target
from server.app.timer import PreciseTimer
from services.loadgen.client.book import RunningBook
from services.loadgen.client.links import StreamLink, failed
from services.loadgen.trace import Trace
from services.loadgen.workload import Workload, draw_workload
from services.scenario import Scenario
from services.scenario_parts import MOST_ROUTERS, Routers, RunPlan

# Nothing is sent while a chunk is drawn: some 5 ms and a few microseconds a job. With long chunks that is well below
# one per cent of the time, so it does not show in the 99th percentile of lateness.
CHUNK_S = 10.0
LOOK_UP_S = 1.0
HEARTBEAT_S = 10.0
MOST_JOBS_PER_S = 100_000.0
LOWEST_RATE = 1e-6
"""Jobs per time unit: a chunk has at least one job on average, and would be longer than any run may be."""

_log = logging.getLogger(__name__)


class Schedule:
    """Draws a scenario's jobs chunk after chunk, each chunk where the one before ends.

    Rule: chunk n is drawn as the scenario with seed + n. A Poisson stream cut into pieces that are drawn
    independently is the same Poisson stream; chunks of even arrivals hold whole gaps. A trace begins anew with each
    chunk, which is as long as the scenario's run.

    Args:
        scenario: Arrivals, sizes and patience.
        trace: What it replays, if it does.

    Attributes:
        rate_total: The arrival rate, in jobs per time unit; may be changed.

    Raises:
        SettingsError: The scenario does not say at what rate jobs arrive, or splits them unevenly.
    """

    def __init__(self, scenario: Scenario, trace: Trace | None = None) -> None:
        if len(set(scenario.routers.shares)) > 1:
            raise SettingsError(
                "routers.split: without end, jobs are split equally over the routers that are there; "
                'expected "equal": leave --endless out, or --set routers.split=equal'
            )
        if trace is None and scenario.rate_total < LOWEST_RATE:
            raise SettingsError(
                f"arrivals: {scenario.rate_total:g} jobs in a time unit: without end at least {LOWEST_RATE:g} are sent"
            )
        self.rate_total = scenario.rate_total
        self._scenario = scenario
        self._trace = trace
        self._chunks = 0

    def draw(self, routers: int) -> tuple[Workload, float]:
        """The next jobs for so many routers, and the length of their chunk in time units."""
        scenario, rate = self._scenario, self.rate_total
        if self._trace is not None:
            length = scenario.horizon
        else:
            length = max(math.ceil(rate * CHUNK_S / scenario.time_unit_s), 1) / rate
        arrivals = scenario.arrivals.model_copy(update={"load": None, "rate_per_server": None, "rate_total": rate})
        one = scenario.model_copy(
            update={
                "seed": scenario.seed + self._chunks,
                "arrivals": arrivals,
                "routers": Routers(count=min(max(routers, 1), MOST_ROUTERS)),
                "run": RunPlan(warmup=0.0, duration=length),
            }
        )
        self._chunks += 1
        return draw_workload(one, self._trace), length


class Endless:
    """Sends jobs on an absolute schedule, open loop; create it inside the running loop.

    Args:
        schedule: What to send.
        book: Where it is booked.
        targets: The routers: names are looked up again and again.
        time_unit_s: Seconds in a time unit.
    """

    def __init__(self, schedule: Schedule, book: RunningBook, targets: Iterable[Target], time_unit_s: float) -> None:
        self.links: dict[str, StreamLink] = {}
        self.book = book
        self.time_unit_s = time_unit_s
        self._schedule = schedule
        self._boot = make_identity("generator").boot
        self._discovery = Discovery(targets, self._dial_these, every_s=LOOK_UP_S)
        self._timer = PreciseTimer(asyncio.get_running_loop(), self._send_due)
        self._jobs: list[tuple[float, int, float, float | None]] = []
        self._next = 0
        self._chunk_end_s = 0.0
        self._begun = self._ended = False
        self._wanted: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._refused: set[str] = set()

    @property
    def rate_total(self) -> float:
        """The arrival rate, in jobs per time unit."""
        return self._schedule.rate_total

    @property
    def links_up(self) -> int:
        """Routers that can be sent jobs."""
        return sum(link.is_up for link in self.links.values())

    def start(self, session: aiohttp.ClientSession) -> None:
        """Look for routers; the first job is due when the first router is there."""
        self._session = session
        self._tasks = [asyncio.create_task(self._discovery.run()), asyncio.create_task(self._mend())]

    def set_rate(self, rate_total: float) -> None:
        """Change the arrival rate, in jobs per time unit, from now on; 0: a pause."""
        self._schedule.rate_total = rate_total
        if self._begun and not self._ended:
            self._begin(time.monotonic())

    def stop(self) -> None:
        """Send nothing more."""
        self._ended = True
        self._timer.close()

    async def emptied(self) -> None:
        """Wait until every job has its end."""
        while self.book.under_way:  # noqa: ASYNC110 - it happens once, at the end of the process
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Give all links up; jobs that are still under way end as lost."""
        self.stop()
        tasks = [*self._tasks, *self._dialling.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.gather(*(link.close() for link in self.links.values()))

    # -- jobs ---------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        """Forget what is drawn; a new chunk begins now."""
        self._begun = True
        self._jobs, self._next, self._chunk_end_s = [], 0, now
        if self.rate_total > 0.0:
            self._timer.arm(now)

    def _draw(self) -> None:
        workload, length = self._schedule.draw(self.links_up)
        start_s, unit_s = self._chunk_end_s, self.time_unit_s
        patience = [None if value != value else value for value in workload.patience.tolist()]
        instants = (start_s + workload.instants * unit_s).tolist()
        self._jobs = list(zip(instants, workload.routers.tolist(), workload.sizes.tolist(), patience, strict=True))
        self._next = 0
        self._chunk_end_s = start_s + length * unit_s

    def _send_due(self) -> None:
        now = time.monotonic()
        if self.rate_total <= 0.0:
            return
        links = [link for link in self.links.values() if link.is_up]
        batches: list[list[Request]] = [[] for _ in links]
        book = self.book
        while True:
            while self._next == len(self._jobs) and self._chunk_end_s <= now:
                self._draw()
            if self._next == len(self._jobs) or self._jobs[self._next][0] > now:
                break
            due_s, router, size, patience = self._jobs[self._next]
            self._next += 1
            job = book.sends(due_s, now)
            if links:
                batches[router % len(links)].append(Request(job, size, patience))
            else:
                book.ends(failed(job, "no_router"), now)
        for link, requests in zip(links, batches, strict=True):
            if requests:
                link.send(requests, now)
        self._timer.arm(self._jobs[self._next][0] if self._next < len(self._jobs) else self._chunk_end_s)

    # -- routers ------------------------------------------------------------------------------

    def _dial_these(self, addresses: list[Address]) -> None:
        self._wanted = {address.url for address in addresses}
        for url in sorted(self._wanted):
            self._dial(url)

    def _dial(self, url: str) -> None:
        if url not in self.links and url not in self._dialling:
            self._dialling[url] = asyncio.create_task(self._connect(url))

    async def _connect(self, url: str) -> None:
        try:
            self.links[url] = await StreamLink.connect(self._session, url, self.book, self._boot, HEARTBEAT_S)
            self._refused.discard(url)
            if not self._ended:
                # What is drawn is split over the routers that were there: with one more, it is drawn anew.
                self._begin(time.monotonic())
        except (TransportError, SettingsError) as error:
            if url not in self._refused:  # it is tried each second, and told once
                _log.warning("%s; it is tried again", error)
            self._refused.add(url)
        finally:
            del self._dialling[url]

    async def _mend(self) -> None:
        """Clear links away that are lost, or whose router has gone, and dial again."""
        while True:
            await asyncio.sleep(LOOK_UP_S)
            for url, link in list(self.links.items()):
                if not link.is_up:
                    del self.links[url]
                    await link.close()
            for url in sorted(self._wanted):
                self._dial(url)
