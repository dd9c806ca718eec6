"""How much two systems differ that were given the same jobs, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from services.measure.quantities import Quantity
from services.measure.records import Floats
from services.measure.verdict import PROBABILITY_MARGIN, RELATIVE_MARGIN, is_probability, memory_around_mean

Direction = Literal["more", "less", "no_difference_seen", "alike", "not_compared"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a comparison of two systems found.

    Attributes:
        word: `more` or `less`: the first has more or less of it than the second, which chance does not explain.
            `alike`: whatever the difference, it is too small to matter. `no_difference_seen`: it may still be there.
        value: First minus second. `half`: half the width of its interval.
        longer: How many times as long a run must be to see a difference as large as the one found, or as the
            smallest that matters; 1 where one was seen.
    """

    word: Direction
    value: float
    half: float
    longer: float = 1.0


def difference(
    name: str, first: Sequence[Quantity], second: Sequence[Quantity], alarms: float, family: int
) -> Difference:
    """Compare a quantity of two systems, run by run and batch by batch, so that what the jobs share cancels.

    Args:
        name: Of the quantity.
        first: Of the one system, from independent runs.
        second: Of the other, from the same jobs run by run.
        alarms: The chance that any interval of the family misses.
        family: How many intervals there are.
    """
    apart = np.array([one.batches - two.batches for one, two in zip(first, second, strict=True)])
    values = [float(np.mean([run.value for run in runs])) for runs in (first, second)]
    value = values[0] - values[1]
    half = half_width(apart, alarms / family)
    if not np.isfinite(value) or not np.isfinite(half):
        return Difference("not_compared", value, half)
    if abs(value) > half:
        return Difference("more" if value > 0.0 else "less", value, half)
    matters = RELATIVE_MARGIN * max(map(abs, values))
    if is_probability(name):
        matters = max(matters, PROBABILITY_MARGIN)
    if abs(value) + half <= matters:
        return Difference("alike", value, half)
    return Difference("no_difference_seen", value, half, (half / max(abs(value), matters)) ** 2)


def half_width(series: Floats, alarms: float) -> float:
    """Half the width of a confidence interval of the mean.

    Args:
        series: Shape (runs, batches), of independent runs.
        alarms: The chance that it misses.
    """
    runs, batches = series.shape
    if not np.isfinite(series).all():
        return float("nan")
    variance, widening, freedom = memory_around_mean(series)
    return float(stats.t.isf(alarms / 2.0, freedom)) * float(np.sqrt(variance * widening / (runs * batches)))
