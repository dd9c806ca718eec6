"""What figures show: counts of sojourn times, and waiting over time."""

from __future__ import annotations

import numpy as np
import pytest

from services.measure.curves import TIME_BINS, curves, together
from services.measure.quantities import ABANDONED, BLOCKED, SERVED, Window
from services.measure.records import Run
from tests.unit.test_measure import fleet, no_messages, records


def of(rows, window):
    return curves(Run(fleet(), records(rows), no_messages()), window)


def test_the_tail_is_the_share_of_served_jobs_with_a_longer_sojourn() -> None:
    # In the window [1, 9): sojourns 1, 2, 4; the job before it, the blocked one and the one that left count nowhere.
    rows = [
        (0.0, 0, 0.0, 50.0, SERVED), (1.0, 0, 0.0, 1.0, SERVED), (2.0, 0, 1.0, 1.0, SERVED),
        (3.0, 0, 0.0, 0.0, BLOCKED), (4.0, 0, 0.5, 0.0, ABANDONED), (5.0, 0, 0.0, 4.0, SERVED),
    ]  # fmt: skip
    times, shares = of(rows, Window(1.0, 9.0, 4)).sojourn_tail()
    for t, share in [(0.9, 1.0), (1.1, 2 / 3), (1.9, 2 / 3), (2.1, 1 / 3), (3.9, 1 / 3)]:
        assert shares[np.searchsorted(times, t)] == pytest.approx(share)
    assert times[-1] == pytest.approx(4.0, rel=0.03)  # the last edge below the longest: edges are 2.3% apart


def test_waiting_is_averaged_over_the_jobs_of_each_stretch_of_time() -> None:
    # Stretches of one time unit each. In [2, 3): waits 1 and 3, a blocked job waits for nothing; in [3, 4): none.
    rows = [(2.0, 0, 1.0, 1.0, SERVED), (2.5, 0, 3.0, 0.0, ABANDONED), (2.6, 0, 0.0, 0.0, BLOCKED)]
    instants, means = of(rows, Window(1.0, float(TIME_BINS), 4)).mean_waiting()
    assert (instants[2], means[2]) == (2.5, 2.0)
    assert np.isnan(means[3])


def test_runs_add_up() -> None:
    window = Window(0.0, float(TIME_BINS), 4)
    one = of([(2.0, 0, 1.0, 1.0, SERVED)], window)
    other = of([(2.0, 0, 2.0, 6.0, SERVED), (2.5, 0, 6.0, 2.0, SERVED)], window)
    both = together([one, other])
    assert both.mean_waiting()[1][2] == pytest.approx(3.0)  # (1 + 2 + 6) / 3
    times, shares = both.sojourn_tail()
    assert shares[np.searchsorted(times, 5.0)] == pytest.approx(2 / 3)


def test_a_run_without_served_jobs_has_no_tail() -> None:
    times, shares = of([(2.0, 0, 0.0, 0.0, BLOCKED)], Window(0.0, 9.0, 4)).sojourn_tail()
    assert (len(times), len(shares)) == (0, 0)
