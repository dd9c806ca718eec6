"""Runs one scenario in virtual time and holds what it measures against values known from elsewhere.

A value agrees if it lies within the noise of the run: its standard error times Student's quantile for the rate of
false alarms below. That says something only if the noise is small, so each case also states the largest standard error
that it may have.

The estimate is that of batch means with two control variates: how many jobs a batch happened to bring, and how large
they happened to be, have known expectations, and most of a queue's noise follows from them. So the batches are
regressed on both, and the intercept is the estimate (Lavenberg and Welch 1981, doi:10.1287/mnsc.27.3.322). Its error
is widened where the residuals of neighbouring batches resemble each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from services.measure.quantities import Window, measure
from services.measure.records import Floats, Run
from services.scenario import Scenario, parse_scenario
from services.simulator.run import simulate

ALARMS = 1e-6 / 100
"""The rate of false alarms of one comparison: 1e-6 for all of a family, which has at most 100."""

BATCHES = 50
SHORTEST_BATCH = 4.0
"""The most batches, and the shortest: in mean service times, so that a large system in a short run still forgets."""

Known = float | tuple[float, float]
"""A value; or a value and its own standard error, where it was simulated elsewhere."""


class Estimate(NamedTuple):
    """A simulated value, its standard error, and how many numbers are behind that error."""

    value: float
    error: float
    freedom: int


@dataclass(frozen=True)
class Case:
    """A row of the golden table, as a scenario.

    Attributes:
        row: Its number.
        policy, pools, arrivals, more: Values of those keys and further lines of the scenario, in TOML.
        expected: The known value of each quantity.
        jobs: Arrivals in the measured window.
        error: The largest standard error allowed, relative to the value.
        bias: How far a limit may be from the truth at this size, relative to it; 0 for what is exact.
        warmup: Time units from empty that are not measured; left out: a tenth of the window.
    """

    row: str
    policy: str
    pools: str
    arrivals: str
    expected: Mapping[str, Known]
    jobs: int
    error: float = 0.02
    bias: float = 0.0
    more: str = ""
    warmup: float | None = None
    seed: int = 1

    def __str__(self) -> str:
        parts = (self.row, self.policy, self.arrivals, self.more.replace("\n", " "))
        return " ".join(part for part in parts if part).replace('"', "").replace("name = ", "")


def scenario_of(case: Case) -> Scenario:
    """The scenario of a case, as long as its jobs take."""
    text = (
        f'name = "golden"\nseed = {case.seed}\npolicy = {{{case.policy}}}\npools = [{case.pools}]\n'
        f"arrivals = {{{case.arrivals}}}\n{case.more}"
    )
    duration = case.jobs / parse_scenario(text, case.row).rate_total
    warmup = duration / 10 if case.warmup is None else case.warmup
    return parse_scenario(text, case.row, [f"run.duration={duration}", f"run.warmup={warmup}"])


def estimates(scenario: Scenario, run: Run) -> dict[str, Estimate]:
    """Each quantity that is one number, from the measured window of a run."""
    batches = min(BATCHES, int(scenario.run.duration / SHORTEST_BATCH))
    window = Window(scenario.run.warmup, scenario.horizon, batches)
    batch = window.batch_of(run.records.intended)
    counts = np.bincount(batch[batch >= 0], minlength=batches)
    sizes = np.bincount(batch[batch >= 0], weights=run.records.size[batch >= 0], minlength=batches) / counts
    arrivals = counts / (scenario.rate_total * scenario.run.duration / batches)
    controls = np.column_stack([arrivals - 1.0, sizes - 1.0])
    controls = controls[:, np.ptp(controls, axis=0) > 1e-9]  # a deterministic one explains nothing
    return {
        name: intercept(quantity.batches, controls)
        for name, quantity in measure(run, window).items()
        if quantity.batches.ndim == 1 and np.isfinite(quantity.batches).all()
    }


def intercept(batches: Floats, controls: Floats) -> Estimate:
    """What the batches would be on average, had the controls met their expectation."""
    design = np.column_stack([np.ones(len(batches)), controls])
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ batches
    residuals = batches - design @ coefficients
    freedom = len(batches) - design.shape[1]
    squares = float(residuals @ residuals)
    neighbours = float(residuals[1:] @ residuals[:-1]) / squares if squares > 0.0 else 0.0
    variance = squares / freedom * float(inverse[0, 0]) * (1.0 + 2.0 * max(neighbours, 0.0))
    return Estimate(float(coefficients[0]), math.sqrt(variance), freedom)


def rows(quick: Sequence[Case], long: Sequence[Case]) -> list[Any]:
    """All cases, as parameters of one test."""
    return [*quick, *(pytest.param(case, marks=pytest.mark.long) for case in long)]


def simulated(case: Case) -> dict[str, Estimate]:
    """Run a case."""
    scenario = scenario_of(case)
    return estimates(scenario, simulate(scenario))


def check(case: Case, run: Callable[[Case], dict[str, Estimate]] = simulated) -> dict[str, Estimate]:
    """Run a case and compare; raises `AssertionError` where it differs or is too noisy to say."""
    found = run(case)
    for name, known in case.expected.items():
        compare(f"{case.row} {name}", found[name], known, error=case.error, bias=case.bias)
    return found


def compare(label: str, found: Estimate, known: Known, *, error: float, bias: float = 0.0) -> None:
    """Hold one quantity against its known value."""
    value, known_error = known if isinstance(known, tuple) else (known, 0.0)
    quantile = float(stats.t.ppf(1.0 - ALARMS / 2.0, found.freedom))
    noise = quantile * math.hypot(found.error, known_error)
    said = f"{label}: {found.value:.6g} ± {found.error:.2g}, known {value:.8g} ± {known_error:.2g}"
    assert found.error <= error * value, f"{said}: its standard error may be {error * value:.2g}: simulate more jobs"
    assert abs(found.value - value) <= noise + bias * value, f"{said}: chance explains {noise:.2g}"
