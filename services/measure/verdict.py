"""Whether two columns of the table agree: tests with a stated rate of false alarms.

Intervals are for display; a verdict never comes from looking whether two of them overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from services.measure.quantities import Quantity
from services.measure.records import Floats

Word = Literal["agree", "differ", "not_enough_data", "limit", "not_compared"]

FALSE_ALARMS = 1e-3
"""The chance that a family of true equalities is called "differ" anywhere."""

LEAST_BATCHES = 40

RELATIVE_MARGIN = 0.01
PROBABILITY_MARGIN = 0.005
"""Differences within the margin are of no interest, however sure."""

ROUNDING = 1e-12
"""What computing may add to a value that is zero: no margin is smaller, whatever the scale."""

MOST_HIDDEN = 0.75
"""The share of the memory that a mean may be believed to hide, where memory is as long as the series."""

RELATIVE_RESOLUTION = 0.10
COARSE_RESOLUTION = 0.25
PROBABILITY_RESOLUTION = 0.05
"""A test that could not see a difference of this size has too little data to say "agree"."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a test found.

    Attributes:
        word: The verdict.
        difference: First minus second value.
        margin: What is of no interest.
        noise: The largest difference that chance explains, at the rate of false alarms.
        longer: How many times as long the run must be to say more; 1 if it is long enough.
    """

    word: Word
    difference: float
    margin: float
    noise: float
    longer: float = 1.0


def is_probability(name: str) -> bool:
    """Whether a quantity is a probability or a share, and so has an absolute margin."""
    family = name.split(".")[0]
    return family.endswith("_probability") or family in ("dispatch", "utilisation", "job_share", "queue_tail")


def is_coarse(name: str) -> bool:
    """Whether a quantity needs far more data than a mean does for the same precision."""
    return name.startswith("sojourn_p9") or "variance" in name or "second_moment" in name


def interval95(quantity: Quantity) -> tuple[Floats, Floats]:
    """A 95% confidence interval from the spread of the batches, for display; shape of the value, each."""
    batches = quantity.batches if quantity.batches.ndim > 1 else quantity.batches[:, np.newaxis]
    halves = []
    for column in batches.T:
        error, freedom = _error_of_mean(column)
        halves.append(float(stats.t.ppf(0.975, freedom)) * error)
    half = np.reshape(halves, quantity.value.shape)
    return quantity.value - half, quantity.value + half


def paired(name: str, live: Quantity, simulated: Sequence[Quantity], tests: int, alarms: float) -> Comparison:
    """Test a live quantity against simulations of the same jobs, batch by batch.

    If the simulator is right, the live run and the replications are alike: what differs among replications tells
    how far the live run may be from their mean, and how long a difference lasts. One run alone cannot tell: within a
    short run with long memory, batches resemble each other and all are wrong. If the live run is less regular
    than the replications, its own spread counts.

    Args:
        name: Of the quantity.
        live: As measured.
        simulated: Two or more replications of the simulation.
        tests: How many tests are made on this run; the rate of false alarms is shared among them.
        alarms: The rate of false alarms of all tests together.
    """
    replications = len(simulated)
    each = np.array([quantity.batches for quantity in simulated])
    mean = each.mean(axis=0)
    difference = float(live.value) - float(np.mean([quantity.value for quantity in simulated]))
    scale = max(abs(float(live.value)), abs(float(live.value) - difference))
    if not np.isfinite(live.batches).all() or not np.isfinite(each).all():
        return Comparison("not_compared", difference, float("nan"), float("nan"))
    batches = each.shape[1]
    among, widening, freedom = memory_of(each - mean, (replications - 1) * batches)
    apart = live.batches - mean
    of_live, own_widening, own_freedom = memory_around_mean(apart[np.newaxis])
    if among == 0.0:
        widening, freedom = own_widening, own_freedom
    variance = max(among * (1.0 + 1.0 / replications), of_live)
    error = float(np.sqrt(variance * widening / batches)) * _skew(name, float(mean.mean()), scale)
    return _judge(name, difference, scale, error, freedom, batches, tests, alarms)


def against(name: str, simulated: Quantity, predicted: float, tests: int, alarms: float) -> Comparison:
    """Test a simulated quantity against the value that a model predicts exactly."""
    difference = float(simulated.value) - predicted
    batches = simulated.batches
    if not np.isfinite(batches).all():
        return Comparison("not_compared", difference, float("nan"), float("nan"))
    error, freedom = _error_of_mean(batches)
    error *= _skew(name, float(simulated.value), predicted)
    return _judge(name, difference, abs(predicted), error, freedom, len(batches), tests, alarms)


def _error_of_mean(batches: Floats) -> tuple[float, float]:
    """The standard error of the mean of one series, and its degrees of freedom."""
    variance, widening, freedom = memory_around_mean(batches[np.newaxis])
    return float(np.sqrt(variance * widening / len(batches))), freedom


def memory_around_mean(series: Floats) -> tuple[float, float, float]:
    """As `memory_of`, for series whose expectation is not known: deviations are those from their own mean.

    That mean follows what the batches have in common, and so hides a part of every covariance that is added up.

    Args:
        series: Shape (series, batches), independent of one another.

    Source: the bias to first order, Marriott, Pope 1954, doi:10.1093/biomet/41.3-4.390.
    """
    return memory_of(series - series.mean(), series.size - 1, own_mean=True)


def memory_of(deviations: Floats, freedom: float, *, own_mean: bool = False) -> tuple[float, float, float]:
    """The variance of a batch, by what memory widens that of a mean, and the degrees of freedom that are left.

    Neighbouring batches of a queue resemble each other, which makes the naive error too small. The covariances of
    batches l apart are added up, two neighbouring l at a time, as long as the sum of the two is positive.

    Args:
        deviations: Shape (series, batches): batches minus their expectation, in series that are alike.
        freedom: How many of them are free.
        own_mean: The expectation was taken to be their mean.

    Source: Geyer 1992, section 3.3 (the initial positive sequence), doi:10.1214/ss/1177011137.
    """
    batches = deviations.shape[1]
    if not np.isfinite(deviations).all() or batches < 2:
        return float("nan"), 1.0, 1.0
    products = float((deviations**2).sum())
    if products == 0.0:
        return 0.0, 1.0, freedom
    apart = [float((deviations[:, lag:] * deviations[:, :-lag]).sum()) / products for lag in range(1, batches)]
    together, added = 0.0, 0
    for pair in range(0, batches - 2, 2):
        both = apart[pair] + apart[pair + 1]
        if both <= 0.0:
            break
        together += both
        added += 2
    widening = 1.0 + 2.0 * together
    if own_mean:
        # Each of the 2 × `added` covariances lacks the variance of the mean, which is widening ÷ batches.
        widening /= 1.0 - min(2.0 * added / deviations.size, MOST_HIDDEN)
    return products / freedom, widening, max(freedom / (2.0 * widening - 1.0), 1.0)


def _skew(name: str, found: float, other: float) -> float:
    """By what to raise the error of an estimate that may be too small.

    An estimate of a variance that happens to be small looks surer than it is, since its error grows with it.
    """
    return other / found if is_coarse(name) and 0.0 < found < other else 1.0


def limit(simulated: float, predicted: float) -> Comparison:
    """A limit or a mean field is not met at finite size: the gap is shown, and nothing is tested."""
    return Comparison("limit", simulated - predicted, 0.0, 0.0)


def _judge(
    name: str, difference: float, scale: float, error: float, freedom: float, batches: int, tests: int, alarms: float
) -> Comparison:
    margin = max(RELATIVE_MARGIN * scale, ROUNDING)
    resolution = (COARSE_RESOLUTION if is_coarse(name) else RELATIVE_RESOLUTION) * scale
    if is_probability(name):
        margin = max(margin, PROBABILITY_MARGIN)
        resolution = max(resolution, PROBABILITY_RESOLUTION)
    if not np.isfinite(difference) or not np.isfinite(error):
        return Comparison("not_compared", difference, margin, float("nan"))
    noise = float(stats.t.isf(alarms / (2.0 * tests), freedom)) * error
    if abs(difference) > margin + noise:
        return Comparison("differ", difference, margin, noise)
    longer = max((noise / resolution) ** 2 if resolution > 0.0 else 1.0, LEAST_BATCHES / batches)
    if longer > 1.0:
        return Comparison("not_enough_data", difference, margin, noise, longer)
    return Comparison("agree", difference, margin, noise)


def overall(words: Mapping[str, Word], principal: Sequence[str]) -> Word:
    """One word for a run: any "differ" counts; too little data counts for the principal quantities."""
    if "differ" in words.values():
        return "differ"
    chief = [words[name] for name in principal if name in words]
    for word in ("not_enough_data", "agree", "limit"):
        if word in chief:
            return word
    return "not_compared"
