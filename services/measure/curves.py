"""What figures show and no single number tells: how sojourn times are distributed, and how waiting moves with time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.measure.quantities import ABANDONED, SERVED, Window
from services.measure.records import Floats, Ints, Run

SOJOURN_EDGES = np.geomspace(1e-3, 1e6, 901)
"""A hundred to the decade: finer than a figure shows, and so few that many runs can be added up."""

TIME_BINS = 60


@dataclass(frozen=True)
class Curves:
    """Counts of one run, or of several together.

    Attributes:
        sojourns: Served jobs of the window by sojourn time: below the first of `SOJOURN_EDGES`, between each two, and
            above the last.
        edges: Instants from the start of the schedule to its end, warm-up included.
        waiting: Sum of the waiting times of the admitted jobs that were meant to arrive between each two edges.
        admitted: How many these are.

    Units: time units.
    """

    sojourns: Ints
    edges: Floats
    waiting: Floats
    admitted: Ints

    def sojourn_tail(self) -> tuple[Floats, Floats]:
        """Times, and the share of served jobs whose sojourn is longer; up to the longest one seen."""
        total = int(self.sojourns.sum())
        if not total:
            return np.zeros(0), np.zeros(0)
        longer = total - np.cumsum(self.sojourns)[:-1]
        first = int(np.argmax(longer < total)) if (longer < total).any() else 0
        seen = slice(max(first - 1, 0), int((longer > 0).sum()))
        return SOJOURN_EDGES[seen], longer[seen] / total

    def mean_waiting(self) -> tuple[Floats, Floats]:
        """The middle of each stretch of time, and the mean waiting time of its jobs; nan where there are none."""
        means = np.full(len(self.admitted), np.nan)
        np.divide(self.waiting, self.admitted, out=means, where=self.admitted > 0)
        return (self.edges[:-1] + self.edges[1:]) / 2.0, means


def curves(run: Run, window: Window) -> Curves:
    """Count the jobs of a run; they belong to the instant at which they were meant to arrive."""
    records = run.records
    served = (records.outcome == SERVED) & (window.batch_of(records.intended) >= 0)
    sojourn = (records.ended - records.intended)[served]
    places = np.searchsorted(SOJOURN_EDGES, sojourn, side="right")
    edges = np.linspace(0.0, window.end, TIME_BINS + 1)
    admitted = ((records.outcome == SERVED) | (records.outcome == ABANDONED)) & (records.intended < window.end)
    stretch = np.searchsorted(edges, records.intended[admitted], side="right") - 1
    return Curves(
        np.bincount(places, minlength=len(SOJOURN_EDGES) + 1),
        edges,
        np.bincount(stretch, weights=records.waiting[admitted], minlength=TIME_BINS).astype(float),
        np.bincount(stretch, minlength=TIME_BINS),
    )


def together(parts: Sequence[Curves]) -> Curves:
    """Several runs of the same length as one."""
    return Curves(
        np.sum([part.sojourns for part in parts], axis=0),
        parts[0].edges,
        np.sum([part.waiting for part in parts], axis=0),
        np.sum([part.admitted for part in parts], axis=0),
    )
