"""Every policy that is registered, with every alternative that its parameters offer, one at a time."""

from __future__ import annotations

import types
from random import Random
from typing import Any, Literal, Union, get_args, get_origin

from router.policy import Policy
from router.protocol.errors import SettingsError
from router.registry import make_policy, policy_names, policy_table, policy_type


def alternatives(annotation: Any) -> list[Any]:
    """Values of a type worth a try."""
    origin = get_origin(annotation)
    if origin is Literal:
        return list(get_args(annotation))
    if origin in (Union, types.UnionType):
        return [value for part in get_args(annotation) for value in alternatives(part)]
    if origin is list:
        return [[1.0, 2.0]]  # one entry a pool
    if get_args(annotation):
        return alternatives(get_args(annotation)[0])  # Annotated
    plain: dict[Any, list[Any]] = {bool: [False, True], int: [1, 3], float: [0.5, 1.0]}
    return plain.get(annotation, [])


def tables() -> list[dict[str, Any]]:
    """The `[policy]` table of each variant; those that a router cannot be given are left out."""
    found = []
    for name in policy_names():
        found.append({"name": name})
        default = policy_table(make_policy({"name": name}, Random(0)))
        for key, field in policy_type(name).parameters_type.model_fields.items():
            for value in alternatives(field.annotation):
                table = {"name": name, key: value}
                if value == default[key]:
                    continue
                try:
                    make_policy(table, Random(0))
                except SettingsError:
                    continue
                found.append(table)
    return found + COMBINATIONS


# Alternatives that mean something only together.
COMBINATIONS: list[dict[str, Any]] = [
    {"name": "pull", "stale": "duplicate", "announce_at": "vacancy", "order": "fastest"},
    {"name": "pull", "placement": "shortest_of", "stale": "keep", "fallback": "view"},
    {"name": "pull", "fallback": "view", "rank": "present", "order": "fastest"},
    {"name": "pull", "fallback": "least_requests", "rank": "queue"},
    {"name": "power_of_d", "d": 2, "replacement": True, "memory": 1, "full": "ignore"},
    {"name": "max_vacancy", "d": 3, "replacement": True},
    {"name": "least_requests", "d": 2, "replacement": True, "rank": "joined"},
    {"name": "sed", "rank": "present", "ties": "fastest", "full": "ignore"},
]


def label(table: dict[str, Any]) -> str:
    """A short name for a variant."""
    return "-".join([table["name"], *(f"{key}={value}" for key, value in table.items() if key != "name")])


def build(table: dict[str, Any], seed: object = 1) -> Policy:
    """A policy, fresh."""
    return make_policy(table, Random(str(seed)))
