"""Ask every model in the table, and refuse with all their reasons if none applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from router.protocol.errors import SettingsError
from services.scenario import Scenario
from services.solver.identities import identities, no_steady_state
from services.solver.solution import METHODS, Prediction, Solution

if TYPE_CHECKING:
    from services.solver.table import Candidate


def solve(scenario: Scenario, method: str = "all") -> Solution:
    """Predict what models say of a scenario.

    Args:
        scenario: The experiment.
        method: One of `METHODS`, or "all".

    Raises:
        SettingsError: No model applies, or none of that method; the message says why for each. There is no such
            method.
    """
    solution = predict(scenario, method)
    if solution.methods:
        return solution
    if method == "all":
        raise SettingsError(f"no model applies to scenario {scenario.name}: {_together(solution.left_out)}")
    raise SettingsError(f"method {method} does not apply to scenario {scenario.name}: {solution.left_out[method]}")


def predict(scenario: Scenario, method: str = "all") -> Solution:
    """Predict what can be said of a scenario, if only the identities that hold under any model.

    Args and Raises as in `solve`, except that a scenario without a model is no error.
    """
    if method not in (*METHODS, "all"):
        raise SettingsError(f'method = "{method}": expected one of {", ".join(METHODS)}, all')
    # The models need scipy, which takes longer to import than most scenarios take to solve.
    from services.solver.table import CANDIDATES

    found: dict[str, dict[str, Prediction]] = {}
    left_out: dict[str, str] = {}
    nothing = _why_nothing(scenario)
    for wanted in METHODS if method == "all" else (method,):
        candidates = [candidate for candidate in CANDIDATES if candidate.method == wanted]
        found[wanted], reasons = _ask(scenario, candidates) if nothing is None else ({}, [nothing])
        if not found[wanted]:
            left_out[wanted] = "; ".join(dict.fromkeys(reasons)) or _nothing_known(scenario, wanted)
    methods = tuple(wanted for wanted, predictions in found.items() if predictions)
    if "closed" in found:
        found["closed"] = identities(scenario) | found["closed"]
    names = dict.fromkeys(name for predictions in found.values() for name in predictions)
    quantities = {
        name: {wanted: predictions[name] for wanted, predictions in found.items() if name in predictions}
        for name in sorted(names)
    }
    return Solution(quantities, methods, left_out)


def _ask(scenario: Scenario, candidates: Sequence[Candidate]) -> tuple[dict[str, Prediction], list[str]]:
    """All that the candidates of one method predict, the first of them first, and the reasons of the others."""
    predictions: dict[str, Prediction] = {}
    reasons = []
    for candidate in candidates:
        if candidate.time != scenario.run.time or not candidate.about(scenario):
            continue
        reason = candidate.why_not(scenario)
        if reason is None:
            try:
                predictions = candidate.predict(scenario) | predictions
            except (ValueError, ArithmeticError) as error:  # what a model sees only when it tries
                reason = str(error)
        if reason is not None:
            reasons.append(reason)
    return predictions, reasons


def _why_nothing(scenario: Scenario) -> str | None:
    """Say why no model whatever applies."""
    if scenario.faults:
        return "[[faults]]: no model knows of failures: simulate them"
    if scenario.arrivals.law != "poisson":
        return f'arrivals.law = "{scenario.arrivals.law}", and every model needs Poisson arrivals: only identities hold'
    return no_steady_state(scenario)


def _nothing_known(scenario: Scenario, method: str) -> str:
    what = {
        "exact": "no chain",
        "closed": "no closed form",
        "meanfield": "no mean field",
        "limit": "no limit law" + ("" if scenario.patience else " without patience"),
    }
    servers = "1 server" if scenario.servers_total == 1 else f"{scenario.servers_total} servers"
    slotted = " in slotted time" if scenario.run.time == "slotted" else ""
    return f"policy {scenario.policy_name} has {what[method]} for {servers}{slotted}"


def _together(reasons: dict[str, str]) -> str:
    """One line, in which methods with the same reason share it."""
    methods: dict[str, list[str]] = {}
    for method in sorted(reasons, key=("closed", "meanfield", "exact", "limit").index):
        methods.setdefault(reasons[method], []).append(method)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in methods.items())
