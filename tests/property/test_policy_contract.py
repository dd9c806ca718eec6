"""What every policy must do, tested for each that the registry finds and for each value that its parameters offer."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from types import FrameType
from typing import Any

import pytest
from scipy.stats import chisquare

from router.policy import Assign, Block, Fleet, Job, Policy, Probe, Server
from router.protocol.errors import SettingsError
from router.registry import make_parameters, make_policy, policy_names, policy_table
from server.core import ServerSpec
from tests.property.variants import build, label, tables
from tests.property.world import World
from tests.tidy.tree import ROOT

TABLES = tables()
every_variant = pytest.mark.parametrize("table", TABLES, ids=label)
ALPHA = 1e-5  # for each of some 250 tests: one false alarm in 400 seeds, and the seed is fixed


def specs(count: int, capacity: float = 4.0) -> list[ServerSpec]:
    """Two pools of rates 1 and 2, alternating."""
    return [
        ServerSpec(f"s-{i}", ("slow", "fast")[i % 2], rate=1.0 + i % 2, slots=1, capacity=capacity, pool_index=i % 2)
        for i in range(count)
    ]


def random_life(world: World, rng: Random, steps: int, others: Sequence[dict[str, Any]], moody: bool) -> None:
    """Anything that can happen, in a random order; `moody`: messages are delivered late and links interleave."""
    spare = {spec.id: spec for spec in specs(8)}
    for _ in range(steps):
        dice = rng.random()
        drained = [id for id, server in world.servers.items() if server.draining]
        if dice < 0.50:
            world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
        elif dice < 0.90:
            world.tick()
        elif dice < 0.93 and len(world.servers) < len(spare):
            world.join(rng.choice([spec for id, spec in spare.items() if id not in world.servers]))
        elif dice < 0.95 and len(world.servers) - len(drained) > 1:
            world.drain(rng.choice([id for id in world.servers if id not in drained]))
        elif dice < 0.98 and len(world.servers) > 1:
            world.leave(rng.choice(list(world.servers)))
        elif others and dice < 0.99:
            world.switch(rng.choice(list(world.routers)), rng.choice(list(others)))
        if moody:
            for _ in range(rng.randrange(4)):
                world.deliver(rng)
        else:
            world.settle()
            world.check_settled()
        world.check()


@every_variant
def test_conserves_jobs_and_chooses_only_who_is_there(table: dict[str, Any]) -> None:
    rng = Random(f"life:{label(table)}")
    for moody in (False, True):
        world = World(table, specs(5), routers=3, seed=7)
        random_life(world, rng, 300, [table, *rng.sample(TABLES, 2)], moody)
        world.finish()
        world.check()
        world.check_settled()
        assert len(world.ends) == world.jobs
        for router in world.routers.values():
            for id in list(router.servers):
                if id in world.servers:
                    world.leave(id)
            assert router.policy.held_total == 0


# -- ties --------------------------------------------------------------------------------------------


def knowing(table: dict[str, Any], seed: object, servers: list[Server], jobs: int) -> Policy:
    """A policy that believes each of these servers to have so many jobs, by whatever way it learns that."""
    policy = build(table, seed)
    for server in servers:
        server.view = None
        server.outstanding = 0
        policy.on_join(server)
    for server in servers:
        server.view = server.outstanding = server.sent = jobs
        policy.on_report(server)
        policy.on_job_ended(server)
    return policy


def decide(policy: Policy, answer: Callable[[Server], int], job: int = 1) -> Assign | Block:
    decision = policy.on_arrival(Job(job))
    if isinstance(decision, Probe):
        asked = decision.servers
        assert 0 < len(asked) == len({server.id for server in asked})
        decision = policy.on_reports(Job(job), [(server, answer(server)) for server in asked])
    return decision


@every_variant
@pytest.mark.parametrize("jobs", [0, 1, 9], ids=["idle", "busy", "full"])
def test_equals_are_equally_likely_in_any_order(table: dict[str, Any], jobs: int) -> None:
    capacity = 9.0
    names = [f"s-{i}" for i in range(5)]
    for order in (names, names[::-1]):
        picks: Counter[str] = Counter()
        for seed in range(1000):
            servers = [Server(name, "pool", 1.0, 1, capacity) for name in order]
            choice = decide(knowing(table, seed, servers, jobs), lambda server: jobs)
            if isinstance(choice, Block):
                assert jobs == 9, "lost although there was vacancy"
                return
            picks[choice.server.id] += 1
        assert chisquare([picks[name] for name in names]).pvalue > ALPHA


@every_variant
def test_pull_messages_of_equals_are_used_equally_often(table: dict[str, Any]) -> None:
    if build(table).needs.pull is None:
        pytest.skip("wants no pull-messages")
    picks: Counter[str] = Counter()
    for seed in range(1000):
        servers = [Server(f"s-{i}", "pool", 1.0, 1, 9.0) for i in range(5)]
        policy = knowing(table, seed, servers, 0)
        for number, server in enumerate(servers[1:]):
            policy.on_pull(server, number)
        choice = decide(policy, lambda server: 0)
        assert isinstance(choice, Assign) and choice.number is not None
        picks[choice.server.id] += 1
    assert "s-0" not in picks
    assert chisquare([picks[f"s-{i}"] for i in range(1, 5)]).pvalue > ALPHA


# -- no starvation -----------------------------------------------------------------------------------


@every_variant
def test_light_traffic_reaches_equal_servers_alike(table: dict[str, Any]) -> None:
    world = World(table, [ServerSpec(f"s-{i}", "pool", capacity=5.0) for i in range(3)], seed=11)
    world.settle()
    for _ in range(300):  # one at a time
        world.arrive(size=0.1)
        world.pass_time(world.now + 2.0)
    served = Counter(server for _, _, server, _, _ in world.decisions)
    # 300 independent draws of 3: mean 100, standard deviation 8.2
    assert len(served) == 3 and all(abs(count - 100) <= 33 for count in served.values())
    assert Counter(end.outcome for end in world.ends.values()) == {"served": 300}


@every_variant
def test_every_server_gets_work_at_high_load_and_newcomers_too(table: dict[str, Any]) -> None:
    world = World(table, specs(4), routers=2, seed=12)
    world.settle()
    rng = Random(13)
    for _ in range(400):
        world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
        world.pass_time(world.now + rng.expovariate(5.4))  # load 5.4 / (2·1 + 2·2) = 0.9
    assert {server for _, _, server, _, _ in world.decisions} == {"s-0", "s-1", "s-2", "s-3"}
    world.leave("s-1")
    for spec in specs(6)[4:]:
        world.join(spec)
    before = len(world.decisions)
    for _ in range(400):
        world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
        world.pass_time(world.now + rng.expovariate(6.0))
    assert {server for _, _, server, _, _ in world.decisions[before:]} == {"s-0", "s-2", "s-3", "s-4", "s-5"}


@every_variant
def test_the_last_server_gets_everything_and_nobody_means_failed(table: dict[str, Any]) -> None:
    world = World(table, specs(3, capacity=100.0))
    world.settle()
    world.leave("s-0")
    world.drain("s-2")
    world.settle()
    jobs = [world.arrive() for _ in range(5)]
    world.finish()
    assert [server for _, _, server, _, _ in world.decisions] == ["s-1"] * 5
    assert [world.ends[job].outcome for job in jobs] == ["served"] * 5
    world.leave("s-1")
    end = world.ends[world.arrive()]
    assert (end.outcome, end.reason) == ("failed", "no_server")


# -- determinism -------------------------------------------------------------------------------------


def digest() -> str:
    """All decisions of all variants in a random life, as one short text."""
    total = hashlib.sha256()
    for table in TABLES:
        world = World(table, specs(6), routers=3, seed=21)
        random_life(world, Random(22), 120, [table], moody=True)
        world.finish()
        total.update(repr((label(table), world.decisions, sorted(world.ends))).encode())
    return total.hexdigest()


def test_the_same_seed_decides_the_same_whatever_the_hash_seed() -> None:
    code = "from tests.property.test_policy_contract import digest; print(digest())"
    digests = {digest()}
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        digests.add(run.stdout.strip())
    assert len(digests) == 1


@every_variant
def test_other_seeds_decide_otherwise(table: dict[str, Any]) -> None:
    def choices(seed: int) -> list[str]:
        servers = [Server(f"s-{i}", "pool", 1.0, 1, 9.0) for i in range(50)]
        policy = knowing(table, seed, servers, 0)
        return [choice.server.id for _ in range(5) if isinstance(choice := decide(policy, lambda s: 0), Assign)]

    assert choices(1) == choices(1)
    assert len({tuple(choices(seed)) for seed in range(4)}) == 4


class CountingRandom(Random):
    drawn = 0

    def random(self) -> float:
        CountingRandom.drawn += 1
        return super().random()


@every_variant
def test_a_choice_of_one_takes_no_number(table: dict[str, Any]) -> None:
    policy = make_policy(table, CountingRandom(1))
    server = Server("s-0", "pool", 1.0, 1, 9.0)
    policy.on_join(server)
    server.view = 0
    policy.on_report(server)
    CountingRandom.drawn = 0
    assert isinstance(decide(policy, lambda server: 0), Assign)
    # A weighted draw and a draw with replacement are draws, whatever comes of them.
    if not (table["name"] == "weighted_random" or "weighted" in table.values() or "replacement" in table):
        assert CountingRandom.drawn <= (table["name"] == "round_robin")


# -- cost --------------------------------------------------------------------------------------------


class WatchedServer(Server):
    """Counts how often anything of any server is looked at."""

    __slots__ = ()
    looks = 0

    def __getattribute__(self, name: str) -> Any:
        WatchedServer.looks += 1
        return super().__getattribute__(name)


def work(table: dict[str, Any], count: int) -> tuple[int, int] | None:
    """Looks at servers, and Python instructions, in 50 rounds of arrival, dispatch, end; `None`: all are asked."""
    servers: list[Server] = [WatchedServer(f"s-{i}", "pool", 1.0 + i % 7, 1, 9.0, i % 2) for i in range(count)]
    policy = knowing(table, 1, servers, 0)
    decide(policy, lambda server: 0)  # tables that are made once
    for number, server in enumerate(servers[:: max(1, count // 40)]):
        policy.on_pull(server, number)  # some rounds use messages, others fall back
    instructions = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal instructions
        frame.f_trace_opcodes = True
        instructions += event == "opcode"
        return trace

    WatchedServer.looks = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for job in range(50):
            decision = policy.on_arrival(Job(job))
            if isinstance(decision, Probe):
                if len(decision.servers) == count:
                    return None
                decision = policy.on_reports(Job(job), [(server, 0) for server in decision.servers])
            assert isinstance(decision, Assign)
            server = decision.server
            server.outstanding += 1
            server.view = server.outstanding
            policy.on_sent(server)
            policy.on_report(server)
            server.outstanding -= 1
            server.view = server.outstanding
            policy.on_job_ended(server)
    finally:
        sys.settrace(before)
    return WatchedServer.looks, instructions


@every_variant
def test_a_decision_among_ten_thousand_looks_at_few(table: dict[str, Any]) -> None:
    few, many = work(table, 100), work(table, 10_000)
    if few is None or many is None:
        pytest.skip("asks every server, as it says")
    assert many[0] / 50 < 60  # looks at servers in a round
    assert many[1] < 1.5 * few[1] + 2000  # a scan of 10 000 would be 10 000 · 50 at least


# -- parameters --------------------------------------------------------------------------------------


@every_variant
def test_the_table_in_force_makes_the_same_policy_again(table: dict[str, Any]) -> None:
    policy = build(table)
    full = policy_table(policy)
    assert {key: full[key] for key in table} == table
    again = make_policy(full, Random(1))
    assert (type(again), again.parameters, again.needs) == (type(policy), policy.parameters, policy.needs)


@pytest.mark.parametrize("name", policy_names())
def test_a_parameter_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^policy\.nonsense: no such key; known keys: .+ \(policy {name}\)$"):
        make_parameters({"name": name, "nonsense": 1})


@every_variant
def test_a_fleet_that_suits_is_accepted(table: dict[str, Any]) -> None:
    fleet = Fleet(["slow", "fast"], [2, 2], [1.0, 2.0], [1, 1], [4.0, 4.0])
    make_parameters(table)[1].check(fleet)


@pytest.mark.parametrize("name", policy_names())
def test_says_what_it_does(name: str) -> None:
    text = type(build({"name": name})).__doc__ or ""
    assert [part for part in ("Rule:", "Equalises:", "Needs:", "Source:") if part not in text] == []
