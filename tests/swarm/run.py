"""Runs a case with watchers around every core."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import numpy as np

from router.core import EndJob, JobArrived, RouterCore
from router.jobs import OnceJob
from router.memory import MemoryRule
from router.policy import Job
from router.protocol.errors import HerdlessError, InvariantViolation
from router.registry import make_policy
from services.loadgen.workload import draw_workload
from services.scenario import Scenario
from services.simulator.faults import FaultyWorld
from services.simulator.network import Delays
from tests.swarm.cases import DELAYS, Case
from tests.swarm.router_watch import RouterWatch
from tests.swarm.server_watch import ServerWatch
from tests.swarm.size import entries
from tests.swarm.watch import Story

MOST_STEPS = 200_000
"""So many things may happen after the last job has arrived."""

REMEMBERED = 150, 40
"""Entries that a core at rest may keep, and how many more for each peer."""


class SwarmWorld(FaultyWorld):
    """A world whose cores are watched.

    Attributes:
        story: What happened.
        ends: Of each job, its outcome and reason, as the generator sees it.
    """

    def __init__(self, case: Case, scenario: Scenario, story: Story) -> None:
        self.story = story
        self.ends: dict[int, tuple[str, str]] = {}
        self._case = case
        self._rng = Random(f"swarm:{case.seed}:doubles")
        self._uneven = Random(f"swarm:{case.seed}:links")
        self._used: dict[tuple[int, int], None] = {}
        self._watches: list[RouterWatch | ServerWatch] = []
        self._process_of = {spec.id: process.name for process in scenario.processes() for spec in process.specs()}
        delays = Delays(*case.delays)
        super().__init__(scenario, self._ended, delays, wrap=self._watch, options=_options(case))

    def _watch(self, core: Any) -> RouterWatch | ServerWatch:
        watch: RouterWatch | ServerWatch
        if isinstance(core, RouterCore):
            doubles = partial(self._doubles, self._case.doubled) if self._case.doubled else None
            watch = RouterWatch(core, self.story, self, self._used, self._case.options.get("retries", 0), doubles)
        else:
            patience = self._scenario.patience
            in_service = patience is not None and patience.in_service
            process = self._process_of[core.spec.id]
            watch = ServerWatch(core, self.story, self, process, in_service, bool(self._case.switches))
        self._watches.append(watch)
        return watch

    def delays_of_link(self) -> tuple[float, float]:
        """Those of the case, or others for each link, so that a new link may be faster than a former one."""
        if not self._case.uneven:
            return super().delays_of_link()
        return self._uneven.choice(DELAYS), self._uneven.choice(DELAYS)

    def _doubles(self, share: float) -> float | None:
        """Whether a message comes twice, and how long after the first time."""
        if self._rng.random() >= share:
            return None
        return self._rng.choice([0.0, 0.0, 1.0, 10.0])

    def _ended(self, effect: EndJob, now: float) -> None:
        job = effect.job.id
        if job in self.ends:
            self.story.fail(f"job {job} ends at its generator as {effect.outcome}, but has ended as {self.ends[job]}")
        self.ends[job] = (effect.outcome, effect.reason)
        if (effect.outcome == "served") != (effect.end is not None and effect.end.outcome == "served"):
            self.story.fail(f"job {job} ends as {effect.outcome}, and its server says {effect.end}")

    def switch(self, router_and_table: tuple[str, Any], now: float) -> None:
        """Another policy for a router, if it is there."""
        name, table = router_and_table
        router = self.routers[name]
        if router.alive:
            router.switch(make_policy(table, Random(f"swarm:{self._case.seed}:{name}:{now}")), now)

    def rerate(self, server_and_rate: tuple[str, float], now: float) -> None:
        """Another rate for a server, if it is there."""
        server, rate = server_and_rate
        process = self.servers[self._process_of[server]]
        if process.alive:
            process.rate(server, rate, now)

    def rest(self, jobs: int) -> None:
        """Let everything end, and look at what is left."""
        for _ in range(MOST_STEPS):
            if self.ended >= jobs:
                break
            if not self.agenda.run_next():
                break
        if self.ended < jobs:
            left = [job for job in range(jobs) if job not in self.ends]
            self.story.fail(f"jobs {left[:5]} never end")
        for _ in range(MOST_STEPS):
            if self._at_rest() or not self.agenda.run_next():
                break
        forgiven = self._case.options.get("memory", {}).get("longest", 0.0)
        self.agenda.run_until(self.agenda.now + 2.0 * max(DELAYS) + 10.0 + forgiven)
        cores = [router.core for router in self.routers.values() if router.alive]
        cores += [core for servers in self.servers.values() if servers.alive for core in servers.cores.values()]
        for core in cores:
            core.finish()
            self._is_small(core)

    def _at_rest(self) -> bool:
        return not any(
            core.length for servers in self.servers.values() if servers.alive for core in servers.cores.values()
        )

    def _is_small(self, watch: Any) -> None:
        peers = len(self._process_of) + len(self.routers)
        number, where = entries(watch.core)
        if number > REMEMBERED[0] + REMEMBERED[1] * peers:
            self.story.fail(f"{type(watch.core).__name__} at rest keeps {number} entries, most of them {where}")


def _options(case: Case) -> dict[str, Any]:
    memory = case.options.get("memory")
    return case.options | ({"memory": MemoryRule.model_validate(memory)} if memory else {})


def violation(case: Case, told: bool = False) -> str:
    """Run a case; what it violates, with its story if that is asked for. Empty: nothing."""
    story = Story(told)
    try:
        run(case, story)
    except InvariantViolation as error:
        return str(error)
    except (HerdlessError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
            ValueError) as error:  # fmt: skip
        what = f"{type(error).__name__}: {error}"
        return "\n  ".join([what, *story.about(what)])
    return ""


def run(case: Case, story: Story | None = None) -> SwarmWorld:
    """Run a case.

    Raises:
        InvariantViolation: Something is not as it must be.
    """
    scenario = case.parsed()
    workload = draw_workload(scenario)
    world = SwarmWorld(case, scenario, story or Story(told=False))
    for at, router, table in case.switches:
        world.schedule(at, world.switch, (router, table))
    for at, server, rate in case.rates:
        world.schedule(at, world.rerate, (server, rate))
    jobs = min(len(workload.instants), case.jobs)
    names = scenario.router_names()
    patience = [None if np.isnan(units) else units for units in workload.patience[:jobs].tolist()]
    reach = (workload.instants[:jobs] + case.delays[0]).tolist()
    rng = Random(f"swarm:{case.seed}:zero")
    sizes = [0.0 if rng.random() < case.zero else size for size in workload.sizes.tolist()]
    patience = [0.0 if units is not None and rng.random() < case.zero else units for units in patience]
    columns = zip(reach, workload.routers.tolist(), sizes, patience, strict=False)
    rng = Random(f"swarm:{case.seed}:once")
    kinds = [OnceJob if rng.random() < case.once else Job for _ in range(jobs)]
    world.run(
        (at, names[router], JobArrived(kinds[id](id, size, patient)))
        for id, (at, router, size, patient) in enumerate(columns)
    )
    world.run_until(scenario.horizon)
    world.rest(jobs)
    return world
