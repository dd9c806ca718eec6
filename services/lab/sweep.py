"""A sweep: a scenario at every point of a grid, simulated, solved or both, each point kept as soon as it is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from router.protocol.errors import SettingsError
from services.lab.contest import column_of
from services.lab.experiment import Experiment, read_experiment
from services.lab.grid import Axis, points_of
from services.lab.live import Progress
from services.lab.report import GROWING, plain, stationarity_json
from services.lab.rivals import read_rivals
from services.lab.simulate import FEW_JOBS, Task, run_task
from services.lab.steady import steadiness
from services.lab.sweep_folder import Row, SweepFolder, key_of
from services.lab.workers import spread
from services.measure.verdict import FALSE_ALARMS
from services.scenario import scenario_toml
from services.solver import METHODS, solve


@dataclass(frozen=True)
class Sweep:
    """What is asked for.

    Attributes:
        name: The scenario. `sets`: what is changed in it at all points.
        axes: The grid.
        policies: Several of them, as `compare` takes them; none: the scenario's own.
        columns: `simulated`, `models` or both.
        replications: Independent simulations of each point.
    """

    name: str
    sets: Sequence[str]
    axes: Sequence[Axis]
    policies: Sequence[str]
    columns: Sequence[str]
    replications: int

    @cached_property
    def experiment(self) -> Experiment:
        """The scenario before any key is changed."""
        return read_experiment(self.name, self.sets)

    def described(self) -> dict[str, Any]:
        """What must be the same for a sweep to go on."""
        return {
            "scenario": scenario_toml(self.experiment.scenario),
            "over": {axis.key: list(axis.texts) for axis in self.axes},
            "policies": list(self.policies),
            "columns": list(self.columns),
            "replications": self.replications,
        }


@dataclass(frozen=True)
class _Piece:
    """The work of one row."""

    point: dict[str, Any]
    label: str
    experiment: Experiment
    columns: Sequence[str]
    replications: int
    alarms: float


def run_sweep(sweep: Sweep, folder: SweepFolder, progress: Progress, workers: int = 0) -> list[Row]:
    """Do what is not done yet.

    Args:
        sweep: What is asked for.
        folder: Holds what was done before, and takes each row at once.
        progress: Called with the share of what is left that is done.
        workers: Processes; 0: as many as there are cores.

    Returns:
        All rows, in the order of the grid.

    Raises:
        SettingsError: A point is no scenario; that is found before anything is run.
        RunInvalid: A process died.
    """
    pieces = _pieces(sweep)
    left = [piece for piece in pieces if key_of(piece.point, piece.label) not in folder.rows]
    progress("sweep", 0.0 if left else 1.0)
    workers = workers or (os.cpu_count() or 1) if _jobs(left) > FEW_JOBS else 1
    rows = spread(_row, left, workers)
    try:
        for number, row in enumerate(rows, 1):
            folder.add(row)
            progress("sweep", number / len(left))
    finally:
        rows.close()
    found = [folder.rows[key_of(piece.point, piece.label)] for piece in pieces]
    if found and "simulated" not in sweep.columns and all(row["refused"] for row in found):
        raise SettingsError(f"no model applies at any point; at the first: {found[0]['refused']}")
    return found


def _pieces(sweep: Sweep) -> list[_Piece]:
    pieces = []
    points = points_of(sweep.axes)
    rows = len(points) * max(1, len(sweep.policies))
    for point in points:
        experiment = read_experiment(sweep.name, [*sweep.sets, *point.overrides])
        under = {experiment.scenario.policy_name: experiment}
        if sweep.policies:
            under = {rival.label: rival.experiment for rival in read_rivals(experiment, sweep.policies, least=1)}
        pieces += [
            _Piece(point.values, label, each, sweep.columns, sweep.replications, FALSE_ALARMS / rows)
            for label, each in under.items()
        ]
    return pieces


def _jobs(pieces: Sequence[_Piece]) -> float:
    """About how much work there is, in jobs simulated; what a trace decides and a solution count as many."""
    return sum(_jobs_of(piece) for piece in pieces)


def _jobs_of(piece: _Piece) -> float:
    scenario = piece.experiment.scenario
    jobs = 0.1 * FEW_JOBS if "models" in piece.columns else 0.0
    if "simulated" not in piece.columns:
        return jobs
    if piece.experiment.load is None:
        return jobs + FEW_JOBS
    return jobs + piece.replications * scenario.horizon * scenario.rate_total


def _row(piece: _Piece) -> Row:
    """Simulate and solve one point under one policy."""
    row: Row = {"point": piece.point, "policy": piece.label, "jobs": 0, "stationarity": None, "values": {},
                "quantities": {}, "refused": ""}  # fmt: skip
    if "models" in piece.columns:
        _solve(piece, row)
    if "simulated" in piece.columns:
        _simulate(piece, row)
    return row


def _solve(piece: _Piece, row: Row) -> None:
    try:
        found = solve(piece.experiment.scenario, "all").quantities
    except SettingsError as error:
        row["refused"] = str(error)
        return
    for name, predictions in found.items():
        row["quantities"][name] = {
            "models": {
                method: {"value": plain(prediction.value), "kind": prediction.kind}
                for method, prediction in predictions.items()
            }
        }
        row["values"][name] = plain(next(predictions[method].value for method in METHODS if method in predictions))


def _simulate(piece: _Piece, row: Row) -> None:
    runs = []
    for number in range(piece.replications):
        seeded = piece.experiment.seeded(number)
        workload = seeded.workload()
        jobs = len(workload.instants)
        row["jobs"] += jobs
        runs.append(run_task(Task(seeded.scenario, jobs, workload, replication=number)).quantities)
    steady = steadiness(piece.experiment, runs, piece.alarms)
    row["stationarity"] = stationarity_json(steady)
    for name in runs[0]:
        if steady.state == "unstable" and name.startswith(GROWING):
            continue  # it has no steady-state value
        column = column_of(runs, name)
        row["quantities"].setdefault(name, {})["simulated"] = column
        row["values"][name] = column["value"]


def sweep_json(sweep: Sweep, rows: Sequence[Row], folder: Path) -> dict[str, Any]:
    """The object that `--json` prints.

    Returns:
        `scenario`, `valid`, `verdict` ("not_compared"), `over` (KEY: values), `columns`, `policies` (labels),
        `replications`, `run_folder`. `points`: one object for each point and policy, in the order of the grid:
        `point` (KEY: value), `policy`, `jobs`, `stationarity` (null unless simulated), `values` (NAME: number,
        list, or null if not known; simulated if it was, without those that have no steady state), `quantities` (NAME:
        {"simulated": {value, ci95}, "models": {METHOD: {value, kind}}}), `refused` (why no model applies).
    """
    return {
        "scenario": sweep.experiment.scenario.name,
        "valid": True,
        "verdict": "not_compared",
        "over": {axis.key: axis.values for axis in sweep.axes},
        "columns": list(sweep.columns),
        "policies": list(dict.fromkeys(row["policy"] for row in rows)),
        "replications": sweep.replications,
        "points": list(rows),
        "run_folder": str(folder),
    }
