"""A scenario with its trace: the run ends when the trace does."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.lab.experiment import read_experiment

SCENARIO = """
name = "replay"
[policy]
name = "random"
[[pools]]
name = "a"
servers = 10
[arrivals]
law = "trace"
path = "jobs.csv"
time_column = "at"
time_unit = "s"
rate_total = 2.0
repeat = REPEAT
[run]
warmup = 50
duration = 150
"""


def write(folder: Path, repeat: bool) -> str:
    # 101 jobs, one a second: at 2 jobs per time unit they last 100 / 2 = 50 time units.
    rows = "\n".join(["at", *(str(second) for second in range(101))])
    (folder / "jobs.csv").write_text(rows, encoding="utf-8")
    path = folder / "replay.toml"
    path.write_text(SCENARIO.replace("REPEAT", str(repeat).lower()), encoding="utf-8")
    return str(path)


def test_a_trace_that_is_too_short_ends_the_run_and_leaves_a_tenth_to_the_warm_up(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, repeat=False))
    run = experiment.scenario.run
    assert run.warmup == pytest.approx(5.0)
    assert run.warmup + run.duration == pytest.approx(50.0)
    assert len(experiment.workload().instants) == 101
    assert any("the run ends with the trace" in line for line in experiment.trace_lines())


def test_a_trace_that_is_repeated_fills_the_run_as_it_was_asked_for(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, repeat=True))
    assert (experiment.scenario.run.warmup, experiment.scenario.run.duration) == (50.0, 150.0)
    assert not any("ends with the trace" in line for line in experiment.trace_lines())
