"""A scenario measured on a cluster that runs: load, counters, records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from router.protocol.errors import SettingsError
from router.registry import make_policy
from services.lab.checks import Check, Totals, conservation, identities, totals
from services.lab.cluster import Cluster
from services.lab.errors import RunInvalid
from services.lab.faults import Timeline
from services.lab.left import Left, RunBroken, records_of
from services.lab.process import Process, stop_all
from services.lab.readings import between, cpu_shares, measured_delays, message_log, share_asked
from services.lab.scrape import READINGS, SHORTEST_PAUSE_S, Samples, Scraper, failed_at
from services.loadgen.client.result import Generation, load
from services.measure.quantities import SERVED
from services.measure.records import Fleet, Records, Run, select
from services.measure.validity import invalidities
from services.scenario import Scenario
from services.scenario_faults import Fault
from services.simulator.network import Delays

Progress = Callable[[str, float], None]
"""Called now and then with what is being done and the share of it that is done."""

EXIT_LIMIT_S = 30.0

ENDING = {"kill", "restart", "drain"}
HOLDING = {"hang", "cut", "delay"}
"""Kinds of faults that end processes, and that hold messages up."""


@dataclass(frozen=True)
class Live:
    """What was measured.

    Attributes:
        run: The records, as a simulation leaves them too.
        generation: What the generator says of itself.
        delays: Mean one-way delays within the window.
        delay_p99_units: 99th percentile of the way of a job to its server, and of the way back.
        totals: What all counters gained.
        unanswered: Jobs without an end.
        cpu: Cores used within the window, by process.
        timer_lag_s: The 50th and 99th percentile of how late servers handled what was due, where they can be asked.
        expositions: Everything that each process, by name, showed at the end; of those that run then.
        happened: What went wrong, at its real instants.
        logs: How many event logs each process has begun.
    """

    run: Run
    generation: Generation
    delays: Delays
    delay_p99_units: float
    totals: Totals
    unanswered: int
    cpu: dict[str, float]
    timer_lag_s: tuple[float, float] | None
    expositions: dict[str, str]
    happened: Sequence[Fault] = ()
    logs: Mapping[str, int] = field(default_factory=dict)

    @property
    def left(self) -> Left:
        """What is written down of it."""
        return Left(self.generation, self.run.records, self.run.fleet, self.logs, self.expositions)

    @property
    def invalid(self) -> list[str]:
        """Why it says nothing about the theory; empty: it is valid."""
        # What stands still or is cut off holds messages up, and not because the machine is busy.
        delay = self.delay_p99_units if HOLDING.isdisjoint(fault.kind for fault in self.happened) else 0.0
        return invalidities(self.generation.lateness_p99_units, delay, self.cpu, self.unanswered)

    def checks(self, scenario: Scenario) -> list[Check]:
        """What must hold in every run of this scenario, and whether it does."""
        records = self.run.records
        ended_early = not ENDING.isdisjoint(fault.kind for fault in self.happened)
        routers = scenario.router_names()
        drained = any(fault.kind == "drain" and fault.target in routers for fault in self.happened)
        reasons = self.generation.reasons
        unsent = reasons.get("link_lost", 0) + reasons.get("no_router", 0) if ended_early else 0
        checks = conservation(records, self.totals, ended_early=ended_early, unsent=unsent, router_drained=drained)
        return [*checks, *identities(scenario, records, self.totals)]


@dataclass(frozen=True)
class Plan:
    """How to measure.

    Attributes:
        scenario: What is measured. `file`: where it is written, for the generator.
        fleet: The servers by the names that they have.
        folder: For the generator's records and standard error.
        http: One HTTP request a job.
    """

    scenario: Scenario
    file: Path
    fleet: Fleet
    folder: Path
    http: bool = False

    @property
    def out(self) -> Path:
        """Where the generator writes its records."""
        return self.folder / "generation.npz"


def check_continuous(scenario: Scenario, instead: str) -> None:
    """Raise `SettingsError`, with what to do instead, where time is slotted: no process has slots."""
    if scenario.run.time != "continuous":
        raise SettingsError(f'run.time = "{scenario.run.time}": a live run has no slots: {instead}')


async def measure_live(plan: Plan, cluster: Cluster, progress: Progress) -> Live:
    """Send the scenario's jobs to a cluster that is ready, wait for their ends, and read everything.

    Raises:
        RunBroken: A process died, or cannot be read, when jobs were under way.
        RunInvalid: The generator has left nothing.
    """
    try:
        return await _measure(plan, cluster, progress)
    except RunInvalid as why:
        if not plan.out.is_file():
            raise
        generation = load(plan.out)
        raise RunBroken(
            why, Left(generation, records_of(generation, plan.fleet), plan.fleet, cluster.logs, broken=str(why))
        ) from None
    finally:
        if plan.out.is_file():
            plan.out.unlink()


async def _measure(plan: Plan, cluster: Cluster, progress: Progress) -> Live:
    scenario = plan.scenario
    scraper = Scraper(cluster.routers, cluster.servers)
    before = await scraper.read_once()
    command = ["load", str(plan.file), "--routers", ",".join(cluster.routers), "--out", str(plan.out)]
    command += ["--end-with-parent", *(["--http"] if plan.http else [])]
    generator = await Process.start("generator", command, plan.folder / "logs" / "generator.log")
    try:
        happened = await _until_done(generator, cluster, scraper, scenario, progress)
    finally:
        await stop_all([generator])
    after = await scraper.read_once()
    # A cluster that was there before has counted what was before, too.
    failed = await failed_at(cluster.routers) if cluster.running else {}
    generation = load(plan.out)

    unit_s = scenario.time_unit_s
    window = [generation.start_s + instant * unit_s for instant in (scenario.run.warmup, scenario.horizon)]
    first, last = between(scraper.readings, *window)
    names = cluster.names
    records = records_of(generation, plan.fleet)
    counted_jobs = select(records, (records.intended >= scenario.run.warmup) & (records.outcome == SERVED))
    home = generation.router_generator_units
    # The delays are those of the network, not those of the jobs that faults have held up.
    average = np.median if scenario.timeline() else np.mean
    asked = share_asked(make_policy(scenario.policy, Random(0)), counted_jobs)
    return Live(
        run=Run(plan.fleet, records, message_log(scraper.readings, generation.start_s, unit_s), failed),
        generation=generation,
        delays=measured_delays(first, last, counted_jobs, home, unit_s, asked, average),
        delay_p99_units=_delay_p99_units(counted_jobs),
        totals=totals(*scraper.incarnations(before, after)),
        unanswered=int((generation.records.outcome < 0).sum()),
        cpu={names[url]: share for url, share in cpu_shares(first, last).items()} | {"generator": generation.cpu_share},
        timer_lag_s=_timer_lag_s([Samples(after[url]) for url in cluster.servers]),
        expositions={
            names[url]: text
            for url, text in after.items()
            if cluster.running is None or cluster.running.is_up(names[url])
        },
        happened=happened,
        logs=cluster.logs,
    )


async def _until_done(
    generator: Process, cluster: Cluster, scraper: Scraper, scenario: Scenario, progress: Progress
) -> Sequence[Fault]:
    """Read counters, and let happen what goes wrong, until the generator has finished; any death ends it.

    Returns:
        What went wrong, at its real instants.
    """
    every_s = max(SHORTEST_PAUSE_S, scenario.horizon * scenario.time_unit_s / READINGS)
    began: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def strike() -> Sequence[Fault]:
        if not scenario.timeline():
            return ()
        timeline = Timeline(scenario, cluster, scraper, await began)
        await timeline.run()
        return timeline.happened

    following = asyncio.ensure_future(_follow(generator, progress, began))
    striking = asyncio.ensure_future(strike())
    done = asyncio.gather(following, striking)
    death = asyncio.ensure_future(cluster.death())
    reading = asyncio.ensure_future(scraper.read_on(every_s))
    try:
        await asyncio.wait((done, death, reading), return_when=asyncio.FIRST_COMPLETED)
        if not done.done() and not death.done():
            # A process that cannot be read has mostly died: that is the better message.
            await asyncio.wait((death,), timeout=1.0)
        if death.done():
            raise death.result()
        if not done.done():
            await reading  # which ends by an error only
        _, happened = await done
        return happened
    finally:
        # When one of the first two fails the other one goes on, and must not start processes that nobody ends.
        tasks = (following, striking, done, death, reading)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(generator: Process, progress: Progress, began: asyncio.Future[float]) -> None:
    while (line := await generator.says()) is not None:
        if line.get("event") == "started":
            began.set_result(line["start_s"])
        if line.get("event") == "progress":
            progress("live", line["sent"] / max(line["jobs"], 1))
        if line.get("event") == "done":
            progress("live", 1.0)
            try:
                async with asyncio.timeout(EXIT_LIMIT_S):
                    if await generator.ended() == 0:
                        return
            except TimeoutError:
                raise RunInvalid(
                    "process_hangs", f"the generator is done, but did not end within {EXIT_LIMIT_S:g} s: run again"
                ) from None
    raise await generator.death()


def _delay_p99_units(records: Records) -> float:
    ways = (records.arrived - records.sent, records.ended - records.arrived - records.waiting - records.service)
    return max(float(np.quantile(way, 0.99)) for way in ways) if len(records.sent) else 0.0


def _timer_lag_s(servers: list[Samples]) -> tuple[float, float] | None:
    """Percentiles over all server processes, each the upper bound of its bucket."""
    counts: dict[float, float] = {}
    for server in servers:
        for bound, up_to in server.buckets("herdless_server_timer_lag_seconds"):
            counts[bound] = counts.get(bound, 0.0) + up_to
    if not counts or not max(counts.values()):
        return None
    total = max(counts.values())
    p50, p99 = (min(bound for bound, up_to in counts.items() if up_to >= share * total) for share in (0.5, 0.99))
    return p50, p99
