"""PULL: its messages, their order, and what it does without one."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from scipy.stats import chisquare

from router.policies.pull import Pull
from router.policy import Assign, Job, Probe, Server
from router.protocol.needs import PullNeeds, ReportNeeds
from router.registry import make_policy
from server.core import ServerSpec
from tests.property.world import World

ALPHA = 0.001


def fleet(count: int = 4, rates: tuple[float, ...] = (1.0,), capacity: float = 9.0) -> list[Server]:
    return [Server(f"s-{i}", "pool", rates[i % len(rates)], 1, capacity) for i in range(count)]


def pull_over(servers: list[Server], seed: int = 1, **parameters: Any) -> Pull:
    policy = make_policy({"name": "pull", **parameters}, Random(seed))
    assert isinstance(policy, Pull)
    for server in servers:
        policy.on_join(server)
    return policy


def assigned(policy: Pull) -> Assign:
    decision = policy.on_arrival(Job(1))
    assert isinstance(decision, Assign)
    return decision


# -- messages ------------------------------------------------------------------------------------------


def test_a_message_is_used_once() -> None:
    servers = fleet()
    policy = pull_over(servers)
    policy.on_pull(servers[2], 17)
    assert (policy.held(servers[2]), policy.held_total) == (1, 1)
    assert assigned(policy) == Assign(servers[2], number=17)
    assert (policy.held(servers[2]), policy.held_total) == (0, 0)
    assert assigned(policy).fallback


def test_the_same_message_is_held_once() -> None:
    servers = fleet()
    policy = pull_over(servers)
    policy.on_pull(servers[0], 1)
    policy.on_pull(servers[0], 1)
    assert policy.held_total == 1


def test_a_withdrawal_names_its_message() -> None:
    servers = fleet()
    policy = pull_over(servers)
    policy.on_pull(servers[0], 1)
    assert not policy.on_withdraw(servers[0], 2)
    assert not policy.on_withdraw(servers[1], 1)
    assert policy.on_withdraw(servers[0], 1)
    assert not policy.on_withdraw(servers[0], 1)
    assert policy.held_total == 0
    policy.on_pull(servers[0], 3)
    assert assigned(policy).number == 3
    assert not policy.on_withdraw(servers[0], 3)  # it has been used


def test_who_leaves_takes_its_messages_along() -> None:
    servers = fleet()
    policy = pull_over(servers, stale="duplicate")
    for number in range(5):
        policy.on_pull(servers[0], number)
    policy.on_pull(servers[1], 9)
    policy.on_leave(servers[0])
    assert policy.held_total == 1 and policy.held(servers[0]) == 0
    assert not policy.on_withdraw(servers[0], 3)  # it crosses the news on the wire
    assert assigned(policy) == Assign(servers[1], number=9)
    assert {assigned(policy).server.id for _ in range(60)} == {"s-1", "s-2", "s-3"}


def test_the_draw_is_uniform_over_messages_not_servers_or_pools() -> None:
    picks: Counter[int | None] = Counter()
    for seed in range(4000):
        servers = fleet(4, rates=(1.0, 9.0))
        policy = pull_over(servers, seed, stale="duplicate")
        for number in (1, 2, 3):
            policy.on_pull(servers[0], number)
        policy.on_pull(servers[1], 4)
        picks[assigned(policy).number] += 1
    assert set(picks) == {1, 2, 3, 4} and chisquare(list(picks.values())).pvalue > ALPHA


def test_fastest_uses_the_highest_rate_first_and_breaks_ties_at_random() -> None:
    firsts: Counter[str] = Counter()
    for seed in range(1000):
        servers = fleet(6, rates=(1.0, 4.0, 2.0))
        policy = pull_over(servers, seed, order="fastest")
        for number, server in enumerate(servers):
            policy.on_pull(server, number)
        order = [assigned(policy).server for _ in servers]
        assert [server.rate for server in order] == [4.0, 4.0, 2.0, 2.0, 1.0, 1.0]
        firsts[order[0].id] += 1
    assert set(firsts) == {"s-1", "s-4"} and chisquare(list(firsts.values())).pvalue > ALPHA


def test_at_light_load_idle_servers_are_used_alike_whatever_their_rate() -> None:
    # Rates 4 and 1, load 0.05 of 2·4 + 2·1 = 10: jobs at rate 0.5, nearly always all idle.
    specs = [ServerSpec(f"s-{i}", "pool", rate=(4.0, 1.0)[i % 2]) for i in range(4)]
    world = World({"name": "pull"}, specs, seed=5)
    world.settle()
    rng = Random(6)
    for _ in range(2000):
        world.arrive(size=rng.expovariate(1.0))
        world.pass_time(world.now + rng.expovariate(0.5))
    served = Counter(server for _, _, server, _, _ in world.decisions)
    # Idle servers are taken alike, so with the share p of the slow pair p / (1 - p) = (1 - slow) / (1 - fast), where
    # slow = 0.5 p / 2 and fast = 0.5 (1 - p) / 8 are busy shares: p = 0.477. Standard deviation in 2000 jobs: 0.011.
    assert (served["s-1"] + served["s-3"]) / 2000 == pytest.approx(0.477, abs=0.04)


# -- stale rules, with real servers --------------------------------------------------------------------


@pytest.mark.parametrize(("stale", "out"), [("withdraw", 0), ("keep", 1), ("duplicate", 1)])
def test_what_becomes_of_a_message_whose_server_was_hit_at_random(stale: str, out: int) -> None:
    world = World({"name": "pull", "stale": stale}, [ServerSpec("s-0", "pool")], routers=2, seed=3)
    world.settle()
    holder = next(name for name, router in world.routers.items() if router.policy.held_total)
    other = next(name for name in world.routers if name != holder)
    world.arrive(other)  # by fallback, onto the server whose message lies elsewhere
    world.settle()
    assert world.routers[holder].policy.held_total == out
    world.pass_time(2.0)  # the job of size 1 is over
    held = {name: router.policy.held_total for name, router in world.routers.items()}
    assert sum(held.values()) == {"withdraw": 1, "keep": 1, "duplicate": 2}[stale]
    if stale == "keep":
        assert held[holder] == 1


def test_a_message_that_is_wrong_when_used_counts_as_stale() -> None:
    world = World({"name": "pull", "stale": "keep"}, [ServerSpec("s-0", "pool")], routers=2, seed=3)
    world.settle()
    holder = next(name for name, router in world.routers.items() if router.policy.held_total)
    world.arrive(next(name for name in world.routers if name != holder))
    world.settle()
    world.arrive(holder)
    world.finish()
    assert world.routers[holder].tally.stale == 1 and world.routers[holder].tally.fallbacks == 0


@pytest.mark.parametrize("stale", ["withdraw", "keep", "duplicate"])
def test_the_message_identities_hold(stale: str) -> None:
    # withdraw, duplicate: pull-messages = arrivals that started service at once, up to one a server;
    # keep: pull-messages = dispatches that used one, up to one a server.
    specs = [ServerSpec(f"s-{i}", "pool", capacity=3.0) for i in range(5)]
    world = World({"name": "pull", "stale": stale}, specs, routers=3, seed=8)
    world.settle()
    rng = Random(9)
    for _ in range(3000):
        world.arrive(rng.choice(list(world.routers)), rng.expovariate(1.0))
        world.pass_time(world.now + rng.expovariate(4.0))
    world.finish()
    posted = sum(server._announcer._number for server in world.servers.values())
    used = sum(number is not None for _, _, _, number, _ in world.decisions)
    at_once = sum(server.started_at_once for server in world.servers.values())
    assert 0 <= posted - (used if stale == "keep" else at_once) <= 5
    assert 500 < used < 3000


# -- fallbacks -----------------------------------------------------------------------------------------


def test_the_random_fallback_is_uniform_over_all_and_never_skips_a_full_one() -> None:
    servers = fleet(4, rates=(1.0, 5.0), capacity=1.0)
    for server in servers[:2]:
        server.view = server.outstanding = 1
    policy = pull_over(servers)
    picks = Counter(assigned(policy).server.id for _ in range(8000))
    assert len(picks) == 4 and chisquare(list(picks.values())).pvalue > ALPHA


def test_the_weighted_fallback_draws_by_rate() -> None:
    policy = pull_over(fleet(2, rates=(1.0, 4.0)), fallback="weighted")
    picks = Counter(assigned(policy).server.id for _ in range(10_000))
    assert chisquare([picks["s-0"], picks["s-1"]], [2000, 8000]).pvalue > ALPHA
    assert assigned(policy).fallback


def test_the_probing_fallback_takes_the_shorter_of_two() -> None:
    servers = fleet(6)
    policy = pull_over(servers, fallback="power_of_d")
    assert policy.needs.probes
    for _ in range(50):
        decision = policy.on_arrival(Job(1))
        assert isinstance(decision, Probe) and len(set(decision.servers)) == 2
        first, second = decision.servers
        assert policy.on_reports(Job(1), [(first, 4), (second, 2)]) == Assign(second, None, 2, True)
    # One that is full is not preferred for being shorter; if all are, the server decides.
    small, large = Server("small", "pool", 1.0, 1, 1.0), Server("large", "pool", 1.0, 1, 9.0)
    assert policy.on_reports(Job(1), [(small, 1), (large, 5)]).server is large
    assert policy.on_reports(Job(1), [(small, 1), (large, 9)]).server is small


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        ("joined", "fast"),  # (3 + 1)/4 = 1 < (1 + 1)/1 = 2
        ("queue", "slow"),  # 1 < 3
        ("present", "fast"),  # 3/4 < 1
    ],
)
@pytest.mark.parametrize("fallback", ["least_requests", "view"])
def test_the_knowing_fallbacks_rank(fallback: str, rank: str, expected: str) -> None:
    slow, fast = Server("slow", "pool", 1.0, 1, 9.0), Server("fast", "pool", 4.0, 1, 9.0)
    slow.view = slow.outstanding = 1
    fast.view = fast.outstanding = 3
    policy = pull_over([slow, fast], fallback=fallback, rank=rank)
    decision = assigned(policy)
    assert decision.server.id == expected and decision.fallback and decision.number is None
    assert decision.expected == (decision.server.view if fallback == "view" else None)


def test_the_view_is_touched_by_own_dispatches_and_own_ends_alone() -> None:
    servers = fleet(2)
    servers[0].view, servers[1].view = 2, 3
    policy = pull_over(servers, fallback="view", rank="queue")
    policy.on_pull(servers[1], 1)
    policy.on_withdraw(servers[1], 1)
    assert assigned(policy).server is servers[0]
    servers[0].view = 4  # own dispatches
    policy.on_sent(servers[0])
    assert assigned(policy).server is servers[1]
    servers[0].view = 1  # came back with an own end
    policy.on_job_ended(servers[0])
    assert assigned(policy).server is servers[0]


def test_the_view_is_uniform_while_nothing_is_known() -> None:
    policy = pull_over(fleet(3), fallback="view")
    picks = Counter(assigned(policy).server.id for _ in range(3000))
    assert len(picks) == 3 and chisquare(list(picks.values())).pvalue > ALPHA


def test_the_view_costs_no_message_of_its_own() -> None:
    # 1 report a server at the start, and none after it.
    specs = [ServerSpec(f"s-{i}", "pool") for i in range(4)]
    world = World({"name": "pull", "fallback": "view"}, specs, seed=2)
    world.settle()
    rng = Random(3)
    kinds: Counter[str] = Counter()
    for _ in range(300):
        world.arrive(size=rng.expovariate(1.0))
        while any(link.to_server or link.to_router for link in world.links.values()):
            kinds.update(type(m).__name__ for link in world.links.values() for m in [*link.to_server, *link.to_router])
            world.deliver(rng)
        world.tick()
    assert kinds["Report"] == kinds["Probe"] == 0 and kinds["Pull"] > 0


# -- needs ---------------------------------------------------------------------------------------------


def test_needs_say_what_the_parameters_say() -> None:
    needs = pull_over([], stale="keep", placement="shortest_of", k=3, announce_at="vacancy").needs
    assert needs.pull == PullNeeds(announce_at="vacancy", stale="keep", placement="shortest_of", k=3)
    assert needs.reports is None and not needs.probes
    assert pull_over([], fallback="view").needs.reports == ReportNeeds(on_end=True)
    assert pull_over([]).needs.pull == PullNeeds()
