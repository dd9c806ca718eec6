"""The best static split among M/M/1 queues, and best weights in place of the word."""

from __future__ import annotations

import pytest
from scipy.optimize import minimize

from router.protocol.errors import SettingsError
from services.models.queue_split import optimal_queue_split
from services.solver import solve, with_weights
from tests.models.scenarios import answers, scenario

BEST = 'name = "weighted_random"; weights = "optimal"'


def jobs(servers: list[int], rates: list[float], at: list[float]) -> float:
    """Mean number of jobs of M/M/1 queues."""
    return sum(n * a / (m - a) for n, m, a in zip(servers, rates, at, strict=True))


def test_two_servers_by_hand() -> None:
    # c = (1 + 4 − 4) / (√1 + √4) = 1/3: rates 1 − 1/3 and 4 − 2/3; (2/3) / (1/3) + (10/3) / (2/3) = 7 jobs, T = 7/4.
    split = optimal_queue_split([1, 1], [1.0, 4.0], 4.0)
    assert split == pytest.approx([2 / 3, 10 / 3])
    assert jobs([1, 1], [1.0, 4.0], split) == pytest.approx(7.0)


def test_light_traffic_leaves_slow_servers_out() -> None:
    # c would be (5 − 1) / 3 > √1; with the fast server alone c = (4 − 1) / 2 = 1.5 >= 1.
    assert optimal_queue_split([1, 1], [1.0, 4.0], 1.0) == [0.0, pytest.approx(1.0)]
    assert optimal_queue_split([1, 1], [4.0, 1.0], 1.0) == [pytest.approx(1.0), 0.0]
    # The slow one comes in where 4 − a = 2·√1, at a = 2.
    assert optimal_queue_split([1, 1], [1.0, 4.0], 2.0)[0] == pytest.approx(0.0)
    assert optimal_queue_split([1, 1], [1.0, 4.0], 2.01)[0] > 0.0


@pytest.mark.parametrize("load", [0.2, 0.5, 0.9])
def test_no_other_split_is_better(load: float) -> None:
    servers, rates = [3, 2, 4], [0.5, 3.0, 1.0]
    total = load * 11.5
    split = optimal_queue_split(servers, rates, total)
    assert sum(n * a for n, a in zip(servers, split, strict=True)) == pytest.approx(total)

    def others(free: list[float]) -> float:
        third = (total - 3 * free[0] - 2 * free[1]) / 4
        at = [*free, third]
        if any(a < 0 or a >= m for a, m in zip(at, rates, strict=True)):
            return 1e6
        return jobs(servers, rates, at)

    found = minimize(others, [load * 0.5, load * 3.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert jobs(servers, rates, split) <= found.fun * (1 + 1e-9)
    assert jobs(servers, rates, split) == pytest.approx(found.fun, rel=1e-4)


@pytest.mark.parametrize("rate", [0.0, 5.0, 6.0])
def test_more_work_than_can_be_done(rate: float) -> None:
    with pytest.raises(ValueError, match="expected a rate above 0 and below 5, what can be served"):
        optimal_queue_split([1, 1], [1.0, 4.0], rate)


def test_it_beats_weights_by_rate() -> None:
    pools = ("servers = 1; rate = 1.0", "servers = 1; rate = 4.0")
    arrivals = "rate_total = 4.0"
    assert answers(scenario('name = "weighted_random"', *pools, arrivals=arrivals))["sojourn_mean"] == pytest.approx(
        2.0
    )
    assert answers(scenario(BEST, *pools, arrivals=arrivals), "closed")["sojourn_mean"] == pytest.approx(1.75)


def test_the_best_weights_take_the_place_of_the_word() -> None:
    pools = ("servers = 10; slots = 5; capacity = 5", "servers = 10; slots = 10; capacity = 10")
    asked = scenario(BEST, *pools, arrivals="rate_per_server = 6.0")
    found = with_weights(asked)
    weights = found.policy["weights"]
    # Golden row G84; on average a server is offered 6 erlangs.
    assert sum(weights) / 2 == pytest.approx(6.0)
    assert solve(found).values()["block_probability"] == pytest.approx(0.14667002, abs=1e-8)
    assert found.model_copy(update={"policy": asked.policy}) == asked


def test_other_scenarios_stay_as_they_are() -> None:
    for policy in ('name = "random"', 'name = "weighted_random"', 'name = "weighted_random"; weights = [2.0]'):
        one = scenario(policy, "servers = 2", arrivals="load = 0.5")
        assert with_weights(one) is one


def test_where_they_are_not_known() -> None:
    for pool in ("servers = 2; slots = 2", "servers = 2; capacity = 3"):
        with pytest.raises(SettingsError, match=r'^policy\.weights = "optimal" is known for'):
            with_weights(scenario(BEST, pool, arrivals="load = 0.5"))
    with pytest.raises(SettingsError, match="a load below 1"):
        with_weights(scenario(BEST, "servers = 2", arrivals="load = 1.5"))
