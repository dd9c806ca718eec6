"""Every shipped scenario is warm when its measurement begins, and the check of its halves does not cry wolf."""

from __future__ import annotations

import tomllib

import pytest

from services.lab.experiment import read_experiment
from services.lab.simulate import Task, run_task
from services.lab.steady import steadiness
from services.scenarios import shipped

QUICK = ("abandonment-critical", "jsq", "mm1", "pull")
ALARMS = 1e-3
# A trace is not steady by itself, nor is it shipped.
LONG = [
    name
    for name, text in shipped().items()
    if name not in QUICK and tomllib.loads(text)["arrivals"].get("law") != "trace"
]


def state_of(name: str, *overrides: str, runs: int = 1) -> str:
    """Simulate it so many times, each as long as it is live."""
    experiment = read_experiment(name, overrides)
    scenario = experiment.scenario
    seeded = [scenario.model_copy(update={"seed": scenario.seed + number}) for number in range(runs)]
    found = [run_task(Task(each, 0)).quantities for each in seeded]
    return steadiness(experiment, found, ALARMS).state


@pytest.mark.parametrize("name", QUICK)
def test_a_shipped_scenario_is_steady(name: str) -> None:
    assert state_of(name) == "steady"


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_every_shipped_scenario_is_steady(name: str) -> None:
    # Bursts are not steady by themselves, and are not tested.
    assert state_of(name) in ("steady", "not_tested")


def test_a_start_from_empty_is_a_short_warmup() -> None:
    # An M/M/1 queue at load 0.95 takes about 1/(1 − √0.95)² = 1560 time units to fill.
    overrides = ("arrivals.load=0.95", "run.warmup=0", "run.duration=300")
    assert state_of("mm1", *overrides) == "too_short"  # one run cannot tell filling from a long memory
    assert state_of("mm1", *overrides, runs=4) == "warmup_too_short"


def test_slow_servers_that_get_too_much_are_unstable() -> None:
    # A uniform draw sends half of 0.8 · 20 jobs a time unit to ten servers that can serve 4.
    assert state_of("finding-two-speeds", "policy.name=random", "run.warmup=50", "run.duration=1000") == "unstable"
