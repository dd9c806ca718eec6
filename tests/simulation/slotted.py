"""Golden values in slotted time.

As in continuous time, with the capacities of the slots as a control variate instead of the sizes of the jobs: they too
have a known expectation, and a queue grows where they happen to be small.
"""

from __future__ import annotations

import math

import numpy as np

from services.measure.quantities import Window, measure
from services.simulator.run import simulate
from services.simulator.slotted import capacities, capacity_stream
from tests.simulation.golden import BATCHES, Case, Estimate, intercept, scenario_of


def simulated(case: Case) -> dict[str, Estimate]:
    """Run a case; each quantity that is one number."""
    scenario = scenario_of(case)
    run = simulate(scenario)
    window = Window(scenario.run.warmup, scenario.horizon, BATCHES)
    batch = window.batch_of(run.records.intended)
    arrivals = np.bincount(batch[batch >= 0], minlength=BATCHES) / (scenario.rate_total * scenario.run.duration)

    rates = np.array([spec.rate for spec in scenario.server_specs()])
    slots = math.ceil(scenario.horizon)
    totals = np.array([capacity.sum() for capacity in capacities(rates, slots, capacity_stream(scenario))])
    batch = window.batch_of(np.arange(slots, dtype=float))
    lengths = np.bincount(batch[batch >= 0], minlength=BATCHES)
    capacity = np.bincount(batch[batch >= 0], weights=totals[batch >= 0], minlength=BATCHES) / lengths / rates.sum()

    controls = np.column_stack([arrivals * BATCHES - 1.0, capacity - 1.0])
    return {
        name: intercept(quantity.batches, controls)
        for name, quantity in measure(run, window).items()
        if quantity.batches.ndim == 1 and np.isfinite(quantity.batches).all()
    }
