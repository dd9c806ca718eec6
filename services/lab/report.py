"""What a command reports, as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.lab.checks import Check
from services.lab.compare import Row, Table
from services.measure.curves import Curves
from services.measure.quantities import Quantity
from services.measure.stationarity import Stationarity, not_tested
from services.measure.verdict import Word, interval95
from services.scenario import Scenario
from services.solver import METHODS

NOTHING_WAS_RUN = not_tested("nothing was run")
EXIT_AGREES, EXIT_DIFFERS, EXIT_INVALID = 0, 1, 3

GROWING = ("waiting_", "sojourn_", "jobs_in_system_", "queue_length_", "queue_tail", "perpendicular_")
"""What has no steady-state value in an unstable system."""


@dataclass(frozen=True)
class Report:
    """The result of run, simulate or solve.

    Attributes:
        scenario: What it is about.
        table: The quantities. `column`: the one whose values stand for it: live, simulated or models.
        checks: Identities and conservation.
        invalid: Why the run says nothing; empty: it is valid.
        hints: What the user should know or do.
        trace: What was replayed.
        details: Further keys of the JSON object.
        stationarity: Whether the halves of the window agree.
        curves: What only figures show, by column.
    """

    scenario: Scenario
    table: Table
    column: str
    checks: Sequence[Check] = ()
    invalid: Sequence[str] = ()
    hints: Sequence[str] = ()
    trace: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    stationarity: Stationarity = NOTHING_WAS_RUN
    curves: Mapping[str, Curves] = field(default_factory=dict)

    @property
    def verdict(self) -> Word:
        """One word for all: a violated identity differs too, and where nothing is steady there is nothing to agree."""
        if not all(check.holds for check in self.checks):
            return "differ"
        word = self.table.verdict
        return word if self.stationarity.is_steady or word == "differ" else "not_enough_data"

    @property
    def exit_code(self) -> int:
        """0: nothing differs; 1: something does; 3: the run is invalid."""
        if self.invalid:
            return EXIT_INVALID
        return EXIT_DIFFERS if self.verdict == "differ" else EXIT_AGREES

    def json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        found: dict[str, Any] = {
            "scenario": self.scenario.name,
            "policy": self.scenario.policy_name,
            "valid": not self.invalid,
            "verdict": self.verdict,
            "values": {
                name: value
                for name, row in self.table.rows.items()
                if self._has_mean(name) and (value := self._value(row)) is not None
            },
            "quantities": {name: _row(row) for name, row in self.table.rows.items()},
        }
        if self.checks:
            found["identities"] = [
                {"name": check.name, "text": check.text, "found": plain(check.found),
                 "expected": plain(check.expected), "tolerance": plain(check.tolerance), "holds": check.holds}
                for check in self.checks
            ]  # fmt: skip
        found |= {"invalid": list(self.invalid), "hints": list(self.hints)}
        if faults := faults_json(self.scenario):
            found["faults"] = faults
        if self.trace:
            found["trace"] = list(self.trace)
        if self.column != "models":
            found |= {"tests": self.table.tests, "longer": plain(self.table.longer)}
            found["stationarity"] = stationarity_json(self.stationarity)
        return found | dict(self.details)

    def _has_mean(self, name: str) -> bool:
        return self.stationarity.state != "unstable" or not name.startswith(GROWING)

    def _value(self, row: Row) -> Any:
        if self.column == "models":
            return plain(next((row.models[name].value for name in METHODS if name in row.models), None))
        quantity = row.live if self.column == "live" else row.simulated
        return None if quantity is None else plain(quantity.value)


def plain(value: Any) -> Any:
    """A number, a list or a table as JSON has them: what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    number = float(value)
    return number if np.isfinite(number) else None


def faults_json(scenario: Scenario) -> list[dict[str, Any]]:
    """What went wrong when, in time units from the start of the run, warm-up included."""
    return [{"at": fault.at, "what": fault.words} for fault in scenario.timeline()]


def stationarity_json(found: Stationarity) -> dict[str, Any]:
    """As JSON has it.

    Returns:
        `state`: steady, warmup_too_short, too_short, unstable or not_tested. `growth`: second half ÷ first.
        `difference`: second minus first. `noise`: what chance explains of it. `why`: a sentence. All of jobs in the
        system.
    """
    return {"state": found.state, "growth": plain(found.growth), "difference": plain(found.difference),
            "noise": plain(found.noise), "why": found.why}  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    columns = {"live": row.live, "simulated": row.simulated, "simulated_without_delay": row.ideal}
    for column, quantity in columns.items():
        if quantity is not None and (row.live is not None or column != "simulated_without_delay"):
            found[column] = _quantity(quantity)
    if row.models:
        found["models"] = {
            method: {"value": plain(prediction.value), "kind": prediction.kind, "source": prediction.source,
                     "assumes": prediction.assumes, "exact": prediction.exact} | _compared(row, method)
            for method, prediction in row.models.items()
        }  # fmt: skip
    found["verdict"] = row.word
    if "live" in row.comparisons:
        found["test"] = _comparison(row, "live")
    return found


def _quantity(quantity: Quantity) -> dict[str, Any]:
    low, high = interval95(quantity)
    return {"value": plain(quantity.value), "ci95": [plain(low), plain(high)]}


def _compared(row: Row, method: str) -> dict[str, Any]:
    return {"test": _comparison(row, method)} if method in row.comparisons else {}


def _comparison(row: Row, label: str) -> dict[str, Any]:
    found = row.comparisons[label]
    return {"verdict": found.word, "difference": plain(found.difference), "margin": plain(found.margin),
            "noise": plain(found.noise)}  # fmt: skip
