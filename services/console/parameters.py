"""The policies and their parameters as a page needs them to draw a form: types, bounds and defaults."""

from __future__ import annotations

import inspect
import re
from typing import Any

from router.registry import policy_names, policy_type

# Explained with the parameters of a class: "name: text", or "`name`: text" when it follows another one.
_ABOUT = r"(?:^\s+|`){name}`?: (.*?)(?=^\s+[a-z_]+: |`[a-z_]+`: [A-Z]|^\s*$|\Z)"


def policy_forms() -> list[dict[str, Any]]:
    """All policies of the registry.

    Returns:
        For each its name, what it does in one sentence, and its parameters: `name`, `default`, `choices` (texts
        that are allowed), `number` (`whole`, `least`, `most`, or `None`), `truth`, `list`, `empty`: whether these are.
    """
    forms = []
    for name in policy_names():
        kind = policy_type(name)
        properties = kind.parameters_type.model_json_schema().get("properties", {})
        sentence = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        explained = inspect.getdoc(kind.parameters_type) or ""
        parameters = [_field(key, schema) | {"about": _about(explained, key)} for key, schema in properties.items()]
        forms.append({"name": name, "about": sentence, "parameters": parameters})
    return forms


def _field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    field: dict[str, Any] = {
        "name": name, "default": schema.get("default"), "choices": [], "number": None,
        "truth": False, "list": False, "empty": False,
    }  # fmt: skip
    for part in schema.get("anyOf", [schema]):
        if "enum" in part or "const" in part:
            field["choices"] += part.get("enum", [part.get("const")])
        elif part["type"] in ("integer", "number"):
            least = part.get("minimum", part.get("exclusiveMinimum"))
            field["number"] = {"whole": part["type"] == "integer", "least": least, "most": part.get("maximum")}
        else:
            field[{"boolean": "truth", "array": "list", "null": "empty"}[part["type"]]] = True
    return field


def _about(explained: str, name: str) -> str:
    found = re.search(_ABOUT.format(name=name), explained, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()).replace("`", "") if found else ""
