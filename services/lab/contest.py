"""A comparison of policies: their values, their differences from the first one, and what may be said of the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from services.lab.report import EXIT_AGREES, EXIT_DIFFERS, EXIT_INVALID, faults_json, plain, stationarity_json
from services.lab.rivals import Outcome
from services.lab.simulate import Quantities, pooled
from services.measure.differences import Difference, difference, half_width
from services.scenario import Scenario

COMPARED = (
    "sojourn_mean", "sojourn_p95", "sojourn_p99", "waiting_mean", "wait_probability", "block_probability",
    "abandon_probability", "failed_probability", "messages.total",
)  # fmt: skip
"""What policies are compared by: the less, the better."""

WORTH_RANKING = 1e-3
"""A share of jobs that are lost, above which losing fewer counts for more than serving sooner."""

CRITERIA = {
    "failed_probability": "share of jobs that fail",
    "block_probability": "share of jobs blocked",
    "abandon_probability": "share of jobs that abandon",
    "sojourn_mean": "mean sojourn time",
}

Differences = dict[str, dict[str, Difference]]


@dataclass(frozen=True)
class Contest:
    """The result of a comparison.

    Attributes:
        scenario: What all policies ran.
        column: `live` or `simulated`.
        outcomes: Of each policy, in the order asked for.
        alarms: The chance that any interval of a difference misses.
        details: Further keys of the JSON object.
    """

    scenario: Scenario
    column: str
    outcomes: Sequence[Outcome]
    alarms: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def stable(self) -> list[Outcome]:
        """The policies that have a steady state."""
        return [outcome for outcome in self.outcomes if outcome.has_mean]

    @property
    def baseline(self) -> Outcome | None:
        """The first policy that has a steady state."""
        return self.stable[0] if self.stable else None

    @cached_property
    def pooled(self) -> dict[str, Quantities]:
        """All runs of each policy together."""
        return {
            outcome.rival.label: {
                name: pooled([run[name] for run in outcome.runs]) for name in outcome.runs[0]
            }
            for outcome in self.outcomes
        }  # fmt: skip

    @cached_property
    def compared(self) -> list[str]:
        """Quantities that mean something here: known of every policy, and not 0 for all."""
        found = [[self.value(outcome, name) for outcome in self.stable] for name in COMPARED]
        return [name for name, values in zip(COMPARED, found, strict=True) if np.isfinite(values).all() and any(values)]

    @cached_property
    def criterion(self) -> str:
        """What the order is by: the share of jobs lost if any are, else the mean sojourn time.

        Jobs that fail count where some policy is told apart by them: most die with a router, whatever the policy.
        """
        if any(
            found["failed_probability"].word in ("more", "less")
            for found in self.differences.values()
            if "failed_probability" in found
        ):
            return "failed_probability"
        for name in ("block_probability", "abandon_probability"):
            if name in self.compared and max(self.value(one, name) for one in self.stable) > WORTH_RANKING:
                return name
        return "sojourn_mean"

    @cached_property
    def ranking(self) -> list[Outcome]:
        """The policies with a steady state, best first."""
        return sorted(self.stable, key=lambda outcome: self.value(outcome, self.criterion))

    @cached_property
    def family(self) -> int:
        """How many intervals share the rate of false alarms: differences from the baseline, and from the best.

        Which policy looks best depends on chance, yet no more intervals are needed than those of the one that is: it
        is among the leaders unless one of its own misses.
        """
        return max(1, (len(self.stable) - 1) * (len(self.compared) + 1))

    @cached_property
    def differences(self) -> Differences:
        """By policy and quantity: that policy minus the baseline."""
        first = self.baseline
        return {
            outcome.rival.label: {name: self._apart(outcome, first, name) for name in self.compared}
            for outcome in self.stable[1:]
            if first is not None
        }

    @cached_property
    def leaders(self) -> list[str]:
        """The best policy, and those that were not told apart from it."""
        best = self.ranking[:1]
        close = [
            outcome.rival.label
            for outcome in self.ranking[1:]
            if self._apart(outcome, best[0], self.criterion).word != "more"
        ]
        return [outcome.rival.label for outcome in best] + close

    def value(self, outcome: Outcome, name: str) -> float:
        """One value; nan where it is not known."""
        quantity = self.pooled[outcome.rival.label].get(name)
        return float("nan") if quantity is None else float(quantity.value)

    def _apart(self, first: Outcome, second: Outcome, name: str) -> Difference:
        runs = [[run[name] for run in outcome.runs] for outcome in (first, second)]
        return difference(name, runs[0], runs[1], self.alarms, self.family)

    @property
    def invalid(self) -> list[str]:
        """Why it says nothing; empty: it is valid."""
        return [f"{one.rival.label}: {reason}" for one in self.outcomes for reason in one.invalid]

    @property
    def violated(self) -> list[str]:
        """What must hold in every run, and did not."""
        return [f"{one.rival.label}: {check.name}" for one in self.outcomes for check in one.checks if not check.holds]

    @property
    def exit_code(self) -> int:
        """0, whatever differs between policies; 1: jobs or messages are missing; 3: a run is invalid."""
        if self.invalid:
            return EXIT_INVALID
        return EXIT_DIFFERS if self.violated else EXIT_AGREES

    def statements(self) -> list[str]:
        """What may be said, in words."""
        return list(self._statements())

    def _statements(self) -> Iterator[str]:
        what = CRITERIA[self.criterion]
        for outcome in self.outcomes:
            if not outcome.steady.is_steady:
                yield f"{outcome.rival.label}: {outcome.steady.why}"
        if self.baseline is None:
            yield "no policy has a steady state here: there are no means to compare"
            return
        base = self.baseline.rival.label
        for label, found in self.differences.items():
            yield _sentence(label, base, what, found[self.criterion])
        if len(self.stable) > 1:
            best, *others = self.leaders
            close = f"; not told apart from it: {', '.join(others)}" if others else ", and better than all others"
            yield f"best by {what}: {best}{close}"

    def json(self) -> dict[str, Any]:
        """The object that `--json` prints.

        Returns:
            `scenario`, `valid`, `verdict` ("differ" if something must hold in every run and does not, else
            "not_compared": differences between policies are results), `column` ("live" or "simulated"), `criterion`,
            `baseline`, `false_alarms`, `family`. `policies`: by label `policy` (its table), `jobs`, `runs`,
            `stationarity`, `values` (NAME: number, list, or null if not known) and `quantities` (NAME: {column:
            {value, ci95}}), both empty where unstable. `differences`: by label and NAME `difference` (that policy minus
            the baseline), `interval` (simultaneous for all), `word` (more, less, alike, no_difference_seen,
            not_compared) and `longer`. `ranking`: labels, best first. `leaders`: those not told apart from the best.
            `statements`: sentences. `violated`, `invalid`: what is wrong. `faults`: what went wrong on purpose, if
            anything: `at` and `what`.
        """
        return (
            {
                "scenario": self.scenario.name,
                "valid": not self.invalid,
                "verdict": "differ" if self.violated else "not_compared",
                "column": self.column,
                "criterion": self.criterion,
                "baseline": None if self.baseline is None else self.baseline.rival.label,
                "false_alarms": self.alarms,
                "family": self.family,
                "policies": {outcome.rival.label: self._policy(outcome) for outcome in self.outcomes},
                "differences": {
                    label: {name: _difference(found) for name, found in by_name.items()}
                    for label, by_name in self.differences.items()
                },
                "ranking": [outcome.rival.label for outcome in self.ranking],
                "leaders": self.leaders,
                "statements": self.statements(),
                "violated": self.violated,
                "invalid": self.invalid,
            }
            | ({"faults": faults} if (faults := faults_json(self.scenario)) else {})
            | dict(self.details)
        )

    def _policy(self, outcome: Outcome) -> dict[str, Any]:
        quantities = self.pooled[outcome.rival.label] if outcome.has_mean else {}
        return {
            "policy": dict(outcome.rival.scenario.policy),
            "jobs": outcome.jobs,
            "runs": len(outcome.runs),
            "stationarity": stationarity_json(outcome.steady),
            "values": {name: plain(quantity.value) for name, quantity in quantities.items()},
            "quantities": {name: {self.column: column_of(outcome.runs, name)} for name in quantities},
        }


def column_of(runs: Sequence[Quantities], name: str) -> dict[str, Any]:
    """`value` and `ci95` of a quantity, from independent runs."""
    whole = pooled([run[name] for run in runs])
    each = np.stack(np.split(whole.batches, len(runs)))
    if not whole.value.ndim:
        halves: Any = half_width(each, 0.05)
    else:
        halves = np.array([half_width(each[:, :, k], 0.05) for k in range(each.shape[2])])
    return {"value": plain(whole.value), "ci95": [plain(whole.value - halves), plain(whole.value + halves)]}


def _difference(found: Difference) -> dict[str, Any]:
    interval = [found.value - found.half, found.value + found.half]
    return {"difference": plain(found.value), "interval": plain(interval), "word": found.word,
            "longer": plain(found.longer)}  # fmt: skip


def _sentence(label: str, base: str, what: str, found: Difference) -> str:
    apart, half = _rounded(found.value, found.half)
    if found.word in ("more", "less"):
        better = "better" if found.word == "less" else "worse"
        return f"{label} is {better} than {base} by {apart.lstrip('+-')} ± {half} ({what})"
    if found.word == "alike":
        return f"{label} and {base} are alike: they differ by {apart} ± {half} ({what})"
    if found.word == "no_difference_seen":
        return (
            f"{label} against {base}: no difference seen ({apart} ± {half}, {what}); "
            f"a run {found.longer:.2g} times as long would see one of that size, or of what matters"
        )
    return f"{label} against {base}: too little data to say anything ({what})"


def _rounded(value: float, half: float) -> tuple[str, str]:
    """Both to the place of the second digit of the uncertainty."""
    if not np.isfinite(half):
        return f"{value:+.3g}", "?"
    decimals = max(0, 1 - int(np.floor(np.log10(half)))) if half > 0.0 else 6
    return f"{value:+.{decimals}f}", f"{half:.{decimals}f}"
