"""The limit laws against golden rows, numerical integration, and the exact chains that they are limits of."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from services.models.abandonment import AbandonmentSystem, erlang_a, single_server
from services.models.abandonment_jsq import jsq_with_abandonment
from services.models.abandonment_limits import (
    critical_law,
    criticality,
    limit_law,
    overloaded_law,
    regime,
    truncated_normal_moments,
    underloaded_law,
)


@pytest.mark.parametrize(
    ("location", "variance", "mean"),
    [(0, 2, 1.128379), (1, 1, 1.287600), (-1, 1, 0.525135), (2, 2, 2.225271)],  # G74
)
def test_truncated_normal_golden_row_g74(location: float, variance: float, mean: float) -> None:
    assert truncated_normal_moments(location, variance)[0] == pytest.approx(mean, abs=6e-7)


@pytest.mark.parametrize("a", [-8.0, -1.0, 0.0, 2.0, 12.0, 49.9, 50.1, 3000.0])
def test_truncated_normal_by_integration(a: float) -> None:
    # Density ~ exp(-(x + a)^2 / 2) on x >= 0, its largest value taken out, x in units of the width of what remains.
    width = 1 / max(a, 1.0)
    peak = max(0.0, -a)

    def moment(k: int) -> float:
        upper = peak / width + 40
        return float(
            quad(
                lambda t: (t * width) ** k * math.exp(-(t * width - peak) * (t * width + peak + 2 * a) / 2),
                0,
                upper,
                points=[peak / width],
                epsabs=0,
                epsrel=1e-12,
                limit=200,
            )[0]
        )

    total, mean = moment(0), moment(1) / moment(0)
    got = truncated_normal_moments(-3 * a, 9.0)
    assert got[0] == pytest.approx(3 * mean, rel=1e-9)
    assert got[1] == pytest.approx(9 * (moment(2) / total - mean**2), rel=1e-5 if a > 10 else 1e-8)


def test_critical_law_at_zero_is_half_a_normal() -> None:
    # C = 0: mean s sqrt(2 / pi), variance s^2 (1 - 2 / pi), tail 2 (1 - Phi(x / s)), s^2 = n mu = 3.
    law = critical_law(AbandonmentSystem(2, 3.0, 1.5, 0.01))
    assert law.mean == pytest.approx(math.sqrt(3) * math.sqrt(2 / math.pi))
    assert law.variance == pytest.approx(3 * (1 - 2 / math.pi))
    assert law.tail(2.0) == pytest.approx(math.erfc(2.0 / math.sqrt(6)))
    assert law.queue_length_mean == pytest.approx(law.mean / 0.1 / 2)
    assert law.queue_length_variance == pytest.approx(law.variance / 0.01 / 4)


@pytest.mark.parametrize("lam", [1.7, 2.0, 2.3])
def test_tails_integrate_to_the_mean(lam: float) -> None:
    system = AbandonmentSystem(2, lam, 1.0, 0.01)
    law = limit_law(system)
    below = quad(lambda x: 1 - law.tail(-x), 0, 40)[0]
    assert quad(law.tail, 0, 40)[0] - below == pytest.approx(law.mean, rel=1e-7, abs=1e-7)


def test_regimes_by_their_threshold() -> None:
    # c = (lam - n mu) / sqrt(gamma n mu), here (lam - 2) / sqrt(.02) = (lam - 2) / .1414: 3 of them are .424.
    def of(lam: float, threshold: float = 3.0) -> str:
        return regime(AbandonmentSystem(2, lam, 1.0, 0.01), threshold)

    assert [of(lam) for lam in (1.5, 1.6, 2.0, 2.4, 2.5)] == [
        "underloaded",
        "critical",
        "critical",
        "critical",
        "overloaded",
    ]
    assert of(1.6, threshold=2.0) == "underloaded"
    assert limit_law(AbandonmentSystem(2, 2.5, 1.0, 0.01)).regime == "overloaded"
    assert criticality(AbandonmentSystem(2, 2.5, 1.0, 0.01)) == pytest.approx(5.0)


def test_the_critical_law_meets_its_neighbours() -> None:
    over = AbandonmentSystem(2, 3.0, 1.0, 0.001)
    assert critical_law(over).jobs_in_system_mean == pytest.approx(overloaded_law(over).jobs_in_system_mean)
    # Below, mean and deviation of the conditioned normal tend to s / |c|, the exponential's; relative error 2 / c^2.
    under = AbandonmentSystem(2, 1.9, 1.0, 1e-6)
    c2 = criticality(under) ** 2 / 2
    ratio = critical_law(under).jobs_in_system_mean / underloaded_law(under).jobs_in_system_mean
    assert 1 - ratio == pytest.approx(2 / c2, rel=0.01)


def test_underloaded_chain_tends_to_its_law() -> None:
    # eps = gamma^(1/4) -> 0, eps / sqrt(gamma) -> inf.
    errors = []
    for gamma in (1e-4, 1e-6, 1e-8):
        system = AbandonmentSystem(1, 1 - gamma**0.25, 1.0, gamma)
        mean = single_server(system.arrival_rate, 1.0, gamma).jobs_in_system_mean
        errors.append(abs(mean / underloaded_law(system).jobs_in_system_mean - 1))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03


@pytest.mark.parametrize("c", [-1.0, 0.0, 1.5])
def test_critical_chain_tends_to_its_law_at_rate_root_gamma(c: float) -> None:
    errors = []
    for gamma in (1e-2, 1e-4, 1e-6):
        system = AbandonmentSystem(2, 2 + c * math.sqrt(gamma), 1.0, gamma)
        result = erlang_a(system)
        errors.append(math.sqrt(gamma) * result.jobs_in_system_mean - critical_law(system).mean)
    # The error falls like sqrt(gamma): by 10 for each 100.
    assert np.array(errors[:-1]) / np.array(errors[1:]) == pytest.approx([10, 10], rel=0.15)


def test_shortest_queue_at_criticality_is_high_by_root_gamma() -> None:
    # n = 2, lam = 2: sqrt(gamma) E[Q] = 1.239 at gamma = .01 and 1.185 at .0025, limit 1.128.
    scaled = [
        math.sqrt(gamma) * jsq_with_abandonment(AbandonmentSystem(2, 2.0, 1.0, gamma)).jobs_in_system_mean
        for gamma in (0.01, 0.0025, 1e-4)
    ]
    assert scaled[:2] == pytest.approx([1.239, 1.185], abs=5e-4)
    limit = critical_law(AbandonmentSystem(2, 2.0, 1.0, 1e-4)).mean
    assert (scaled[0] - limit) / (scaled[1] - limit) == pytest.approx(2, rel=0.05)
    assert (scaled[0] - limit) / (scaled[2] - limit) == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_overloaded_chain_has_its_law(n: int) -> None:
    # Far above criticality the chain is off only by the n jobs in service, which have no patience to lose.
    system = AbandonmentSystem(n, n + 1.0, 1.0, 0.002)
    law, chain = overloaded_law(system), jsq_with_abandonment(system)
    assert chain.jobs_in_system_mean - law.jobs_in_system_mean == pytest.approx(n, rel=1e-6)
    assert chain.jobs_in_system_variance == pytest.approx(law.jobs_in_system_variance, rel=1e-6)
    assert law.queue_length_variance == pytest.approx((n + 1) / 0.002 / n**2)
    assert law.tail(0.0) == pytest.approx(0.5)


def test_arguments_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"is not below servers \* service_rate = 2\.0: the underloaded law needs"):
        underloaded_law(AbandonmentSystem(2, 2.0, 1.0, 0.1))
    with pytest.raises(ValueError, match=r"is not above servers \* service_rate = 2\.0: the overloaded law needs"):
        overloaded_law(AbandonmentSystem(2, 2.0, 1.0, 0.1))
    with pytest.raises(ValueError, match=r"variance = 0\.0: must be a finite number > 0"):
        truncated_normal_moments(1.0, 0.0)
    with pytest.raises(ValueError, match="threshold = 0: must be > 0"):
        regime(AbandonmentSystem(2, 2.0, 1.0, 0.1), threshold=0)
