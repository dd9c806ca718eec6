"""What is wrong with a settings table, in one sentence: key, value found, what is allowed, the fix.

What is allowed is read off the model's fields, so a message cannot say something else than what is checked.
"""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

Key = tuple[str | int, ...]

# A limit that is only there to refuse absurd numbers is told only to those who exceed it.
_ABSURD = 1e6
_NOTHING = object()

_WORDS = {bool: "true or false", int: "a whole number", float: "a number"}


def fault(text: str, *key: str | int, found: Any = _NOTHING) -> PydanticCustomError:
    """Make the error that a validator raises about one key of its table.

    Args:
        text: What is wrong or expected, and what to do.
        key: The key, from the validator's table on; nothing: the table itself.
        found: Its value, if that belongs into the message.
    """
    whole = f": {text}" if found is _NOTHING else f" = {shown(found)}, {text}"
    # The braces are filled in by pydantic.
    return PydanticCustomError("fault", "{text}", {"text": whole, "key": key})


def explain(error: ValidationError, model: type[BaseModel], table: Any, prefix: str = "") -> str:
    """Return the one sentence that says most about a failed validation.

    An unknown key comes first, because it often explains why another one is missing.

    Args:
        error: What pydantic found.
        model: What the table was validated as.
        table: What was validated.
        prefix: What stands before every key, for instance "policy.".
    """
    order = {"extra_forbidden": 0, "missing": 2}
    first = min(error.errors(include_url=False), key=lambda details: order.get(details["type"], 1))
    return prefix + _sentence(first, model, table)


def shown(value: Any, deepest: int = 20) -> str:
    """Write a value as TOML would, shortened if it is long or nests deeper than that."""
    if isinstance(value, str | bool | None):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, int) and value.bit_length() > 256:
        text = hex(value)  # Python refuses to write very long ones as decimals
    elif isinstance(value, Mapping | list | tuple) and not deepest:
        text = "…"
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key} = {shown(item, deepest - 1)}" for key, item in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(shown(item, deepest - 1) for item in value) + "]"
    else:
        text = str(value)
    return text if len(text) <= 80 else text[:79] + "…"


def listed(words: Iterable[str], last: str = "or") -> str:
    """Write "a, b or c"."""
    *most, final = words
    return f"{', '.join(most)} {last} {final}" if most else final


def no_such_key(key: str, known: Iterable[str]) -> str:
    """Say that a key is unknown, with the one that was probably meant, or all there are."""
    names = list(known)
    if close := difflib.get_close_matches(key, names, n=1):
        return f'no such key; did you mean "{close[0]}"?'
    return f"no such key; known keys: {', '.join(names) or 'none'}"


def _sentence(details: ErrorDetails, model: type[BaseModel], table: Any) -> str:
    location, kind = details["loc"], details["type"]
    if kind == "extra_forbidden":
        key, _, owner, _ = _follow(location[:-1], model, table)
        known: Iterable[str] = getattr(_bare(owner), "model_fields", ())
        return f"{_dotted((*key, location[-1]))}: {no_such_key(str(location[-1]), known)}"
    key, value, annotation, field = _follow(location, model, table)
    context = details.get("ctx", {})
    if kind == "fault":
        return f"{_dotted((*key, *context['key']))}{context['text']}"
    if kind == "value_error":
        return f"{_dotted(key)}: {context['error']}"
    expected = _expected(annotation, field, kind)
    if kind == "missing":
        return f"{_dotted(key)}: missing, expected {expected}"
    return f"{_dotted(key)} = {shown(value)}, expected {expected}"


def _dotted(key: Key) -> str:
    return ".".join(str(part) for part in key)


def _follow(location: Key, model: type[BaseModel], table: Any) -> tuple[Key, Any, Any, FieldInfo | None]:
    """Walk from the model to the place of an error: its key, value found, annotation and field.

    It stops where pydantic's location names a member of a union and not a key.
    """
    key: Key = ()
    annotation: Any = model
    field: FieldInfo | None = None
    for part in location:
        tagged = _tagged(annotation, part)
        if tagged is not None:
            annotation = tagged
            continue
        inner = _inner(annotation, part)
        if inner is None:
            break
        annotation, field = inner
        key = (*key, part)
        table = _item(table, part)
    return key, table, annotation, field


def _tagged(annotation: Any, part: str | int) -> Any:
    for member in get_args(annotation):
        if any(isinstance(mark, Tag) and mark.tag == part for mark in getattr(member, "__metadata__", ())):
            return get_args(member)[0]
    return None


def _inner(annotation: Any, part: str | int) -> tuple[Any, FieldInfo | None] | None:
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part))
        return None if field is None else (field.annotation, field)
    arguments = get_args(annotation)
    if get_origin(annotation) is list and isinstance(part, int):
        return arguments[0], None
    if get_origin(annotation) is dict:
        return arguments[1], None
    return None


def _bare(annotation: Any) -> Any:
    """Take off `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return _bare(members[0]) if len(members) == 1 else annotation
    return annotation


def _item(table: Any, part: str | int) -> Any:
    try:
        return table[part]
    except (KeyError, IndexError, TypeError):
        return None


def _expected(annotation: Any, field: FieldInfo | None, kind: str) -> str:
    """Say what is allowed there."""
    if field is not None and field.description:
        return str(field.description)
    return _described(annotation, list(field.metadata) if field is not None else [], kind)


def _described(annotation: Any, limits: list[Any], kind: str) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        marks = [inner for mark in arguments[1:] for inner in getattr(mark, "metadata", [mark])]
        return _described(arguments[0], [*limits, *marks], kind)
    if origin in (Union, types.UnionType):
        return listed(_described(member, limits, kind) for member in arguments if member is not type(None))
    if origin is Literal:
        return listed(shown(choice) for choice in arguments)
    if origin in (list, tuple):
        return f"a list{_size(limits, kind, 'entries')}, each {_described(arguments[0], [], kind)}"
    if annotation in (int, float):
        words = "a finite number" if kind == "finite_number" else _WORDS[annotation]
        return words + _range(limits, kind)
    if annotation is str:
        return "text in quotes" + _size(limits, kind, "letters") + _form(limits, kind)
    return _WORDS.get(annotation, "a table")


def _range(limits: list[Any], kind: str) -> str:
    bounds = {
        name: getattr(limit, name)
        for limit in limits
        for name in ("gt", "ge", "lt", "le")
        if isinstance(getattr(limit, name, None), int | float)
    }
    if not kind.startswith("less_than"):
        bounds = {name: bound for name, bound in bounds.items() if name in ("gt", "ge") or bound < _ABSURD}
    if "ge" in bounds and "le" in bounds and math.isfinite(bounds["le"]):
        return f" from {_plain(bounds['ge'])} to {_plain(bounds['le'])}"
    words = {"gt": "above", "ge": ">=", "lt": "below", "le": "<="}
    return " and".join(f" {words[name]} {_plain(bound)}" for name, bound in bounds.items())


def _size(limits: list[Any], kind: str, of: str) -> str:
    """Say how long text or a list may be, if its length is what is wrong; the last limit of a kind is the closest."""
    name, words = ("max_length", "at most") if kind.endswith("too_long") else ("min_length", "at least")
    sizes = [size for limit in limits if (size := getattr(limit, name, None)) is not None]
    return f" of {words} {sizes[-1]} {of}" if sizes and kind.endswith(("too_long", "too_short")) else ""


def _form(limits: list[Any], kind: str) -> str:
    """Say what text must look like, if that is what is wrong."""
    patterns = [pattern for limit in limits if (pattern := getattr(limit, "pattern", None)) is not None]
    return f" that matches {patterns[-1]}" if patterns and kind == "string_pattern_mismatch" else ""


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
