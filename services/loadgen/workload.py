"""The jobs of a scenario, drawn before the run: the same for every policy, and for a live and a simulated run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import numpy as np

from router.protocol.errors import SettingsError
from server.laws import Exponential
from services.loadgen import arrivals
from services.loadgen.arrivals import Floats, Integers
from services.loadgen.trace import Trace
from services.loadgen.trace_schedule import TraceSchedule, schedule
from services.scenario import Scenario
from services.scenario_parts import BurstyArrivals, TraceArrivals


@dataclass(frozen=True, eq=False)
class Workload:
    """One entry a job, in order of instants.

    Shape: (jobs,), each.

    Units: time units.

    Attributes:
        instants: When the job is to arrive, from 0 on.
        routers: The place of its router.
        sizes: Its service requirement, unit mean.
        patience: How long it waits; nan: for ever.
    """

    instants: Floats
    routers: Integers
    sizes: Floats
    patience: Floats


def draw_workload(scenario: Scenario, trace: Trace | None = None) -> Workload:
    """Draw the jobs of warm-up and duration.

    They depend on the seed, arrivals, routers, service law and patience of the scenario, not on its policy; each
    column has a stream of its own, so that a change of one law leaves the other columns as they were.

    Args:
        scenario: What to draw for.
        trace: What to replay; exactly where the scenario's arrivals are a trace.

    Raises:
        SettingsError: There would be too many jobs, or a trace is missing.
    """
    instants, sizes = _instants(scenario, trace)
    jobs = len(instants)
    if sizes is None:
        sizes = arrivals.sizes(jobs, scenario.law(), _stream(scenario, "sizes"))
    patience = np.full(jobs, np.nan)
    if scenario.patience is not None:
        patience = arrivals.patience(jobs, scenario.patience.rate, Exponential(), _stream(scenario, "patience"))
    routers = arrivals.router_of_each(jobs, scenario.routers.shares, _stream(scenario, "routers"))
    return Workload(instants, routers, sizes, patience)


def lay_out(scenario: Scenario, trace: Trace) -> TraceSchedule:
    """Lay a trace out over the scenario's run; its notes say what the user should know.

    Raises:
        SettingsError: The scenario's arrivals are no trace, or there would be too many jobs.
    """
    source = scenario.arrivals
    if not isinstance(source, TraceArrivals):
        raise SettingsError(f'arrivals.law = "{source.law}", but a trace was given: expected "trace"')
    with _keyed(scenario):
        return schedule(
            trace,
            time_unit_s=scenario.time_unit_s,
            horizon_units=scenario.horizon,
            speedup=source.speedup,
            rate=scenario.rate_total if source.speedup is None else None,
            repeat=source.repeat,
        )


def _instants(scenario: Scenario, trace: Trace | None) -> tuple[Floats, Floats | None]:
    if trace is not None:
        laid_out = lay_out(scenario, trace)
        return laid_out.instants_units, laid_out.sizes
    source = scenario.arrivals
    if source.law == "trace":
        raise SettingsError('arrivals.law = "trace", but no trace was read: hand it in')
    rate, horizon = scenario.rate_total, scenario.horizon
    with _keyed(scenario):
        if source.law == "deterministic":
            return arrivals.deterministic(rate, horizon), None
        if isinstance(source, BurstyArrivals):
            streams = _stream(scenario, "instants"), _stream(scenario, "states")
            return arrivals.mmpp(rate, source.burst, source.share, source.cycle, horizon, streams), None
        return arrivals.poisson(rate, horizon, _stream(scenario, "instants")), None


def _stream(scenario: Scenario, purpose: str) -> Random:
    return Random(f"{scenario.seed}:arrivals:{purpose}")


@contextmanager
def _keyed(scenario: Scenario) -> Iterator[None]:
    """Name the scenario's key where a schedule cannot be made."""
    try:
        yield
    except ValueError as error:
        raise SettingsError(f"run.duration = {scenario.run.duration:g}: {error}") from None
