"""The policies that there are: every class with a name in `router/policies`, found by itself."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from router import policies
from router.policy import Parameters, Policy
from router.protocol.errors import LocalProtocolError, SettingsError


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
        raise SettingsError(f"policy.name = {_shown(name)}: no such policy; known are {', '.join(policy_names())}")
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
        raise SettingsError(_explain(kind, given, error)) from None


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


# -- messages --------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)


def _explain(kind: type[Policy], given: Mapping[str, Any], error: ValidationError) -> str:
    """One line on the first parameter that is wrong; the alternatives of a type are errors of their own."""
    errors = error.errors(include_url=False)
    first = errors[0]["loc"][0] if errors[0]["loc"] else ""
    about = [detail for detail in errors if detail["loc"][:1] == errors[0]["loc"][:1]]
    key = f"policy.{first}" if first else "policy"
    if about[0]["type"] == "extra_forbidden":
        names = list(kind.parameters_type.model_fields)
        has = f"it has {', '.join(names)}" if names else "it has none"
        return f"{key}: no such parameter of {kind.name}; {has}"
    expected = list(dict.fromkeys(_expected(detail) for detail in about))
    return f"{key} = {_shown(given.get(str(first)))}: expected {' or '.join(expected)}"


_PLAIN = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "finite_number": "a finite number",
    "missing": "a value",
}
_SIGNS = {"greater_than_equal": ("ge", ">="), "greater_than": ("gt", ">"), "less_than_equal": ("le", "<=")}


def _expected(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    inside = "a list of " if len(detail["loc"]) > 1 and isinstance(detail["loc"][-1], int) else ""
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind in _SIGNS:
        name, sign = _SIGNS[kind]
        return inside + ("numbers" if inside else "a number") + f" {sign} {context[name]:g}"
    plain = _PLAIN.get(kind, detail["msg"])
    return inside + plain.removeprefix("a ") + "s" if inside and kind in _PLAIN else plain
