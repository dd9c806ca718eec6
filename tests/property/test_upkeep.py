"""Every policy under failures, with retries, a memory and a watch over views: nothing is lost, and nobody starves."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from scipy.stats import chisquare

from router.memory import MemoryRule
from server.core import Disturbed, ServerSpec
from tests.property.variants import label, tables
from tests.property.world import World

TABLES = tables()
MEMORY = MemoryRule(failures=2, forgive=4.0, longest=16.0, hang=4.0)
MISBEHAVIOUR = [Disturbed(failing=True), Disturbed(hung=True), Disturbed(slow=5.0), Disturbed()]


def specs(count: int) -> list[ServerSpec]:
    """Servers that are alike."""
    return [ServerSpec(f"s-{i}", "pool", rate=1.0, slots=1, capacity=6.0) for i in range(count)]


def misbehave(world: World, rng: Random, steps: int, moody: bool) -> None:
    """Anything that can happen, in a random order; `moody`: messages are delivered late and links interleave."""
    spare = {spec.id: spec for spec in specs(7)}
    for _ in range(steps):
        dice = rng.random()
        if dice < 0.45:
            world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
        elif dice < 0.85:
            world.tick()
        elif dice < 0.93:
            world.disturb(rng.choice(list(world.servers)), rng.choice(MISBEHAVIOUR))
        elif dice < 0.96 and len(world.servers) < len(spare):
            world.join(rng.choice([spec for id, spec in spare.items() if id not in world.servers]))
        elif dice < 0.99 and len(world.servers) > 1:
            world.leave(rng.choice(list(world.servers)))
        if moody:
            for _ in range(rng.randrange(4)):
                world.deliver(rng)
        else:
            world.settle()
            world.check_settled()
        world.check()


@pytest.mark.parametrize("place", range(len(TABLES)), ids=[label(table) for table in TABLES])
def test_nothing_is_lost_and_nobody_starves(place: int) -> None:
    table, moody, stale = TABLES[place], bool(place % 2), ("ignore", "average", "full")[place % 3]
    rng = Random(label(table))
    world = World(table, specs(5), routers=2, retries=2, memory=MEMORY, stale_after=3.0, stale=stale)
    misbehave(world, rng, 120, moody)
    for id in world.servers:
        world.disturb(id, Disturbed())
    world.finish()
    world.check()
    assert len(world.ends) == world.jobs
    # All is well again, and all is forgiven or tried: every server gets jobs.
    world.pass_time(world.now + 100.0)
    world.check_settled()
    begun = len(world.decisions)
    for _ in range(60 * len(world.servers)):
        world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
        world.pass_time(world.now + 1.2 / len(world.servers))
    got = Counter(server for _, _, server, _, _ in world.decisions[begun:])
    assert min(got[id] for id in world.servers) > 0 and set(got) == set(world.servers)


def test_after_servers_came_and_went_jobs_are_spread_evenly_and_nothing_refers_to_those_that_left() -> None:
    # 5 servers become 10 and then 6, under load; 20 service times later each of the 6 gets its share.
    rng = Random(8)
    every = {spec.id: spec for spec in specs(10)}
    for table in ({"name": "pull"}, {"name": "jsq"}, {"name": "lsq"}, {"name": "power_of_d"}, {"name": "random"}):
        world = World(table, specs(5), routers=2, seed=3)

        def load(units: float, world: World = world) -> None:
            until = world.now + units
            while world.now < until:
                world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
                world.pass_time(world.now + rng.expovariate(0.6 * len(world.servers)))

        load(20.0)
        for id in list(every)[5:]:
            world.join(every[id])
        load(20.0)
        gone = ["s-0", "s-3", "s-6", "s-9"]
        for id in gone:
            world.leave(id)
        load(20.0)
        begun = len(world.decisions)
        load(250.0)
        got = Counter(server for _, _, server, _, _ in world.decisions[begun:])
        assert set(got) == set(every) - set(gone)
        # Consecutive choices of jsq and pull are negatively correlated: the test is on the safe side.
        assert chisquare([got[id] for id in sorted(got)]).pvalue > 1e-3, (table, got)
        world.finish()
        for router in world.routers.values():
            assert set(router.servers) == set(world.servers) and not router.in_flight
            assert referred(router.policy) <= set(world.servers)


def referred(policy: Any) -> set[str]:
    """The names of the servers that can be reached from a policy."""
    seen: set[int] = set()
    names: set[str] = set()

    def look(value: Any) -> None:
        if id(value) in seen or isinstance(value, str | int | float | Random | type):
            return
        seen.add(id(value))
        if type(value).__name__ == "Server":
            names.add(value.id)
            return
        children: list[Any] = []
        if isinstance(value, dict):
            children += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set):
            children += list(value)
        children += list(getattr(value, "__dict__", {}).values())
        for kind in type(value).__mro__:
            children += [getattr(value, slot) for slot in getattr(kind, "__slots__", ()) if hasattr(value, slot)]
        for child in children:
            look(child)

    look(policy)
    return names
