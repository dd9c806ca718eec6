"""How often the comparison of halves is wrong, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from services.measure.quantities import Quantity
from services.measure.stationarity import stationarity

BATCHES = 40
ALARMS = 0.01


def noise_of(rng, runs, memory):
    """Each batch keeps a share of the one before."""
    series = np.empty((runs, BATCHES))
    last = rng.normal(size=runs)
    for place in range(BATCHES):
        last = memory * last + np.sqrt(1.0 - memory**2) * rng.normal(size=runs)
        series[:, place] = last
    return series


def found_in(series, *, warmup=50.0, duration=400.0, slowest=1.0, load=None, alarms=ALARMS):
    runs = [Quantity(np.asarray(row.mean()), row) for row in series]
    return stationarity(
        runs, warmup=warmup, duration=duration, slowest=slowest, load=load, alarms=alarms
    )  # fmt: skip


@pytest.mark.parametrize("runs", [1, 4])
@pytest.mark.parametrize(("memory", "times"), [(0.0, 1), (0.5, 1), (0.8, 3)])
def test_steady_series_are_called_unsteady_as_rarely_as_promised(runs, memory, times):
    rng = np.random.default_rng(31)
    # The mean is 5 standard deviations, so that what is worth knowing, 1% of it, hides no false alarm.
    wrong = sum(not found_in(5.0 + noise_of(rng, runs, memory)).is_steady for _ in range(2000))
    # 2000 trials at 1% are 20 ± 4.4 alarms: four standard deviations more are left to chance.
    expected = 2000 * ALARMS * times
    assert wrong <= expected + 4.0 * np.sqrt(expected)


def test_growth_in_proportion_to_time_is_unstable():
    rng = np.random.default_rng(32)
    since_empty = 50.0 + 400.0 * (np.arange(BATCHES) + 0.5) / BATCHES
    states = [found_in(since_empty + 10.0 * noise_of(rng, 1, 0.3), alarms=1e-3).state for _ in range(100)]
    assert states.count("unstable") > 80


def test_growth_that_levels_off_is_a_short_warmup():
    rng = np.random.default_rng(33)
    at = 400.0 * (np.arange(BATCHES) + 0.5) / BATCHES
    filling = 100.0 * (1.0 - np.exp(-at / 80.0))
    found = [found_in(filling + 3.0 * noise_of(rng, 4, 0.3), warmup=0.0, alarms=1e-3) for _ in range(100)]
    assert [each.state for each in found].count("warmup_too_short") > 95
    # The mean of 1 − exp(−t/80) is 0.6327 over 0…200 and 0.9693 over 200…400: a ratio of 1.53.
    growth = np.mean([each.growth for each in found])
    assert growth == pytest.approx(1.53, abs=0.01)
    assert "run.warmup=200" in found[0].why


def test_a_queue_at_the_edge_grows_as_the_root_of_time_and_is_not_called_unstable():
    rng = np.random.default_rng(34)
    since_empty = 50.0 + 400.0 * (np.arange(BATCHES) + 0.5) / BATCHES
    found = [found_in(10.0 * np.sqrt(since_empty) + 3.0 * noise_of(rng, 4, 0.3), alarms=1e-3) for _ in range(100)]
    assert {each.state for each in found} <= {"steady", "warmup_too_short"}


def test_a_run_too_short_for_its_slowest_server_is_not_called_unstable():
    since_empty = 50.0 + 400.0 * (np.arange(BATCHES) + 0.5) / BATCHES
    rng = np.random.default_rng(35)
    assert found_in(since_empty + noise_of(rng, 4, 0.0), slowest=10.0).state == "warmup_too_short"


def test_a_fall_is_no_instability():
    rng = np.random.default_rng(36)
    falling = 200.0 - np.arange(BATCHES) + noise_of(rng, 4, 0.0)
    found = found_in(falling)
    assert found.state == "warmup_too_short" and found.growth < 1.0 and "fewer" in found.why


def test_overload_is_unstable_by_theory():
    found = found_in(np.ones((1, BATCHES)), load=1.0)
    assert found.state == "unstable" and not found.is_steady


def test_nothing_random_and_nothing_growing_is_steady():
    assert found_in(np.full((1, BATCHES), 3.0)).state == "steady"


@pytest.mark.parametrize("series", [np.ones((1, 10)), np.full((1, BATCHES), np.nan)])
def test_too_little_is_not_tested(series):
    found = found_in(series)
    assert found.state == "not_tested" and found.is_steady


def test_growth_that_one_run_cannot_explain_is_not_called_steady():
    at = 400.0 * (np.arange(BATCHES) + 0.5) / BATCHES
    rng = np.random.default_rng(37)
    # It grows as a root of time, so smoothly that a queue with a memory longer than the window would look the same.
    found = found_in(100.0 * np.sqrt(at) + 0.1 * noise_of(rng, 1, 0.0), warmup=0.0, alarms=1e-6)
    assert found.state in ("too_short", "warmup_too_short") and found.growth > 1.5 and not found.is_steady
