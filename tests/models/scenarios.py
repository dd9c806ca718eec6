"""Small scenarios for tests of the solver."""

from __future__ import annotations

from typing import Any

from services.scenario import Scenario, parse_scenario
from services.solver import solve


def scenario(policy: str, *pools: str, arrivals: str, more: str = "") -> Scenario:
    """Return the scenario with these lines of TOML; the pools are called a, b, …

    Args:
        policy: Keys of [policy].
        pools: Keys of one [[pools]] each.
        arrivals: Keys of [arrivals].
        more: Further tables.
    """
    tables = [f'[[pools]]\nname = "{name}"\n{pool}' for name, pool in zip("abc", pools, strict=False)]
    text = "\n".join(['name = "x"', "[policy]", policy, *tables, "[arrivals]", arrivals, more])
    return parse_scenario(text.replace("; ", "\n"), "test")


def answers(experiment: Scenario, method: str = "all") -> dict[str, Any]:
    """Return the values that the solver gives first."""
    return dict(solve(experiment, method).values())
