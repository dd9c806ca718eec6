"""The parameters of policies that models ask for."""

from __future__ import annotations

from typing import Any

from services.scenario import Scenario

DEFAULTS: dict[str, dict[str, Any]] = {
    "weighted_random": {"weights": "rate"},
    "jsq": {"ties": "random", "full": "skip", "every": None},
    "sed": {"rank": "joined", "ties": "random", "full": "skip"},
    "power_of_d": {"d": 2, "replacement": False, "memory": 0, "full": "skip"},
    "max_vacancy": {"d": 2, "replacement": False},
    "least_requests": {"d": "all", "replacement": False, "rank": "queue", "full": "skip"},
    "pull": {
        "stale": "withdraw",
        "fallback": "random",
        "order": "random",
        "placement": "random",
        "k": 2,
        "announce_at": 0,
    },
    "lsq": {"refresh": "update", "p": 1.0, "d": 2, "refresh_on_send": False, "every": None},
}
"""What is in force where the scenario leaves it out."""


def parameter(scenario: Scenario, name: str) -> Any:
    """Return the value in force; `None` if the policy has no such parameter."""
    return scenario.policy.get(name, DEFAULTS.get(scenario.policy_name, {}).get(name))
