"""Runs a case with watchers around every core."""

from __future__ import annotations

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
from services.simulator.faulty_world import FaultyWorld
from services.simulator.links import Link
from services.simulator.network import Delays
from tests.swarm.cases import DELAYS, Case
from tests.swarm.doubles import DoublingWatch
from tests.swarm.router_watch import RouterWatch
from tests.swarm.size import entries
from tests.swarm.story import Story
from tests.swarm.watch import Pair
from tests.swarm.watchers import Watchers

MOST_STEPS = 200_000
"""So many things may happen after the last job has arrived."""

REMEMBERED = 150, 40
"""Entries that a core at rest may keep, and how many more for each peer."""


class SwarmWatchers(Watchers):
    """Watchers of a world in which links come and go: what lies between a router and a server is that of a link."""

    def __init__(self, case: Case, world: SwarmWorld, scenario: Scenario, story: Story) -> None:
        super().__init__(scenario, story, options=_options(case), switched=bool(case.switches))
        self._world = world
        self._doubled = case.doubled
        self._rng = Random(f"swarm:{case.seed}:doubles")

    def router_watch(self, core: RouterCore) -> RouterWatch:
        """A watcher for a router, to which messages may come twice."""
        if not self._doubled:
            return super().router_watch(core)
        return DoublingWatch(core, self._world, self._doubled, self._rng)

    def pair_at_router(self, router: str, server: str) -> Pair:
        """That of the link which the router has."""
        return _pair(self._world.routers[router].by_server[server].link, server)

    def pair_at_server(self, server: str, router: str) -> Pair:
        """That of the link which the server has."""
        process = self._world.servers[self._world.process_of[server]]
        return _pair(process.by_router[router].link, server)


def _pair(link: Link, server: str) -> Pair:
    pairs: dict[str, Pair] = link.__dict__.setdefault("pairs", {})
    return pairs.setdefault(server, Pair(server))


class SwarmWorld(FaultyWorld):
    """A world whose cores are watched.

    Attributes:
        story: What happened. `watchers`: who looks on.
        ends: Of each job, its outcome and reason, as the generator sees it.
        process_of: The process of each server, by name.
    """

    def __init__(self, case: Case, scenario: Scenario, story: Story) -> None:
        self.story = story
        self.ends: dict[int, tuple[str, str]] = {}
        self.process_of = {spec.id: process.name for process in scenario.processes() for spec in process.specs()}
        self.watchers = SwarmWatchers(case, self, scenario, story)
        self._case = case
        self._uneven = Random(f"swarm:{case.seed}:links")
        story.clock = lambda _: self.agenda.now
        super().__init__(scenario, self._ended, Delays(*case.delays), wrap=self.watchers.watch, options=_options(case))

    def delays_of_link(self) -> tuple[float, float]:
        """Those of the case, or others for each link, so that a new link may be faster than a former one."""
        if not self._case.uneven:
            return super().delays_of_link()
        return self._uneven.choice(DELAYS), self._uneven.choice(DELAYS)

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
        process = self.servers[self.process_of[server]]
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
        self.story.now = self.agenda.now
        cores = [router.core for router in self.routers.values() if router.alive]
        cores += [core for servers in self.servers.values() if servers.alive for core in servers.cores.values()]
        for core in cores:
            core.finish()
            self._is_small(core)
        for router in self.routers.values():
            if router.alive:
                router.core.forgives()

    def _at_rest(self) -> bool:
        return not any(
            core.length for servers in self.servers.values() if servers.alive for core in servers.cores.values()
        )

    def _is_small(self, watch: Any) -> None:
        peers = len(self.process_of) + len(self.routers)
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
