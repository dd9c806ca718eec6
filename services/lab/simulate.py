"""Many simulations at a time, in processes of their own, each of which hands back quantities and no records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from services.lab.workers import spread
from services.loadgen.workload import Workload, draw_workload
from services.measure.curves import Curves, curves
from services.measure.quantities import Quantity, Window, measure
from services.measure.records import Floats
from services.measure.sinkholes import Sinkhole, sinkholes
from services.scenario import Scenario
from services.simulator.network import NO_DELAY, Delays
from services.simulator.run import simulate

BATCHES = 40
FEW_JOBS = 50_000
"""So many jobs are simulated before further processes could have started."""

Quantities = dict[str, Quantity]


@dataclass(frozen=True)
class Task:
    """One simulation.

    Attributes:
        scenario: What to simulate.
        workload: The jobs; drawn there if left out. `jobs`: about how many.
        sent: When they leave the generator, if not when intended.
        delays: Of messages.
        replication: Which independent choices of the policies.
    """

    scenario: Scenario
    jobs: int
    workload: Workload | None = None
    sent: Floats | None = None
    delays: Delays = NO_DELAY
    replication: int = 0


@dataclass(frozen=True)
class Simulated:
    """What one simulation gave, and how long it took."""

    quantities: Quantities
    curves: Curves
    took_s: float
    sinkholes: Sequence[Sinkhole] = ()


def window_of(scenario: Scenario) -> Window:
    """The part of a run that counts."""
    return Window(scenario.run.warmup, scenario.horizon, BATCHES)


def run_task(task: Task) -> Simulated:
    """Simulate and measure."""
    began = time.perf_counter()
    workload = task.workload if task.workload is not None else draw_workload(task.scenario)
    run = simulate(task.scenario, workload, sent=task.sent, delays=task.delays, replication=task.replication)
    window = window_of(task.scenario)
    sinks = sinkholes(run)
    return Simulated(measure(run, window), curves(run, window), time.perf_counter() - began, sinks)


def run_tasks(tasks: Sequence[Task], progress: Callable[[float], None]) -> list[Simulated]:
    """Run all, on as many cores as there are; in order.

    Raises:
        RunInvalid: A process died.
    """
    workers = 1 if sum(task.jobs for task in tasks) < FEW_JOBS else os.cpu_count() or 1
    found: dict[int, Simulated] = {}
    with closing(spread(_run_numbered, list(enumerate(tasks)), workers)) as results:
        for number, simulated in results:
            found[number] = simulated
            progress(len(found) / len(tasks))
    return [found[number] for number in range(len(tasks))]


def _run_numbered(numbered: tuple[int, Task]) -> tuple[int, Simulated]:
    number, task = numbered
    return number, run_task(task)


def mean_of(replications: Sequence[Quantity]) -> Quantity:
    """The mean of runs of the same jobs, batch by batch."""
    width = max(quantity.value.shape[-1] if quantity.value.ndim else 0 for quantity in replications)
    padded = [_widen(quantity, width) for quantity in replications]
    return Quantity(
        np.mean([quantity.value for quantity in padded], axis=0),
        np.mean([quantity.batches for quantity in padded], axis=0),
    )


def pooled(segments: Sequence[Quantity]) -> Quantity:
    """Independent runs of equal length, one after the other."""
    width = max(quantity.value.shape[-1] if quantity.value.ndim else 0 for quantity in segments)
    padded = [_widen(quantity, width) for quantity in segments]
    return Quantity(
        np.mean([quantity.value for quantity in padded], axis=0),
        np.concatenate([quantity.batches for quantity in padded]),
    )


def place(quantity: Quantity, k: int) -> Quantity:
    """One number of a list; 0 beyond its end."""
    wide = _widen(quantity, k + 1)
    return Quantity(wide.value[k], wide.batches[:, k])


def _widen(quantity: Quantity, width: int) -> Quantity:
    """Append zeros to a list: a longer tail has nothing in it."""
    if not quantity.value.ndim or quantity.value.shape[0] >= width:
        return quantity
    more = width - quantity.value.shape[0]
    return Quantity(np.pad(quantity.value, (0, more)), np.pad(quantity.batches, ((0, 0), (0, more))))
