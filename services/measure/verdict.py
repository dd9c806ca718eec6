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
    error = standard_error(quantity.batches)
    batches = int(np.isfinite(quantity.batches).any(axis=-1).sum()) if quantity.batches.ndim > 1 else 0
    freedom = (batches or int(np.isfinite(quantity.batches).sum())) - 1
    half = stats.t.ppf(0.975, max(freedom, 1)) * error
    return quantity.value - half, quantity.value + half


def standard_error(batches: Floats) -> Floats:
    """The standard error of the mean of batches, shape (batches,) or (batches, k), nan left out.

    Neighbouring batches of a queue resemble each other, which makes the naive error too small; it is
    widened by the correlation of neighbours, where that is positive.
    """
    finite = batches[np.isfinite(batches)] if batches.ndim == 1 else batches
    count = len(finite)
    if count < 2:
        return np.full(batches.shape[1:], np.inf)
    variance = finite.var(axis=0, ddof=1)
    centred = finite - finite.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        neighbours = (centred[1:] * centred[:-1]).sum(axis=0) / (centred**2).sum(axis=0)
    widening = 1.0 + 2.0 * np.clip(np.nan_to_num(neighbours), 0.0, 1.0)
    error: Floats = np.sqrt(variance / count * widening)
    return error


def paired(name: str, live: Quantity, simulated: Sequence[Quantity], tests: int, alarms: float) -> Comparison:
    """Test a live quantity against simulations of the same jobs, batch by batch.

    Args:
        name: Of the quantity.
        live: As measured.
        simulated: One or more replications of the simulation.
        tests: How many tests are made on this run; the rate of false alarms is shared among them.
        alarms: The rate of false alarms of all tests together.
    """
    other = np.mean([quantity.batches for quantity in simulated], axis=0)
    difference = float(live.value) - float(np.mean([quantity.value for quantity in simulated]))
    both = np.isfinite(live.batches) & np.isfinite(other)
    error = float(standard_error(live.batches[both] - other[both]))
    scale = max(abs(float(live.value)), abs(float(live.value) - difference))
    return _judge(name, difference, scale, error, int(both.sum()), tests, alarms)


def against(name: str, simulated: Quantity, predicted: float, tests: int, alarms: float) -> Comparison:
    """Test a simulated quantity against the value that a model predicts exactly."""
    difference = float(simulated.value) - predicted
    error = float(standard_error(simulated.batches))
    count = int(np.isfinite(simulated.batches).sum())
    return _judge(name, difference, abs(predicted), error, count, tests, alarms)


def limit(simulated: float, predicted: float) -> Comparison:
    """A limit or a mean field is not met at finite size: the gap is shown, and nothing is tested."""
    return Comparison("limit", simulated - predicted, 0.0, 0.0)


def _judge(
    name: str, difference: float, scale: float, error: float, batches: int, tests: int, alarms: float
) -> Comparison:
    margin = RELATIVE_MARGIN * scale
    resolution = (COARSE_RESOLUTION if is_coarse(name) else RELATIVE_RESOLUTION) * scale
    if is_probability(name):
        margin = max(margin, PROBABILITY_MARGIN)
        resolution = max(resolution, PROBABILITY_RESOLUTION)
    if not np.isfinite(difference) or batches < 2:
        return Comparison("not_compared", difference, margin, float("nan"))
    noise = float(stats.t.ppf(1.0 - alarms / (2.0 * tests), batches - 1)) * error
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
