"""What a trace is said to be, and the schedule made of it."""

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from services.loadgen.arrivals import poisson
from services.loadgen.trace import Trace, read_trace
from services.loadgen.trace_options import TraceOptions
from services.loadgen.trace_report import TimeStatistics, index_of_dispersion
from services.loadgen.trace_schedule import schedule


def read(text: str, size_column: str | None = None) -> Trace:
    options = TraceOptions(time_column="time", time_unit="s", size_column=size_column)
    return read_trace(text.encode(), "t", options)


# --- Statistics


def test_statistics_by_hand() -> None:
    statistics = TimeStatistics.of(np.array([0.0, 0.5, 0.6, 2.0, 4.0]))
    # Counts in [0,1) … [3,4): 3, 0, 1, 0: mean 1, variance (4 + 1 + 0 + 1)/4. The job at 4 is in no full window.
    assert statistics.idc_1s == pytest.approx(1.5)
    assert statistics.idc_10s is None
    assert statistics.span_s == 4.0
    assert statistics.rate_per_s == 1.0
    assert (statistics.longest_silence_s, statistics.silence_from_s) == (2.0, 2.0)
    # Gaps 0.5, 0.1, 1.4, 2.0, mean 1: variance (0.25 + 0.81 + 0.16 + 1)/4.
    assert statistics.gap_cv == pytest.approx(math.sqrt(0.555))


def test_poisson_has_dispersion_and_gap_cv_of_one_and_no_silence_that_misleads() -> None:
    instants = poisson(5.0, 20_000.0, Random("1:trace"))
    statistics = TimeStatistics.of(instants - instants[0])
    assert statistics.idc_1s is not None
    assert statistics.idc_10s is not None
    # Standard errors √(2/20 000) = 0.01, √(2/2 000) = 0.032, 1/√100 000 = 0.003.
    assert abs(statistics.idc_1s - 1.0) < 0.04
    assert abs(statistics.idc_10s - 1.0) < 0.13
    assert abs(statistics.gap_cv - 1.0) < 0.013
    assert not statistics.silence_misleads


def test_dispersion_of_a_regular_stream_is_zero() -> None:
    assert index_of_dispersion(np.arange(100, dtype=np.float64), 10.0) == pytest.approx(0.0, abs=1e-12)


def test_a_long_silence_is_pointed_out() -> None:
    instants = np.concatenate([np.arange(500), 1_000 + np.arange(500)]).astype(float)
    statistics = TimeStatistics.of(instants)
    assert statistics.silence_misleads
    # 999 gaps in 1 499 s, of which 501 s are the silence.
    assert statistics.rate_outside_silence_per_s == pytest.approx(999 / 998)
    assert TimeStatistics.of(np.array([0.0, 0.0, 10.0])).rate_outside_silence_per_s == math.inf


# --- The schedule


@pytest.fixture
def steady() -> Trace:
    return read("time,size\n" + "".join(f"{i},{1 + i % 2 * 2}\n" for i in range(10)), size_column="size")


def test_speedup(steady: Trace) -> None:
    # 1 s of the trace is 0.25 s of the replay, which is 2.5 time units.
    laid = schedule(steady, time_unit_s=0.1, horizon_units=100.0, speedup=4.0)
    assert laid.instants_units.tolist() == [2.5 * i for i in range(10)]
    assert laid.ends_at_units == 22.5
    assert laid.notes[0] == "the trace ends at 22.5 of 100 time units: repeat it, or shorten the run"


def test_rate(steady: Trace) -> None:
    laid = schedule(steady, time_unit_s=0.1, horizon_units=2.0, rate=2.0)
    assert laid.instants_units.tolist() == [0.0, 0.5, 1.0, 1.5]
    # From 1 job per s to 20 per s.
    assert laid.speedup == pytest.approx(20.0)
    assert laid.ends_at_units is None
    assert laid.sizes is not None
    assert laid.sizes.tolist() == [0.5, 1.5, 0.5, 1.5]
    assert laid.notes == ("the run ends after 4 of the 10 jobs of the trace",)


def test_repeat_keeps_the_mean_rate_and_the_sizes(steady: Trace) -> None:
    laid = schedule(steady, time_unit_s=1.0, horizon_units=25.0, speedup=1.0, repeat=True)
    assert laid.instants_units.tolist() == [float(i) for i in range(25)]
    assert laid.laps == 3
    assert laid.sizes is not None
    assert steady.sizes is not None
    assert laid.sizes[10:20].tolist() == steady.sizes.tolist()
    assert laid.notes[0] == "the trace of 10 jobs is replayed 2.5 times to fill the run"


def test_the_schedule_reports_what_the_mean_hides() -> None:
    text = "time,size\n" + "".join(f"{t},{size}\n" for t, size in [(i, 1) for i in range(100)] + [(999, 3)] * 100)
    trace = read(text, size_column="size")
    notes = schedule(trace, time_unit_s=1.0, horizon_units=100.0, speedup=1.0).notes
    assert notes == (
        "the run ends after 100 of the 200 jobs of the trace",
        # 199 gaps in 999 s; 199 of them in 99 s.
        "the jobs replayed come at a mean rate of 1 per time unit, those of the whole trace at 0.1992",
        "the trace has a silence of 900 time units, 90.1% of it: outside of it the mean rate is "
        "2.01 per time unit, not 0.1992",
        "the sizes of the jobs replayed have mean 0.500, those of the whole trace 1",
    )


def test_without_sizes() -> None:
    assert schedule(read("time\n0\n1\n"), time_unit_s=1.0, horizon_units=9.0, rate=1.0).sizes is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "state exactly one of them"),
        ({"speedup": 1.0, "rate": 1.0}, "state exactly one of them"),
        ({"speedup": 0.0}, r"speedup = 0\.0: it must be a finite number > 0"),
        ({"rate": math.nan}, "rate = nan"),
        ({"rate": 1.0, "horizon_units": math.inf}, "horizon_units = inf"),
        ({"rate": 1.0, "time_unit_s": -1.0}, r"time_unit_s = -1\.0"),
        ({"rate": 1.0, "horizon_units": 1e12, "repeat": True}, "shorten the run"),
    ],
)
def test_impossible_schedules(steady: Trace, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule(steady, **({"time_unit_s": 1.0, "horizon_units": 10.0} | arguments))
