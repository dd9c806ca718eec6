"""The workload: the jobs depend on what the scenario says of jobs, and on nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from router.protocol.errors import SettingsError
from services.loadgen import arrivals
from services.loadgen.trace import Trace, read_trace
from services.loadgen.trace_options import TraceOptions
from services.loadgen.workload import Workload, draw_workload, lay_out
from services.scenario import Scenario, parse_scenario

ROOT = Path(__file__).parents[2]

BASE = """
name = "x"
seed = 7
policy.name = "pull"
routers.count = 3
run = {warmup = 10, duration = 90}

[[pools]]
name = "p"
servers = 10

[arrivals]
rate_total = 50.0
"""

TRACED = (
    "arrivals.law=trace",
    "arrivals.path=jobs.csv",
    "arrivals.time_column=at",
    "arrivals.time_unit=s",
    "time_unit_s=0.5",
    "run.warmup=1",
    "run.duration=9",
)


def scenario(*overrides: str) -> Scenario:
    return parse_scenario(BASE, "x.toml", overrides)


def drawn(*overrides: str) -> Workload:
    return draw_workload(scenario(*overrides))


def columns(workload: Workload) -> dict[str, np.ndarray]:
    return {name: getattr(workload, name) for name in ("instants", "routers", "sizes", "patience")}


def changed(one: Workload, other: Workload) -> set[str]:
    """The columns in which two workloads differ."""
    pairs = zip(columns(one).items(), columns(other).values(), strict=True)
    return {name for (name, mine), theirs in pairs if not np.array_equal(mine, theirs, equal_nan=True)}


def digest(workload: Workload) -> str:
    return hashlib.sha256(b"".join(column.tobytes() for column in columns(workload).values())).hexdigest()


def trace(found: Scenario, text: str = "at,size\n0,2\n1,6\n2,1\n4,3\n") -> Trace:
    assert isinstance(found.arrivals, TraceOptions)
    return read_trace(text.encode(), "jobs.csv", found.arrivals)


# -- what it depends on ----------------------------------------------------------------------------


def test_two_processes_with_other_hash_seeds_draw_the_same_jobs() -> None:
    code = (
        "import sys; from tests.unit.test_workload import digest, drawn; "
        "print(digest(drawn('patience.rate=0.5', 'service.law=lognormal', 'service.scv=4')))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    assert digests == {digest(drawn("patience.rate=0.5", "service.law=lognormal", "service.scv=4")) + "\n"}


def test_another_seed_draws_other_jobs() -> None:
    assert changed(drawn("patience.rate=1"), drawn("patience.rate=1", "seed=8")) == {
        "instants",
        "routers",
        "sizes",
        "patience",
    }


@pytest.mark.parametrize(
    "override",
    [
        "policy.name=random",
        "pools.0.rate=0.1",  # ten times slower: open loop, the jobs do not wait for one another
        "pools.0.servers=100",
        "pools.0.capacity=1",
        "time_unit_s=0.01",
        "arrivals.rate_per_server=5",  # the same rate in other words
    ],
)
def test_what_is_no_matter_of_jobs_changes_none(override: str) -> None:
    assert changed(drawn(), drawn(override)) == set()


@pytest.mark.parametrize(
    ("override", "columns"),
    [
        ("service.law=deterministic", {"sizes"}),
        ("patience.rate=0.1", {"patience"}),
        ("routers.count=2", {"routers"}),
    ],
)
def test_a_change_of_one_law_leaves_the_other_columns(override: str, columns: set[str]) -> None:
    assert changed(drawn(), drawn(override)) == columns


def test_a_longer_run_begins_with_the_same_jobs() -> None:
    short, long = drawn("patience.rate=1"), drawn("patience.rate=1", "run.duration=190")
    jobs = len(short.instants)
    for name, column in columns(short).items():
        assert np.array_equal(column, columns(long)[name][:jobs])
    assert long.instants[jobs] >= 100.0  # warm-up and duration of the short run


# -- what is drawn ---------------------------------------------------------------------------------


def test_each_column_has_the_stream_of_its_name() -> None:
    found = drawn("patience.rate=0.5")
    law = scenario().law()
    instants = arrivals.poisson(50.0, 100.0, Random("7:arrivals:instants"))
    jobs = len(instants)
    assert np.array_equal(found.instants, instants)
    assert np.array_equal(found.routers, arrivals.router_of_each(jobs, [1 / 3] * 3, Random("7:arrivals:routers")))
    assert np.array_equal(found.sizes, arrivals.sizes(jobs, law, Random("7:arrivals:sizes")))
    assert np.array_equal(found.patience, arrivals.sizes(jobs, law, Random("7:arrivals:patience")) / 0.5)


def test_jobs_are_as_many_as_asked_for_and_split_as_asked_for() -> None:
    found = drawn("routers.split=[1, 3]")
    # 50 · 100 = 5,000 jobs, standard deviation √5000 = 71; a quarter of them, standard deviation √(n/4·3/4) = 31.
    jobs = len(found.instants)
    assert abs(jobs - 5000) < 4 * 71
    assert abs(np.count_nonzero(found.routers == 0) - jobs / 4) < 4 * 31
    assert found.instants[0] >= 0.0 and found.instants[-1] < 100.0 and np.all(np.diff(found.instants) >= 0.0)
    # Exponential: mean and standard deviation 1.
    assert abs(found.sizes.mean() - 1.0) < 4 / np.sqrt(jobs)
    assert np.isnan(found.patience).all()


def test_the_mean_patience_is_one_over_its_rate() -> None:
    patience = drawn("patience.rate=0.1").patience
    assert abs(patience.mean() - 10.0) < 4 * 10.0 / np.sqrt(len(patience))


def test_deterministic_arrivals_are_equally_spaced() -> None:
    found = drawn("arrivals.law=deterministic", "arrivals.rate_total=0.04")
    assert found.instants.tolist() == [0.0, 25.0, 50.0, 75.0]


def test_a_run_may_be_too_short_for_any_job() -> None:
    found = drawn("run={warmup = 0, duration = 1e-9}")
    assert [len(column) for column in columns(found).values()] == [0, 0, 0, 0]


# -- traces ----------------------------------------------------------------------------------------


def test_a_trace_gives_instants_and_sizes() -> None:
    found = scenario(*TRACED, "arrivals.speedup=2", "arrivals.size_column=size")
    replayed = draw_workload(found, trace(found))
    # Recorded at 0, 1, 2 and 4 s; twice as fast, in units of half a second: 0, 1, 2 and 4 units. Mean size 3.
    assert replayed.instants.tolist() == [0.0, 1.0, 2.0, 4.0]
    assert replayed.sizes.tolist() == pytest.approx([2 / 3, 2.0, 1 / 3, 1.0])
    assert len(replayed.routers) == len(replayed.patience) == 4


def test_a_trace_without_sizes_takes_those_of_the_law() -> None:
    found = scenario(*TRACED, "arrivals.speedup=2")
    law = found.law()
    assert np.array_equal(draw_workload(found, trace(found)).sizes, arrivals.sizes(4, law, Random("7:arrivals:sizes")))


def test_a_trace_is_scaled_to_the_rate_and_repeated() -> None:
    found = scenario(*TRACED, "arrivals.load=0.1", "arrivals.repeat=true")
    laid_out = lay_out(found, trace(found))
    # Ten servers: load 0.1 is one job a unit. Three gaps in 4 s become three units: 0, 0.75, 1.5, 3; a lap takes one
    # mean gap more, 4 units; ten units are two laps and a half.
    expected = [0.0, 0.75, 1.5, 3.0, 4.0, 4.75, 5.5, 7.0, 8.0, 8.75, 9.5]
    assert laid_out.instants_units.tolist() == pytest.approx(expected)
    assert np.array_equal(draw_workload(found, trace(found)).instants, laid_out.instants_units)
    assert any("replayed" in note for note in laid_out.notes)


# -- mistakes --------------------------------------------------------------------------------------


def test_too_many_jobs_are_refused_with_the_key() -> None:
    with pytest.raises(SettingsError, match=r"^run\.duration = 1e\+07: 50 jobs per time unit for 1e\+07 .* shorten"):
        drawn("run.warmup=0", "run.duration=1e7")


def test_a_trace_of_too_many_laps_is_refused_with_the_key() -> None:
    found = scenario(*TRACED, "arrivals.load=0.1", "arrivals.repeat=true", "run.duration=1e9")
    with pytest.raises(SettingsError, match=r"^run\.duration = 1e\+09: .* repetitions of 4 jobs"):
        draw_workload(found, trace(found))


def test_a_trace_must_be_handed_in_exactly_where_one_is_asked_for() -> None:
    found = scenario(*TRACED, "arrivals.speedup=1")
    with pytest.raises(SettingsError, match=r'^arrivals\.law = "trace", but no trace'):
        draw_workload(found)
    with pytest.raises(SettingsError, match=r'^arrivals\.law = "poisson", but a trace was given'):
        draw_workload(scenario(), trace(found))
