"""Whether the two halves of a window agree, so that its values are those of a steady state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy import stats

from services.measure.quantities import Quantity
from services.measure.records import Floats

State = Literal["steady", "warmup_too_short", "too_short", "unstable", "not_tested"]

DEGREE = 3
"""The polynomial that may hide a drift; what it leaves is noise, whose memory is told from it."""

CAUTION = 2.0
"""So many standard errors are added to the memory that was found."""

LONGEST_MEMORY = 0.99

WORTH_KNOWING = 0.01
"""Halves that differ by less than this share of their mean are of no interest, however sure."""

TOO_MUCH_GROWTH = 1.5
"""Growth that no steady state is believed in with, even where a queue with a memory as long as the window shows it."""

UNSTABLE_SHARE = 0.6
"""How near growth must come to that in proportion to time since empty; a queue at the edge grows as the root of it."""

SHORTEST_SERVICES = 100.0
"""In fewer service times of the slowest server every queue may still be filling."""

FREEDOM = 3.0
"""A batch counts as one third of an independent one, besides the memory that its neighbours show."""


@dataclass(frozen=True, slots=True)
class Stationarity:
    """What a comparison of the halves found.

    Attributes:
        state: `steady`: no difference seen. `too_short`: none that is sure, yet too large to be left to chance.
            `not_tested`: too few batches, or arrivals that are not steady themselves.
        growth: Jobs in the system, second half ÷ first half; nan where not tested.
        difference, noise: Second half minus first, and the largest that chance explains at the rate of false alarms.
        why: A sentence, and what to do; empty where steady.
    """

    state: State
    growth: float
    difference: float
    noise: float
    why: str = ""

    @property
    def is_steady(self) -> bool:
        """Whether nothing speaks against a steady state."""
        return self.state in ("steady", "not_tested")


def not_tested(why: str) -> Stationarity:
    """Nothing can be said."""
    nan = float("nan")
    return Stationarity("not_tested", nan, nan, nan, why)


def stationarity(
    runs: Sequence[Quantity], *, warmup: float, duration: float, slowest: float, load: float | None, alarms: float
) -> Stationarity:
    """Compare the halves of a window by the jobs in the system, of which every slow drift is made.

    Rule: the difference of the halves is tested against Student's quantile. Its error is that of a series in which
    each batch keeps a share of the one before (AR(1)). That share is found in what a polynomial of third degree
    leaves over, freed of the bias that fitting brings, and taken two standard errors larger than found; so neither a
    drift nor a queue's memory passes for the other. Where the halves differ, the system is called unstable if its
    load says so, or if the jobs grow nearly in proportion to the time since it was empty; else the warm-up was short.

    Assumes: batches that keep at most half of the one before, as those of a run that is forty times as long as its
    memory: then the rate of false alarms is at most `alarms`. If they keep 0.8, it is up to three times that.

    Units: time units.

    Args:
        runs: `jobs_in_system_mean` of independent runs of the same length, each by batches of its window.
        warmup: From empty to the window.
        duration: Of the window.
        slowest: The mean service time of the slowest server.
        load: If no job leaves unserved and the load is known: of 1 or more it makes the system unstable by theory.
        alarms: The rate of false alarms.

    Source: the bias by exact expectation, as in Kendall 1954, doi:10.1093/biomet/41.3-4.403.
    """
    if load is not None and load >= 1.0:
        return Stationarity("unstable", _growth(runs), float("nan"), float("nan"), _UNSTABLE_BY_LOAD.format(load))
    series = np.array([run.batches for run in runs])
    if series.shape[1] < 4 * (DEGREE + 1) or not np.isfinite(series).all():
        return not_tested("too few batches to compare the halves of the window")
    difference, error, freedom = _difference(series)
    noise = float(stats.t.isf(alarms / 2.0, freedom)) * error if error else 0.0
    growth = _growth(runs)
    longer = float(f"{warmup + duration / 2.0:.2g}")
    if abs(difference) <= noise + WORTH_KNOWING * float(series.mean()):
        if growth < TOO_MUCH_GROWTH:
            return Stationarity("steady", growth, difference, noise)
        why = _TOO_SHORT.format(growth - 1.0, longer, 4.0 * duration)
        return Stationarity("too_short", growth, difference, noise, why)
    proportional = (warmup + 0.75 * duration) / (warmup + 0.25 * duration)
    long_enough = duration >= SHORTEST_SERVICES * slowest
    if long_enough and growth - 1.0 >= UNSTABLE_SHARE * (proportional - 1.0):
        return Stationarity("unstable", growth, difference, noise, _UNSTABLE_BY_GROWTH.format(growth))
    why = _WARMUP_TOO_SHORT.format(abs(growth - 1.0), "more" if growth > 1.0 else "fewer", longer)
    return Stationarity("warmup_too_short", growth, difference, noise, why)


_UNSTABLE_BY_LOAD = "unstable: load {:g} >= 1 and no job leaves unserved: queues grow without bound"
_UNSTABLE_BY_GROWTH = (
    "unstable: jobs in the system grow in proportion to time, {:.2f}-fold from the first half of the window to the "
    "second: no mean is one of a steady state"
)
_WARMUP_TOO_SHORT = (
    "warm-up too short: {:.0%} {} jobs in the system in the second half of the window than in the first: "
    "try --set run.warmup={:g}"
)
_TOO_SHORT = (
    "window too short: {:.0%} more jobs in the system in its second half than in its first, and it is too short beside "
    "the memory of the queues to tell why: try --set run.warmup={:g} --set run.duration={:g}"
)


def _growth(runs: Sequence[Quantity]) -> float:
    mean = np.mean([run.batches for run in runs], axis=0)
    half = len(mean) // 2
    first, second = float(mean[:half].mean()), float(mean[half:].mean())
    return second / first if first > 0.0 else float("nan")


def _difference(series: Floats) -> tuple[float, float, float]:
    """Second half minus first, its standard error, and the degrees of freedom of that."""
    runs, batches = series.shape
    tables = _tables(batches)
    difference = float((series @ tables.contrast).mean())
    left = series @ tables.residual
    squares = float((left**2).sum())
    if squares <= 1e-18 * float((series**2).sum()):
        return difference, 0.0, 1.0
    together = float((left[:, 1:] * left[:, :-1]).sum()) / squares
    together += CAUTION * float(np.sqrt(max(1.0 - together**2, 0.0) / (runs * batches)))
    variance = squares / runs**2 * float(np.interp(together, tables.together, tables.variance))
    return difference, float(np.sqrt(variance)), runs * (batches - DEGREE - 1) / FREEDOM


@dataclass(frozen=True)
class _Tables:
    """What to expect of a series of so many batches, by memory: the share that a batch keeps of the one before.

    Attributes:
        contrast: Shape (batches,): series @ contrast is the difference of the halves.
        residual: Shape (batches, batches): series @ residual is what the polynomial leaves.
        memory: Shape (memories,). `together`: the expected correlation of neighbours in what is left; `variance`: of
            the difference, per sum of squares of what is left. Of the same shape.
    """

    contrast: Floats
    residual: Floats
    memory: Floats
    together: Floats
    variance: Floats


@cache
def _tables(batches: int) -> _Tables:
    half = batches // 2
    contrast = np.concatenate([np.full(half, -1.0 / half), np.full(batches - half, 1.0 / (batches - half))])
    basis, _ = np.linalg.qr(np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, batches), DEGREE))
    residual = np.eye(batches) - basis @ basis.T
    apart = np.abs(np.subtract.outer(np.arange(batches), np.arange(batches)))
    memory = 1.0 - np.geomspace(1.0, 1.0 - LONGEST_MEMORY, 100)
    together, variance = [], []
    for share in memory:
        covariance = share**apart
        left = residual @ covariance @ residual
        together.append(float(np.trace(left, 1)) / float(np.trace(left)))
        variance.append(float(contrast @ covariance @ contrast) / float(np.trace(left)))
    return _Tables(contrast, residual, memory, np.maximum.accumulate(together), np.array(variance))
