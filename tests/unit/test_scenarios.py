"""Every scenario that is shipped says what is expected, fits its purpose, is simulated, and solved or refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from router.protocol.errors import SettingsError
from services.lab.experiment import read_experiment
from services.lab.simulate import Task, run_task
from services.scenario import Scenario, parse_scenario
from services.scenario_parts import TraceArrivals
from services.scenarios import shipped
from services.solver import solve

ALL = shipped()
TRACES = [name for name in ALL if name.startswith("trace-")]
OF_EACH_PAPER = {
    "arXiv:1512.07873": {"pull", "pull-vanishing", "pull-one-message", "pull-skewed", "pull-finite"},
    "arXiv:2211.15050": {"abandonment-underloaded", "abandonment-critical", "abandonment-overloaded"},
    "arXiv:2003.02368": {
        "lsq-homogeneous", "lsq-two-speed", "lsq-ten-routers", "lsq-slotted", "lsq-slotted-two-speed",
    },
    "doi:10.1109/ITC.2015.22": {"loss-two-types", "loss-three-types", "loss-best-split", "loss-insensitive"},
}  # fmt: skip

SOLVED = {
    "abandonment-critical": {"exact", "limit"},
    "abandonment-overloaded": {"exact", "limit"},
    "abandonment-underloaded": {"exact", "limit"},
    "loss": {"closed"},
    "loss-best-split": {"closed"},
    "loss-three-types": {"meanfield"},
    "loss-two-types": {"meanfield"},
    "mm1": {"closed"},
    "pull": {"closed"},
    "pull-finite": {"closed"},
    "pull-one-message": {"closed"},
    "pull-skewed": {"closed"},
    "pull-vanishing": {"closed", "meanfield"},
    "supermarket": {"meanfield"},
}
"""By which methods at least."""


def parsed(name: str, *overrides: str) -> Scenario:
    return parse_scenario(ALL[name], f"{name}.toml", overrides)


def trace_file(folder: Path, scenario: Scenario) -> Path:
    """Write a trace with the columns that the scenario reads: 200 jobs, one a second."""
    columns = {
        "trace-llm": "TIMESTAMP,ContextTokens,GeneratedTokens",
        "trace-functions": "app,func,end_timestamp,duration",
    }
    if scenario.name == "trace-chat":
        rows = [
            json.dumps({"timestamp": 3000 * (n // 3), "input_length": 7, "output_length": n % 5}) for n in range(200)
        ]
    else:
        row = "2023-11-16 18:{m:02}:{s:02}.5,{n},10" if scenario.name == "trace-llm" else "a,f,{n}.75,0.{n:03}"
        rows = [columns[scenario.name], *(row.format(m=n // 60, s=n % 60, n=n + 1) for n in range(200))]
    path = folder / "trace.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return path


def test_each_paper_has_its_scenarios() -> None:
    for paper, names in OF_EACH_PAPER.items():
        assert {name for name in ALL if paper in parsed(name).source} >= names


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_is_expected_and_why(name: str) -> None:
    text, found = ALL[name], parsed(name)
    assert found.name == name and found.title and found.source
    comment = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    assert text.startswith("# ") and "# Expected" in comment
    assert ("# Size. " in comment) != ("# Simulated only" in comment)


@pytest.mark.parametrize("name", [name for name in ALL if "# Size. " in ALL[name]])
def test_a_live_run_takes_about_a_minute_and_two_cores(name: str) -> None:
    found = parsed(name)
    assert 45.0 <= found.horizon * found.time_unit_s <= 75.0
    # A few thousand messages a second, which two cores carry beside everything else.
    assert 50.0 <= found.rate_total / found.time_unit_s <= 1100.0
    # Shorter services would show the machine's own delays.
    assert min(found.time_unit_s / pool.rate for pool in found.pools) >= 0.020


@pytest.mark.parametrize("name", ALL)
def test_it_simulates(name: str, tmp_path: Path) -> None:
    full = parsed(name)
    if isinstance(full.arrivals, TraceArrivals):
        overrides = ["run.warmup=1", "run.duration=10", f"arrivals.path={trace_file(tmp_path, full)}"]
    else:  # about 4,000 jobs, in whole slots
        duration = np.clip(4_000 // full.rate_total, 20, full.run.duration)
        overrides = [f"run.warmup={duration // 10}", f"run.duration={duration}"]
    experiment = read_experiment(name, overrides)
    workload = experiment.workload()
    quantities = run_task(Task(experiment.scenario, 0, workload)).quantities
    assert len(workload.instants) > 90
    values = {name: float(quantity.value) for name, quantity in quantities.items() if not quantity.value.ndim}
    assert 0.0 <= values["block_probability"] + values.get("abandon_probability", 0.0) < 0.5
    assert values["sojourn_mean"] > 0.0 and values["messages.total"] >= 0.0
    assert all(np.isfinite(value) for value in values.values())


@pytest.mark.parametrize("name", ALL)
def test_it_solves_or_says_why_not(name: str) -> None:
    methods: tuple[str, ...] = ()
    reason = ""
    try:
        methods = solve(parsed(name)).methods
    except SettingsError as error:
        reason = str(error)
    assert set(methods) >= SOLVED.get(name, set())
    assert methods or reason.startswith(f"no model applies to scenario {name}: closed")


# -- what the comments claim -----------------------------------------------------------------------


def test_the_demo_is_the_one_agreed_upon() -> None:
    found = parsed("pull")
    assert found.policy == {"name": "pull", "stale": "withdraw"}
    assert (found.routers.count, found.load) == (4, 0.8)
    assert [(pool.servers, pool.rate) for pool in found.pools] == [(50, 1.0), (50, 2.0)]
    assert found.rate_total / found.time_unit_s == pytest.approx(1000.0)


def test_each_server_of_the_loss_scenario_is_offered_8_erlangs() -> None:
    found = parsed("loss")
    (pool,) = found.pools
    assert (pool.servers, pool.slots, pool.capacity) == (20, 10, 10.0)
    assert found.rate_total / found.servers_total / pool.rate == 8.0


def test_the_pools_with_finite_buffers_differ_in_rate_and_buffer() -> None:
    pools = parsed("pull-finite").pools
    assert len({pool.rate for pool in pools}) == len({pool.capacity for pool in pools}) == 2
    assert all(pool.capacity < float("inf") for pool in pools)


@pytest.mark.parametrize(("name", "regime"), [
    ("abandonment-underloaded", "underloaded"),
    ("abandonment-critical", "critical"),
    ("abandonment-overloaded", "overloaded"),
])  # fmt: skip
def test_each_regime_of_abandonment_is_the_one_named(name: str, regime: str) -> None:
    prediction = solve(parsed(name), "limit").quantities["jobs_in_system_mean"]["limit"]
    assert prediction.kind == f"limit law, {regime} regime"


def test_ten_routers_hear_of_every_completion_once() -> None:
    found = parsed("lsq-ten-routers")
    assert found.routers.count == 10 and found.servers_total == 60
    assert {pool.rate for pool in found.pools} == {1.0, 4.0} and found.load == 0.8
    assert found.policy["refresh"] == "update" and found.policy["p"] == 1.0


@pytest.mark.parametrize(
    ("change", "blocking"),
    # Golden rows G83 and G84.
    [
        ("policy.d=1", 0.20177114),
        ("policy.d=2", 0.04403572),
        ("policy.d=3", 0.00452225),
        ("policy={name = 'weighted_random', weights = 'optimal'}", 0.14667002),
        ("policy={name = 'weighted_random', weights = 'capacity'}", 0.14746300),
    ],
)
def test_blocking_with_two_capacities(change: str, blocking: float) -> None:
    values = solve(parsed("loss-two-types", change)).values()
    assert values["block_probability"] == pytest.approx(blocking, abs=1e-8)


def test_light_and_heavy_router_in_the_limit() -> None:
    # Golden row G48.
    values = solve(parsed("pull-skewed")).values()
    assert values["sojourn_mean"] == pytest.approx(1.5)
    assert values["wait_probability"] == pytest.approx(1 / 3)
    assert values["dispatch.random"] == pytest.approx(0.416667, abs=1e-6)


def test_the_best_split_is_run_as_a_list_of_weights() -> None:
    weights = read_experiment("loss-best-split").scenario.policy["weights"]
    assert len(weights) == 2 and sum(weights) / 2 == pytest.approx(6.0)


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_that_is_not_there_is_asked_for(name: str) -> None:
    found = parsed(name)
    assert isinstance(found.arrivals, TraceArrivals)
    assert "The file is not shipped." in ALL[name] and "licence" in ALL[name]
    with pytest.raises(SettingsError) as caught:
        read_experiment(name, ["arrivals.path=nowhere/jobs.csv"])
    assert str(caught.value) == (
        'arrivals.path = "nowhere/jobs.csv": no such file and none in the working directory: '
        "say where the trace is: --set arrivals.path=FILE"
    )
