"""The policies that there are: every class with a name in `router/policies`, found by itself."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from pydantic import ValidationError

from router import policies
from router.policy import Parameters, Policy
from router.protocol.errors import LocalProtocolError, SettingsError
from router.protocol.faults import explain, shown


@cache
def _policies() -> dict[str, type[Policy]]:
    """All policies by name, in alphabetical order."""
    found: dict[str, type[Policy]] = {}
    for module in pkgutil.iter_modules(policies.__path__, f"{policies.__name__}."):
        for kind in vars(import_module(module.name)).values():
            if not (isinstance(kind, type) and issubclass(kind, Policy) and kind.__module__ == module.name):
                continue
            if "name" not in vars(kind):
                continue  # what several policies of a file have in common
            if kind.name in found:
                raise LocalProtocolError(f"two policies are called {kind.name}: {found[kind.name]} and {kind}")
            found[kind.name] = kind
    return dict(sorted(found.items()))


def policy_names() -> list[str]:
    """The names of all policies, in alphabetical order."""
    return list(_policies())


def policy_type(name: str) -> type[Policy]:
    """The policy of that name.

    Raises:
        SettingsError: There is none.
    """
    kind = _policies().get(name) if isinstance(name, str) else None
    if kind is None:
        raise SettingsError(f"policy.name = {shown(name)}: no such policy; known are {', '.join(policy_names())}")
    return kind


def make_parameters(table: Mapping[str, Any]) -> tuple[str, Parameters]:
    """The name and the parameters that a scenario's `[policy]` table gives.

    Raises:
        SettingsError: No name, an unknown one, an unknown parameter, or a value that is not allowed.
    """
    if "name" not in table:
        raise SettingsError(f"policy.name is missing; known are {', '.join(policy_names())}")
    kind = policy_type(table["name"])
    given = {key: value for key, value in table.items() if key != "name"}
    try:
        return kind.name, kind.parameters_type.model_validate(given)
    except ValidationError as error:
        raise SettingsError(f"{explain(error, kind.parameters_type, given, 'policy.')} (policy {kind.name})") from None


def make_policy(table: Mapping[str, Any], rng: Random) -> Policy:
    """A new policy as a scenario's `[policy]` table describes it.

    Raises:
        SettingsError: As `make_parameters`, and where a router cannot know what a parameter asks for.
    """
    name, parameters = make_parameters(table)
    return policy_type(name)(parameters, rng)


def policy_table(policy: Policy) -> dict[str, Any]:
    """The name and every parameter with the value in force, ready for JSON; `make_policy` takes it back."""
    return {"name": policy.name, **policy.parameters.model_dump(mode="json")}
