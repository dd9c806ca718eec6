"""The pre-drawn workload: Poisson and deterministic instants, routers, sizes and patience."""

import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from server.laws import make_law
from services.loadgen.arrivals import (
    Floats,
    deterministic,
    patience,
    poisson,
    router_of_each,
    sizes,
    uniforms,
)

RATE, HORIZON = 200.0, 600.0  # 120 000 jobs


@pytest.fixture(scope="module")
def instants() -> Floats:
    return poisson(RATE, HORIZON, Random("1:arrivals"))


def gap_statistics(instants: Floats) -> tuple[float, float, float]:
    """CV, Kolmogorov-Smirnov p-value against the exponential, and lag-1 correlation of the gaps."""
    gaps = np.diff(instants)
    p_value = stats.kstest(gaps / gaps.mean(), stats.expon.cdf).pvalue
    return float(gaps.std() / gaps.mean()), float(p_value), float(np.corrcoef(gaps[:-1], gaps[1:])[0, 1])


def test_poisson_instants_are_in_order_and_below_the_horizon(instants: Floats) -> None:
    assert instants.dtype == np.float64
    assert instants[0] >= 0.0
    assert instants[-1] < HORIZON
    assert np.all(np.diff(instants) >= 0.0)


def test_poisson_rate(instants: Floats) -> None:
    # The count is Poisson with mean and variance rate · horizon.
    expected = RATE * HORIZON
    assert abs(instants.size - expected) <= 4.0 * math.sqrt(expected)


def test_poisson_gaps_are_exponential_and_unrelated(instants: Floats) -> None:
    cv, p_value, correlation = gap_statistics(instants)
    # The CV of n exponentials has standard error 1/√n = 0.003; the correlation too.
    assert abs(cv - 1.0) < 0.012
    assert p_value > 0.001
    assert abs(correlation) < 0.012


def test_poisson_counts_have_variance_equal_to_mean(instants: Floats) -> None:
    counts = np.bincount(instants.astype(int), minlength=int(HORIZON))
    # Variance over mean of k Poisson counts has standard error √(2/k) = 0.058.
    assert abs(counts.var(ddof=1) / counts.mean() - 1.0) < 4.0 * math.sqrt(2.0 / HORIZON)


def test_poisson_instants_are_uniform_in_the_horizon(instants: Floats) -> None:
    assert stats.kstest(instants / HORIZON, "uniform").pvalue > 0.001


def test_no_burst_inside_each_time_unit(instants: Floats) -> None:
    assert stats.kstest(instants % 1.0, "uniform").pvalue > 0.001


def test_four_merged_generators_are_poisson() -> None:
    merged = np.sort(np.concatenate([poisson(50.0, 300.0, Random(f"1:arrivals-{i}")) for i in range(4)]))
    cv, p_value, correlation = gap_statistics(merged)
    # 60 000 jobs: standard error 0.004.
    assert abs(merged.size - 60_000) <= 4.0 * math.sqrt(60_000)
    assert abs(cv - 1.0) < 0.017
    assert p_value > 0.001
    assert abs(correlation) < 0.017


def test_each_router_sees_its_own_poisson_stream(instants: Floats) -> None:
    router = router_of_each(instants.size, [0.25] * 4, Random("1:routers"))
    for index in range(4):
        own = instants[router == index]
        cv, p_value, correlation = gap_statistics(own)
        # 30 000 jobs each: standard error 0.006.
        assert abs(cv - 1.0) < 0.024
        assert p_value > 0.001
        assert abs(correlation) < 0.024


@pytest.mark.parametrize("horizon", [0.0, 1e-9, 100.0, 327.68, 599.0])
def test_a_longer_horizon_begins_with_the_same_jobs(instants: Floats, horizon: float) -> None:
    shorter = poisson(RATE, horizon, Random("1:arrivals"))
    assert np.array_equal(shorter, instants[instants < horizon])


def test_the_seed_decides() -> None:
    again = poisson(5.0, 100.0, Random("1:arrivals"))
    assert np.array_equal(again, poisson(5.0, 100.0, Random("1:arrivals")))
    assert not np.array_equal(again[:50], poisson(5.0, 100.0, Random("2:arrivals"))[:50])


def test_the_rate_only_scales_the_same_draws() -> None:
    slow, fast = poisson(1.0, 100.0, Random(3)), poisson(10.0, 10.0, Random(3))
    assert slow.size == fast.size
    assert np.allclose(slow, 10.0 * fast, rtol=1e-12)


@pytest.mark.parametrize("law", [poisson, lambda rate, horizon, rng: deterministic(rate, horizon)])
def test_nothing_to_do(law: object) -> None:
    assert law(0.0, 10.0, Random(1)).size == 0  # type: ignore[operator]
    assert law(10.0, 0.0, Random(1)).size == 0  # type: ignore[operator]


def test_deterministic_instants() -> None:
    assert deterministic(2.0, 2.0).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert deterministic(2.0, 2.1).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert deterministic(0.1, 5.0).tolist() == [0.0]


def test_deterministic_does_not_drift() -> None:
    instants = deterministic(10.0, 100_000.0)
    assert instants.size == 1_000_000
    assert instants[999_999] == 99_999.9


def test_routers_within_four_sigma_of_their_shares() -> None:
    count = 100_000
    for shares in ([0.25] * 4, [0.1] * 10, [0.7, 0.2, 0.1], [1.0]):
        router = router_of_each(count, shares, Random("1:routers"))
        assert router.dtype == np.int64
        jobs = np.bincount(router, minlength=len(shares))
        assert jobs.size == len(shares)
        for share, found in zip(shares, jobs, strict=True):
            # Binomial: variance n p (1 − p).
            assert abs(found - count * share) <= 4.0 * math.sqrt(count * share * (1.0 - share))


def test_a_router_without_share_gets_no_job() -> None:
    router = router_of_each(50_000, [0.0, 0.3, 0.0, 0.7, 0.0], Random(5))
    assert set(router.tolist()) == {1, 3}


def test_successive_routers_are_unrelated() -> None:
    router = router_of_each(100_000, [0.5, 0.5], Random(7))
    repeats = np.count_nonzero(router[1:] == router[:-1])
    # Each of 99 999 pairs is equal with probability 1/2: standard error 158.
    assert abs(repeats - 49_999.5) <= 4.0 * 158.1


def test_streams_of_more_jobs_begin_with_the_same_values() -> None:
    law = make_law("lognormal", scv=2.0)
    assert np.array_equal(
        router_of_each(999, [0.5, 0.5], Random(1)), router_of_each(5_000, [0.5, 0.5], Random(1))[:999]
    )
    assert np.array_equal(sizes(999, law, Random(1)), sizes(5_000, law, Random(1))[:999])
    assert np.array_equal(patience(999, 0.1, law, Random(1)), patience(5_000, 0.1, law, Random(1))[:999])


def test_the_grouping_of_draws_does_not_matter() -> None:
    one, many = Random(9), Random(9)
    # More than one chunk of the bulk draw.
    together = uniforms(100_000, one)
    apart = np.concatenate([uniforms(count, many) for count in (1, 0, 766, 90_000, 9_233)])
    assert np.array_equal(together, apart)
    assert one.random() == many.random()


def test_uniforms_are_uniform() -> None:
    drawn = uniforms(100_000, Random(11))
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert stats.kstest(drawn, "uniform").pvalue > 0.001
    # Also in the last of the 53 bits, which the comparison above cannot see: 4 · √n / 2 = 632.
    assert abs(np.count_nonzero((drawn * 2.0**53).astype(np.int64) & 1) - 50_000) <= 632


def test_sizes_are_those_that_the_law_draws() -> None:
    law = make_law("hyperexponential", scv=4.0)
    rng = Random("1:sizes")
    assert sizes(5, law, Random("1:sizes")).tolist() == [law.draw(rng) for _ in range(5)]
    assert sizes(0, law, rng).size == 0


def test_patience_has_mean_one_over_its_rate() -> None:
    drawn = patience(40_000, 0.01, make_law("exponential"), Random("1:patience"))
    # Exponential of mean 100: standard error 100 / √40 000 = 0.5.
    assert abs(drawn.mean() - 100.0) < 2.0
    assert stats.kstest(drawn / 100.0, stats.expon.cdf).pvalue > 0.001
    assert patience(3, 0.0, make_law("exponential"), Random(1)).tolist() == [math.inf] * 3


@pytest.mark.parametrize(
    ("rate", "horizon", "message"),
    [
        (-1.0, 10.0, r"arrival rate = -1\.0"),
        (math.nan, 10.0, "arrival rate = nan"),
        (1.0, math.inf, "horizon = inf"),
        (1e6, 1e6, r"are 1e\+12 jobs, more than the 1e\+08 .*: shorten the run or lower the load"),
    ],
)
def test_impossible_schedules(rate: float, horizon: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        poisson(rate, horizon, Random(1))
    with pytest.raises(ValueError, match=message):
        deterministic(rate, horizon)


@pytest.mark.parametrize("shares", [[], [0.5], [0.5, 0.6], [-0.5, 1.5], [math.nan, 1.0]])
def test_impossible_shares(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="must add up to 1"):
        router_of_each(10, shares, Random(1))


@pytest.mark.parametrize("rate", [-0.1, math.inf, math.nan])
def test_impossible_patience(rate: float) -> None:
    with pytest.raises(ValueError, match="patience rate"):
        patience(10, rate, make_law("exponential"), Random(1))
