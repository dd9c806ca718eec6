"""Service-requirement laws: mean 1, the stated variation, the right shape, and exact refusals."""

import dataclasses
import math
import pickle
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from scipy import stats

from server.laws import LAWS, Law, make_law

EVERY_LAW = [
    make_law("exponential"),
    make_law("deterministic"),
    make_law("hyperexponential", scv=4.0),
    make_law("lognormal", scv=2.0),
    make_law("pareto", shape=4.5),
]
BY_NAME = pytest.mark.parametrize("law", EVERY_LAW, ids=lambda law: law.name)


def sample(law: Law, count: int, seed: str = "laws") -> np.ndarray:
    rng = Random(f"{seed}:{law.name}")
    return np.array([law.draw(rng) for _ in range(count)])


def test_every_law_is_tested_here() -> None:
    assert {law.name for law in EVERY_LAW} == set(LAWS)


@BY_NAME
def test_mean_is_one(law: Law) -> None:
    values = sample(law, 100_000)
    # The standard error of a mean is √(scv / n).
    assert abs(values.mean() - 1.0) <= 4.0 * math.sqrt(law.scv / values.size)
    assert values.min() > 0.0


@BY_NAME
def test_scv_is_the_variance_of_what_is_drawn(law: Law) -> None:
    values = sample(law, 100_000)
    squares = (values - 1.0) ** 2
    # The mean is 1, so E(X − 1)² is the scv; its own standard error comes from the sample.
    assert abs(squares.mean() - law.scv) <= 5.0 * squares.std() / math.sqrt(squares.size)


def test_stated_scv() -> None:
    assert make_law("exponential").scv == 1.0
    assert make_law("deterministic").scv == 0.0
    assert make_law("hyperexponential", scv=9).scv == 9.0
    assert make_law("lognormal", scv=0.5).scv == 0.5
    # Variance of a Pareto: x₀² a / ((a − 1)² (a − 2)), which is 1 / (a (a − 2)) with x₀ = (a − 1) / a.
    assert make_law("pareto", shape=3.0).scv == pytest.approx(1.0 / 3.0)
    assert make_law("pareto", shape=2.0).scv == math.inf
    assert make_law("pareto", shape=1.5).scv == math.inf


def hyperexponential_cdf(x: np.ndarray) -> np.ndarray:
    # Balanced means, scv 4: p = (1 + √(3/5)) / 2, rates 2p and 2(1 − p).
    p = (1.0 + math.sqrt(0.6)) / 2.0
    return 1.0 - p * np.exp(-2.0 * p * x) - (1.0 - p) * np.exp(-2.0 * (1.0 - p) * x)


@pytest.mark.parametrize(
    ("law", "cdf"),
    [
        (EVERY_LAW[0], stats.expon.cdf),
        (EVERY_LAW[2], hyperexponential_cdf),
        # σ² = ln(1 + 2), median exp(−σ²/2) = 1/√3.
        (EVERY_LAW[3], stats.lognorm(s=math.sqrt(math.log(3.0)), scale=1.0 / math.sqrt(3.0)).cdf),
        # Smallest value (4.5 − 1)/4.5.
        (EVERY_LAW[4], stats.pareto(b=4.5, scale=3.5 / 4.5).cdf),
    ],
    ids=lambda value: value.name if isinstance(value, Law) else "",
)
def test_shape_of_the_law(law: Law, cdf: object) -> None:
    assert stats.kstest(sample(law, 20_000), cdf).pvalue > 0.001


@BY_NAME
def test_same_stream_same_values_and_successive_draws_are_unrelated(law: Law) -> None:
    values = sample(law, 20_000)
    assert np.array_equal(values, sample(law, 20_000))
    if law.scv > 0.0:
        assert not np.array_equal(values[:10], sample(law, 10, seed="other"))
        # 4 / √20 000 = 0.028.
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.028


class CountingRandom(Random):
    """Counts the calls the laws may make."""

    calls = 0

    def random(self) -> float:
        self.calls += 1
        return super().random()


@BY_NAME
def test_a_draw_costs_at_most_two_uniforms(law: Law) -> None:
    rng = CountingRandom(1)
    for _ in range(100):
        law.draw(rng)
    assert rng.calls <= 200


@BY_NAME
def test_a_law_is_a_value(law: Law) -> None:
    assert pickle.loads(pickle.dumps(law)) == law
    with pytest.raises(dataclasses.FrozenInstanceError):
        law.scv = 2.0  # type: ignore[misc]


def test_a_larger_scv_means_fewer_long_jobs_carry_more() -> None:
    def share_of_the_longest_percent(scv: float) -> float:
        values = np.sort(sample(make_law("hyperexponential", scv=scv), 50_000))
        return float(values[-500:].sum() / values.sum())

    shares = [share_of_the_longest_percent(scv) for scv in (1.5, 4.0, 16.0)]
    assert all(smaller < larger for smaller, larger in pairwise(shares))


def test_unknown_law_lists_the_known_ones_with_their_parameters() -> None:
    with pytest.raises(ValueError, match="unknown law") as refusal:
        make_law("gamma")
    assert str(refusal.value) == (
        'unknown law "gamma": choose one of "exponential" (no parameters), "deterministic" (no parameters), '
        '"hyperexponential" (scv > 1), "lognormal" (scv > 0), "pareto" (shape > 1)'
    )


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("exponential", {"scv": 2.0}, r'law "exponential" \(no parameters\): parameters found: scv;'),
        ("pareto", {}, r'law "pareto" \(shape > 1\): parameters found: none;'),
        ("pareto", {"shape": 2.0, "scv": 2.0}, r'law "pareto" \(shape > 1\): parameters found: shape, scv;'),
        ("pareto", {"shape": 1.0}, r'law "pareto": shape = 1\.0, but it must be a number > 1'),
        ("hyperexponential", {"scv": 1.0}, r'law "hyperexponential": scv = 1\.0, but .* > 1'),
        ("lognormal", {"scv": 0}, r'law "lognormal": scv = 0, but .* > 0'),
        ("lognormal", {"scv": math.nan}, r"scv = nan"),
        ("lognormal", {"scv": math.inf}, r"scv = inf"),
        ("pareto", {"shape": 1e7}, r"> 1 and at most 1e\+06"),
        ("lognormal", {"scv": True}, r"scv = True"),
        ("lognormal", {"scv": "2"}, r"scv = '2'"),
    ],
)
def test_wrong_parameters(name: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_law(name, **parameters)
