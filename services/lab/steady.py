"""Whether a run was one of a steady state, from its quantities and its scenario."""

from __future__ import annotations

from collections.abc import Sequence

from services.lab.experiment import Experiment
from services.lab.simulate import Quantities
from services.measure.stationarity import Stationarity, not_tested, stationarity
from services.scenario import Scenario
from services.scenario_parts import TraceArrivals


def steadiness(experiment: Experiment, runs: Sequence[Quantities], alarms: float) -> Stationarity:
    """Compare the halves of the window.

    Args:
        experiment: What was run.
        runs: The quantities of each independent run.
        alarms: The rate of false alarms.
    """
    scenario = experiment.scenario
    if isinstance(scenario.arrivals, TraceArrivals):
        return not_tested("the arrivals are those of a trace, which need not be steady: its halves are not compared")
    if scenario.faults:
        return not_tested("what goes wrong in a run is no steady state: its halves are not compared")
    if not all("jobs_in_system_mean" in run for run in runs):
        return not_tested("the jobs in the system are not known")
    return stationarity(
        [run["jobs_in_system_mean"] for run in runs],
        warmup=scenario.run.warmup,
        duration=scenario.run.duration,
        slowest=max(1.0 / pool.rate for pool in scenario.pools),
        load=None if _is_bounded(scenario) else experiment.load,
        alarms=alarms,
    )


def _is_bounded(scenario: Scenario) -> bool:
    """Whether jobs leave unserved before their number grows without bound."""
    return scenario.patience is not None or all(pool.capacity < float("inf") for pool in scenario.pools)
