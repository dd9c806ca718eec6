"""A scenario in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from router.core import JobArrived, RouterCore, ServerJoined
from router.policy import Job, Server
from router.protocol.errors import LocalProtocolError, SettingsError
from router.protocol.messages import build
from router.registry import make_policy
from server.core import Open, RouterJoined, ServerCore
from services.loadgen.workload import Workload, draw_workload
from services.measure.records import Floats, Run
from services.scenario import Scenario
from services.simulator.faulty_world import FaultyWorld
from services.simulator.network import NO_DELAY, Delays
from services.simulator.recorder import Reader, Recorder
from services.simulator.slotted import simulate_slotted
from services.simulator.world import Core, Handle, World, entrance

READINGS = 200
"""How often the message counters are read in a run."""

BLOCK = 1 << 16
"""Jobs turned from arrays into objects at a time."""

MOST_REPORTS = 300_000_000
"""Periodic reports in one run: a quarter of an hour's work at the least."""

Wrap = Callable[[Any], Core]


def simulate(
    scenario: Scenario,
    workload: Workload | None = None,
    *,
    sent: Floats | None = None,
    delays: Delays = NO_DELAY,
    replication: int = 0,
    wrap: Wrap | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run a scenario in virtual time, from empty until the last job has ended.

    Slotted time has neither delays nor cores; see `services.simulator.slotted`.

    Units: time units.

    Args:
        scenario: What to run.
        workload: The jobs; drawn from the scenario if left out.
        sent: Shape (jobs,), rising: the instants at which the jobs leave the generator, if not the intended ones.
        delays: One-way delays of the network.
        replication: Independent choices of the policies on the same jobs: each number gives others.
        wrap: Puts something around each core, to watch it.
        progress: Called now and then with the share of jobs sent.

    Returns:
        The same that a live run leaves behind.

    Raises:
        SettingsError: The policy asks for so many reports that the run would not end soon.
    """
    _check_reports(scenario)
    if scenario.run.time == "slotted":
        if sent is not None or delays != NO_DELAY or wrap is not None:
            raise LocalProtocolError("slotted time: there are no instants of sending, delays or cores to be given")
        return simulate_slotted(scenario, workload, replication=replication, progress=progress)
    if workload is None:
        workload = draw_workload(scenario)
    sent = workload.instants if sent is None else sent
    fleet = scenario.fleet()
    jobs = len(workload.instants)
    recorder = Recorder(fleet, jobs, delays)
    world: World | FaultyWorld
    entrances: Sequence[Any]
    if scenario.faults:
        world = FaultyWorld(scenario, recorder.ended, delays, replication, wrap)
        routers, entrances = world.cores, fleet.routers
    else:
        world, routers, entrances = _peaceful(scenario, recorder, delays, replication, wrap)

    reader = Reader(world, routers)
    reader.handle(None, 0.0)
    for reading in range(1, READINGS + 1):
        world.schedule(scenario.horizon * reading / READINGS, reader.handle, None)
    world.run(_arrivals(entrances, workload, sent + delays.generator_router, progress))
    world.run_until(scenario.horizon)
    world.run_out(jobs)
    failed: Counter[str] = Counter()
    for core in routers:
        failed.update({server.id: server.failed for server in core.servers.values() if server.failed})
    return Run(fleet, recorder.records(workload, sent), reader.log(), failed)


def _peaceful(
    scenario: Scenario, recorder: Recorder, delays: Delays, replication: int, wrap: Wrap | None
) -> tuple[World, list[RouterCore], list[Handle]]:
    """A world in which nothing goes wrong, its routers, and where jobs enter it."""
    wrapped = wrap or (lambda core: core)
    routers = _routers(scenario, scenario.router_names(), replication)
    servers = _servers(scenario, replication)
    router_cores = {core.id: wrapped(core) for core in routers}
    server_cores = {core.spec.id: wrapped(core) for core in servers}
    world = World(router_cores, server_cores, recorder.ended, delays)
    _connect(world, router_cores, server_cores, routers, servers)
    return world, routers, [entrance(router_cores[core.id], JobArrived) for core in routers]


def _check_reports(scenario: Scenario) -> None:
    needs = make_policy(scenario.policy, Random(0)).needs
    every = None if needs.reports is None else needs.reports.every
    if every is None:
        return
    servers = sum(pool.servers for pool in scenario.pools)
    shortest = servers * scenario.routers.count * scenario.horizon / MOST_REPORTS
    if every < shortest:
        raise SettingsError(
            f"policy.every = {every:g}: {servers} servers would send {MOST_REPORTS * shortest / every:.2g} reports "
            f"within {scenario.horizon:g} time units: choose every >= {shortest:.2g}, or a shorter run"
        )


def _routers(scenario: Scenario, names: list[str], replication: int) -> list[RouterCore]:
    suffix = f":{replication}" if replication else ""
    return [
        RouterCore(
            name,
            make_policy(scenario.policy, Random(f"{scenario.seed}:{name}:policy{suffix}")),
            probe_timeout=float("inf"),
            ceiling=1 << 62,
            **scenario.routers.upkeep,
        )
        for name in names
    ]


def _servers(scenario: Scenario, replication: int) -> list[ServerCore]:
    suffix = f":{replication}" if replication else ""
    patience = scenario.patience
    return [
        ServerCore(
            spec,
            Random(f"{scenario.seed}:{spec.id}:routers{suffix}"),
            abandons_in_service=patience is not None and patience.in_service,
        )
        for spec in scenario.server_specs()
    ]


def _connect(
    world: World,
    router_cores: dict[str, Core],
    server_cores: dict[str, Core],
    routers: list[RouterCore],
    servers: list[ServerCore],
) -> None:
    """Join everybody to everybody at instant 0, then let every server post its first pull-message."""
    for server in servers:
        spec = server.spec
        for router in routers:
            known = Server(spec.id, spec.pool, spec.rate, spec.slots, spec.capacity, spec.pool_index)
            joined = RouterJoined(router.id, router.policy.needs)
            world.run([(0.0, router_cores[router.id].handle, ServerJoined(known))])
            world.run([(0.0, server_cores[spec.id].handle, joined)])
    world.run([(0.0, server_cores[server.spec.id].handle, Open()) for server in servers])


def _arrivals(
    routers: Sequence[Any],
    workload: Workload,
    reach: Floats,
    progress: Callable[[float], None] | None,
) -> Iterator[tuple[float, Any, JobArrived]]:
    """Each job, with the instant at which it reaches its router, and where that is entered."""
    patience = workload.patience.astype(object)
    patience[np.isnan(workload.patience)] = None
    for start in range(0, len(reach), BLOCK):
        part = slice(start, start + BLOCK)
        columns = zip(
            reach[part].tolist(),
            workload.routers[part].tolist(),
            workload.sizes[part].tolist(),
            patience[part].tolist(),
            strict=True,
        )
        for id, (at, router, size, patient) in enumerate(columns, start):
            yield at, routers[router], build(JobArrived, (build(Job, (id, size, patient)),))
        if progress is not None:
            progress(min(1.0, (start + BLOCK) / len(reach)))
