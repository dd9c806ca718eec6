"""The registry: what is found, and what is said of a table that is wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from router.protocol.errors import SettingsError
from router.registry import make_parameters, make_policy, policy_names, policy_table, policy_type

ISSUED = [
    "jsq", "least_requests", "max_vacancy", "power_of_d", "pull", "random", "round_robin", "sed", "weighted_random",
]  # fmt: skip


def test_finds_every_policy_and_names_each_once() -> None:
    names = policy_names()
    assert set(ISSUED) <= set(names) and names == sorted(set(names))
    assert all(policy_type(name).name == name for name in names)


# The first value that the scenario's documentation lists is the default.
DEFAULTS: dict[str, dict[str, Any]] = {
    "random": {},
    "round_robin": {},
    "weighted_random": {"weights": "rate"},
    "jsq": {"ties": "random", "full": "skip"},
    "sed": {"rank": "joined", "ties": "random", "full": "skip"},
    "power_of_d": {"d": 2, "replacement": False, "memory": 0, "full": "skip"},
    "max_vacancy": {"d": 2, "replacement": False},
    "least_requests": {"d": "all", "replacement": False, "rank": "queue", "full": "skip"},
    "pull": {
        "stale": "withdraw", "fallback": "random", "rank": "joined", "order": "random", "placement": "random",
        "announce_at": 0,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_table_shows_every_parameter_in_force(name: str) -> None:
    table = policy_table(make_policy({"name": name}, Random(1)))
    assert {key: table[key] for key in ["name", *DEFAULTS[name]]} == {"name": name, **DEFAULTS[name]}


KNOWN = ", ".join(policy_names())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, f"policy.name is missing; known are {KNOWN}"),
        ({"name": "pul"}, f'policy.name = "pul": no such policy; known are {KNOWN}'),
        ({"name": 3}, f"policy.name = 3: no such policy; known are {KNOWN}"),
        ({"name": ["a"]}, f'policy.name = ["a"]: no such policy; known are {KNOWN}'),
        (
            {"name": "pull", "stale": "widthdraw"},
            'policy.stale = "widthdraw", expected "withdraw", "keep" or "duplicate" (policy pull)',
        ),
        ({"name": "power_of_d", "dd": 3}, 'policy.dd: no such key; did you mean "d"? (policy power_of_d)'),
        (
            {"name": "power_of_d", "many": 3},
            "policy.many: no such key; known keys: d, replacement, memory, full (policy power_of_d)",
        ),
        ({"name": "random", "d": 3}, "policy.d: no such key; known keys: none (policy random)"),
        ({"name": "power_of_d", "d": 0}, "policy.d = 0, expected a whole number >= 1 (policy power_of_d)"),
        ({"name": "power_of_d", "d": "2"}, 'policy.d = "2", expected a whole number >= 1 (policy power_of_d)'),
        ({"name": "power_of_d", "d": 2.5}, "policy.d = 2.5, expected a whole number >= 1 (policy power_of_d)"),
        ({"name": "power_of_d", "d": True}, "policy.d = true, expected a whole number >= 1 (policy power_of_d)"),
        ({"name": "power_of_d", "d": None}, "policy.d = null, expected a whole number >= 1 (policy power_of_d)"),
        (
            {"name": "power_of_d", "replacement": "no"},
            'policy.replacement = "no", expected true or false (policy power_of_d)',
        ),
        (
            {"name": "max_vacancy", "d": "al"},
            'policy.d = "al", expected a whole number >= 1 or "all" (policy max_vacancy)',
        ),
        ({"name": "max_vacancy", "d": 0}, 'policy.d = 0, expected a whole number >= 1 or "all" (policy max_vacancy)'),
        (
            {"name": "weighted_random", "weights": [1, "a"]},
            'policy.weights = [1, "a"], expected "rate", "capacity" or "optimal" or a list, each a number >= 0 '
            "(policy weighted_random)",
        ),
        (
            {"name": "weighted_random", "weights": [1, -2]},
            'policy.weights = [1, -2], expected "rate", "capacity" or "optimal" or a list, each a number >= 0 '
            "(policy weighted_random)",
        ),
        ({"name": "jsq", "every": 0}, "policy.every = 0, expected a number above 0 (policy jsq)"),
        # It could not be shown as JSON, and means never.
        (
            {"name": "jsq", "every": float("inf")},
            "policy.every = inf, expected a finite number above 0 (policy jsq)",
        ),
        (
            {"name": "pull", "announce_at": -1},
            'policy.announce_at = -1, expected a whole number >= 0 or "vacancy" (policy pull)',
        ),
    ],
)
def test_what_is_wrong_is_said_exactly(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_parameters(table)
    assert str(caught.value) == message


def test_a_whole_number_is_a_number() -> None:
    assert make_parameters({"name": "jsq", "every": 2})[1].model_dump()["every"] == 2.0
    assert make_parameters({"name": "weighted_random", "weights": [1, 2]})[1].model_dump()["weights"] == [1.0, 2.0]
