import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad

from services.models import closed, split
from services.models.supermarket import drift, supermarket, supermarket_pools, transient


@pytest.mark.parametrize(
    ("load", "sojourn"),
    [(0.5, 1.265686), (0.7, 1.614454), (0.8, 1.947363), (0.9, 2.614057), (0.95, 3.383046), (0.99, 5.431997)],
)
def test_two_choices_golden_rows_g8(load: float, sojourn: float) -> None:
    assert supermarket(load, 2).sojourn_mean == pytest.approx(sojourn, abs=6e-7)
    # The published sum Σ λ^((d^i - d)/(d - 1)).
    series = sum(load ** (2.0**i - 2) for i in range(1, 40))
    assert supermarket(load, 2).sojourn_mean == pytest.approx(series, rel=1e-12)
    # And the fixed point of the equations, by Newton's method, on two pools that happen to be equal.
    pools = supermarket_pools([0.25, 0.75], [1, 1], load, 2)
    assert pools.sojourn_mean == pytest.approx(series, rel=1e-10)


def test_tail_golden_row_g10() -> None:
    tail = supermarket(0.9, 2).queue_tail
    assert tail[:6] == pytest.approx([1, 0.9, 0.729, 0.478297, 0.205891, 0.038152], abs=6e-7)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_tail_closed_form_for_any_d(d: int) -> None:
    tail = supermarket(0.8, d, rate=1.0).queue_tail
    expected = [0.8 ** ((d**k - 1) / (d - 1)) for k in range(len(tail))]
    assert tail == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_a_job_waits_when_all_that_are_sampled_are_busy() -> None:
    result = supermarket(1.6, 3, rate=2.0)
    assert result.wait_probability == pytest.approx(0.8**3, rel=1e-12)
    assert result.sojourn_mean - result.waiting_mean == pytest.approx(0.5, rel=1e-12)
    assert result.utilisation == pytest.approx((0.8,), rel=1e-12)


@pytest.mark.parametrize("capacity", [math.inf, 6])
def test_one_choice_is_a_single_station(capacity: float) -> None:
    field, station = supermarket(0.9, 1, 1.0, capacity), closed.mmck(0.9, 1.0, 1, capacity)
    for name in ("block_probability", "wait_probability", "sojourn_mean", "waiting_mean"):
        assert getattr(field, name) == pytest.approx(getattr(station, name), rel=1e-9), name
    assert field.sojourn_quantile(0.95) == pytest.approx(station.sojourn_quantile(0.95), rel=1e-9)
    assert field.queue_tail[:6] == pytest.approx([station.queue_tail(k) for k in range(6)], rel=1e-9)


def test_one_choice_over_pools_is_the_uniform_split() -> None:
    field = supermarket_pools([0.5, 0.5], [1, 2], 0.8, 1)
    mixture = split.random_split([split.Pool(1, 1.0), split.Pool(1, 2.0)], 1.6)
    assert field.sojourn_mean == pytest.approx(mixture.sojourn_mean, rel=1e-9)
    assert field.job_shares == pytest.approx(mixture.job_shares, rel=1e-9)


@pytest.mark.parametrize(("arrival_rate", "d", "capacity"), [(0.9, 2, 4), (1.5, 2, 3), (40.0, 3, 5), (0.95, 5, 1)])
def test_finite_capacity_obeys_the_cut_equations(arrival_rate: float, d: int, capacity: int) -> None:
    # Up over level k: what finds d servers of at least k - 1 and is not blocked. Down: the servers with at least k.
    one = supermarket(arrival_rate, d, 1.0, capacity)
    s = one.queue_tail
    assert len(s) == capacity + 1
    assert s[1:] == pytest.approx(arrival_rate * (s[:-1] ** d - s[-1] ** d), rel=1e-8, abs=1e-13)
    assert one.block_probability == pytest.approx(s[-1] ** d, rel=1e-12)
    # What is admitted is served.
    assert arrival_rate * (1 - one.block_probability) == pytest.approx(one.utilisation[0], rel=1e-9)


@pytest.mark.parametrize(
    ("shares", "rates", "arrival_rate", "d"),
    [([0.5, 0.5], [1.0, 2.0], 1.2, 2), ([0.2, 0.3, 0.5], [1.0, 2.0, 4.0], 2.5, 2), ([0.9, 0.1], [1.0, 10.0], 1.0, 3)],
)
def test_pools_fixed_point_is_where_the_flow_ends(
    shares: list[float], rates: list[float], arrival_rate: float, d: int
) -> None:
    field = supermarket_pools(shares, rates, arrival_rate, d)
    still = drift(field.tails[:, 1:], np.array(shares), np.array(rates), arrival_rate, d)
    assert np.abs(still).max() < 1e-12
    end = transient(shares, rates, arrival_rate, d, [3000.0], levels=24)[0]
    known = min(end.shape[1], field.tails.shape[1])
    assert end[:, :known] == pytest.approx(field.tails[:, :known], abs=1e-7)
    served = np.array(shares) * np.array(rates) * np.array(field.utilisation)
    assert served.sum() == pytest.approx(arrival_rate, rel=1e-10)
    assert field.job_shares == pytest.approx(served / arrival_rate, rel=1e-10)


@pytest.mark.parametrize("capacity", [math.inf, 3])
def test_sojourn_law_integrates_to_the_mean(capacity: float) -> None:
    # Little's law against the law of what a joining job finds.
    field = supermarket_pools([0.5, 0.5], [1, 2], 1.2, 2, capacity)
    area, _ = quad(field.sojourn_survival, 0, 60, limit=200)
    assert area == pytest.approx(field.sojourn_mean, rel=1e-7)


def test_transient_from_empty_and_from_full_meet() -> None:
    full = np.ones((1, 30))
    times = [1.0, 400.0]
    empty = transient([1.0], [1.0], 0.7, 2, times, levels=30)
    packed = transient([1.0], [1.0], 0.7, 2, times, start=full, levels=30)
    assert (packed[0] > empty[0] - 1e-9).all()
    assert packed[0].sum() > empty[0].sum() + 20
    assert packed[1] == pytest.approx(empty[1], abs=1e-7)
    # With nobody waiting yet, s_1 follows s' = λ - s at first: s(t) = λ t + O(t²).
    early = transient([1.0], [1.0], 0.7, 2, [1e-4], levels=5)[0, 0]
    assert early[1] == pytest.approx(0.7e-4, rel=1e-3)


def test_light_traffic() -> None:
    field = supermarket(1e-6, 2)
    assert field.sojourn_mean == pytest.approx(1, abs=1e-11)
    assert field.wait_probability == pytest.approx(1e-12, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: supermarket(1.0, 2), "load = 1, but JSQ(d) of infinite capacity needs a load below 1"),
        (lambda: supermarket(0.0, 2), "arrival_rate = 0.0, but JSQ(d) needs a finite arrival rate > 0"),
        (lambda: supermarket(0.5, 0), "d = 0, but JSQ(d) needs d >= 1"),
        (lambda: supermarket(0.5, 2, 0.0), "rate = 0.0, but a server needs a finite rate > 0"),
        (lambda: supermarket(0.5, 2, 1.0, 0), "capacity = 0, but it is infinite or a whole number >= 1"),
        (lambda: supermarket(1 - 1e-9, 1), "load = 0.999999999, so near 1 that queues exceed 1000000 jobs"),
        (lambda: supermarket_pools([1], [1, 2], 0.5, 2), "1 shares for 2 rates: give one of each a pool"),
        (lambda: supermarket_pools([0.5, 0.6], [1, 2], 0.5, 2), "but shares are above 0 and add up to 1"),
        (lambda: supermarket_pools([0.5, 0.5], [1, 0], 0.5, 2), "rates = [1, 0], but rates are finite and above 0"),
        # Slow half: offered 2.4 × .25 = .6, serves .5 × 1, although the whole has room: 2.4 < .5 × 1 + .5 × 5.
        (lambda: supermarket_pools([0.5, 0.5], [1, 5], 2.4, 2), "the 1 slowest of 2 pools are unstable: d = 2"),
        (lambda: transient([1.0], [1.0], 0.5, 2, [2.0, 1.0]), "times must be increasing and at least 0"),
        (
            lambda: transient([1.0], [1.0], 0.5, 2, [1.0], start=np.zeros((1, 3))),
            "start has shape (1, 3), but it needs (1, 60) (pools, levels)",
        ),
        (
            lambda: transient([1.0], [1.0], 0.5, 2, [1.0], start=np.array([[0.1, 0.2]]), levels=2),
            "start is not a set of tails",
        ),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
