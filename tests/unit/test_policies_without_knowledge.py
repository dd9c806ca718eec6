"""Policies that know nothing of the servers' jobs: random, weighted_random, round_robin."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from scipy.stats import chisquare

from router.policy import Assign, Fleet, Job, Policy, Server
from router.protocol.errors import SettingsError
from router.protocol.needs import Needs
from router.registry import make_parameters, make_policy

ALPHA = 0.001
INF = float("inf")


def fleet_of(*pools: tuple[int, float, float]) -> list[Server]:
    """Servers, pool after pool, from (servers, rate, capacity)."""
    return [
        Server(f"p{index}-{number + 1}", f"p{index}", rate, 1, capacity, index)
        for index, (servers, rate, capacity) in enumerate(pools)
        for number in range(servers)
    ]


def policy_over(servers: list[Server], seed: int = 1, **table: Any) -> Policy:
    policy = make_policy(table, Random(seed))
    for server in servers:
        policy.on_join(server)
    return policy


def choose(policy: Policy) -> str:
    decision = policy.on_arrival(Job(1))
    assert isinstance(decision, Assign)
    assert (decision.number, decision.expected, decision.fallback) == (None, None, False)
    return decision.server.id


def chosen(policy: Policy, picks: int) -> Counter[str]:
    return Counter(choose(policy) for _ in range(picks))


def test_random_is_uniform_over_servers_and_independent_from_job_to_job() -> None:
    policy = policy_over(fleet_of((2, 1.0, 1), (3, 9.0, INF)), name="random")
    picks = [choose(policy) for _ in range(20_000)]
    assert len(Counter(picks)) == 5 and chisquare(list(Counter(picks).values())).pvalue > ALPHA
    pairs = Counter(zip(picks[::2], picks[1::2], strict=True))
    assert len(pairs) == 25 and chisquare(list(pairs.values())).pvalue > ALPHA


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("rate", [1, 1, 4]),  # servers p0-1, p0-2, p1-1
        ("capacity", [5, 5, 10]),
        ([3, 1], [3, 3, 1]),
    ],
)
def test_weights_are_those_of_servers(weights: Any, expected: list[int]) -> None:
    policy = policy_over(fleet_of((2, 1.0, 5), (1, 4.0, 10)), name="weighted_random", weights=weights)
    counts = chosen(policy, 20_000)
    shares = [20_000 * weight / sum(expected) for weight in expected]
    assert chisquare([counts[id] for id in ("p0-1", "p0-2", "p1-1")], shares).pvalue > ALPHA


def test_a_pool_of_weight_zero_or_without_a_weight_gets_nothing() -> None:
    servers = fleet_of((2, 1.0, 5), (1, 4.0, 5), (1, 1.0, 5))
    assert set(chosen(policy_over(servers, name="weighted_random", weights=[0, 1]), 200)) == {"p1-1"}


def test_weights_that_only_the_scenario_can_tell_are_refused_in_a_router() -> None:
    with pytest.raises(SettingsError, match=r'^policy.weights = "optimal" follows from the whole scenario'):
        make_policy({"name": "weighted_random", "weights": "optimal"}, Random(1))
    assert make_parameters({"name": "weighted_random", "weights": "optimal"})[0] == "weighted_random"


FLEET = Fleet(["slow", "fast"], [2, 1], [1.0, 4.0], [1, 1], [5.0, INF])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("capacity", 'policy.weights = "capacity", but pool "fast" has capacity "inf": '),
        ([1.0], "policy.weights = [1.0] has 1 entries, but there are 2 pools (slow, fast): give one weight a pool"),
        ([0.0, 0.0], "policy.weights = [0.0, 0.0]: expected at least one weight above 0"),
    ],
)
def test_weights_that_do_not_suit_the_fleet_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_parameters({"name": "weighted_random", "weights": weights})[1].check(FLEET)
    assert str(caught.value).startswith(message)


def test_round_robin_gives_each_server_its_turn() -> None:
    policy = policy_over(fleet_of((3, 1.0, INF), (2, 5.0, 1)), name="round_robin")
    first = [choose(policy) for _ in range(5)]
    assert len(set(first)) == 5
    assert [choose(policy) for _ in range(50)] == first * 10
    order = ["p0-1", "p0-2", "p0-3", "p1-1", "p1-2"]  # of joining, begun anywhere
    start = order.index(first[0])
    assert first == order[start:] + order[:start]


def test_round_robin_begins_anywhere_so_that_routers_do_not_walk_in_step() -> None:
    servers = fleet_of((5, 1.0, INF))
    starts = Counter(choose(policy_over(servers, seed, name="round_robin")) for seed in range(2000))
    assert len(starts) == 5 and chisquare(list(starts.values())).pvalue > ALPHA


def test_round_robin_stays_fair_when_servers_come_and_go() -> None:
    rng = Random(3)
    servers = fleet_of((20, 1.0, INF))
    policy = policy_over(servers[:6], name="round_robin")
    here = servers[:6]
    spare = servers[6:]
    since = {server.id: 0 for server in here}  # jobs of others since its last turn
    for _ in range(5000):
        dice = rng.random()
        if dice < 0.05 and spare:
            new = spare.pop()
            policy.on_join(new)
            here.append(new)
            since[new.id] = 0
        elif dice < 0.1 and len(here) > 1:
            gone = here.pop(rng.randrange(len(here)))
            policy.on_leave(gone)
            spare.append(gone)
            del since[gone.id]
        taken = choose(policy)
        assert taken in since
        since = {id: 0 if id == taken else jobs + 1 for id, jobs in since.items()}
        # Nobody waits longer than a pass; at most 20 servers ever take part, those which joined meanwhile included.
        assert max(since.values()) <= 20


def test_round_robin_skips_nobody_when_one_leaves() -> None:
    for gone in range(4):
        servers = fleet_of((4, 1.0, INF))
        policy = policy_over(servers, name="round_robin")
        first, second = choose(policy), choose(policy)
        policy.on_leave(servers[gone])
        order = [server.id for server in servers]
        turns = order[order.index(second) + 1 :] + order[: order.index(second) + 1]
        expected = [id for id in turns if id != servers[gone].id]
        assert [choose(policy) for _ in range(3)] == expected
        assert first in order


def test_none_of_them_asks_for_a_message() -> None:
    assert all(make_policy({"name": name}, Random(1)).needs == Needs()
               for name in ("random", "weighted_random", "round_robin", "least_requests"))  # fmt: skip


def test_routers_of_one_seed_draw_independently() -> None:
    # 8 routers of one configuration: the j-th picks of two coincide with probability 1/50.
    servers = fleet_of((50, 1.0, INF))
    picks = []
    for router in range(8):
        policy = make_policy({"name": "random"}, Random(f"1:router-{router + 1}:policy"))
        for server in servers:
            policy.on_join(server)
        picks.append([choose(policy) for _ in range(1000)])
    same = sum(a == b for i in range(8) for j in range(i) for a, b in zip(picks[i], picks[j], strict=True))
    # 28 pairs · 1000 picks / 50 = 560, standard deviation about 24
    assert abs(same - 560) < 100
