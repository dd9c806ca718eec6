"""A server that crashes with each job and is started again at once: it looks idle, and draws jobs unless remembered."""

from __future__ import annotations

from typing import Any

import pytest

from router.core import EndJob, JobArrived
from router.policy import Job
from router.protocol.messages import Dispatch
from router.registry import policy_names
from server.core import ServerCore
from services.loadgen.workload import draw_workload
from services.scenario import Scenario, parse_scenario
from services.simulator.faulty_world import FaultyWorld

ROUTERS = 2
FAILURES, FORGIVE, LONGEST = 3, 20.0, 160.0
DURATION = 200.0
AFTER = 0.01
"""So long after it takes a job the server is gone; no service of these jobs is as short."""

SCENARIO = """
name = "crash-loop"
policy.name = "{policy}"
arrivals.load = 0.5
service.law = "deterministic"
run = {{warmup = 0, duration = {duration}}}
[routers]
count = {routers}
{memory}
[[pools]]
name = "a"
servers = 10
processes = 10
capacity = 20
"""


class Crashing:
    """A server core that brings its process down with each job."""

    def __init__(self, core: ServerCore, world: CrashingWorld) -> None:
        self._core = core
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def handle(self, event: Any, now: float) -> list[Any]:
        """Crash soon, if it is a job."""
        if type(event) is Dispatch:
            self._world.schedule(now + AFTER, self._world.crash, self)
        return self._core.handle(event, now)


class CrashingWorld(FaultyWorld):
    """A world in which a-3 crashes with each job.

    Attributes:
        crashes: How often.
        lost: Jobs that were lost with it.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.crashes = self.lost = 0
        self._latest: Crashing | None = None
        super().__init__(scenario, self._count, wrap=self._crashing)

    def crash(self, core: Crashing, now: float) -> None:
        """The process of a core is gone, and the next incarnation is there; nothing, if it is gone already."""
        if core is self._latest:
            self.crashes += 1
            self.restart(self.servers["servers-a-3"], now)

    def _crashing(self, core: Any) -> Any:
        if not isinstance(core, ServerCore) or core.spec.id != "a-3":
            return core
        self._latest = Crashing(core, self)
        return self._latest

    def _count(self, end: EndJob, now: float) -> None:
        self.lost += end.outcome != "served"


def lived(policy: str, memory: str) -> tuple[CrashingWorld, int]:
    """A world that is over, and how many jobs it has seen."""
    text = SCENARIO.format(policy=policy, memory=memory, duration=DURATION, routers=ROUTERS)
    scenario = parse_scenario(text, "crash-loop.toml")
    jobs = draw_workload(scenario)
    world = CrashingWorld(scenario)
    names = scenario.router_names()
    rows = zip(jobs.instants.tolist(), jobs.routers.tolist(), jobs.sizes.tolist(), strict=True)
    world.run((at, names[router], JobArrived(Job(id, size, None))) for id, (at, router, size) in enumerate(rows))
    world.run_out(len(jobs.instants))
    return world, len(jobs.instants)


@pytest.mark.parametrize("policy", policy_names())
def test_a_server_that_crashes_with_each_job_gets_few_if_that_is_remembered(policy: str) -> None:
    forgetful, jobs = lived(policy, "")
    world, _ = lived(policy, f"memory = {{failures = {FAILURES}, forgive = {FORGIVE}, longest = {LONGEST}}}")
    # At each router three links in a row are lost; then it is tried after 20, 60 and 140 time units, next after 300.
    assert world.crashes <= ROUTERS * (FAILURES + 3)
    assert world.lost < 0.02 * jobs
    # A tenth of some 1,000 jobs is fair; 60 are four standard deviations less.
    assert forgetful.lost > 0.06 * jobs
