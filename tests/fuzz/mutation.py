"""Small changes to inputs that keep their form: what a fuzzer that knows only bytes would seldom hit upon."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from math import inf, nan
from random import Random
from typing import Any, Literal

import msgpack

from services.scenario_text import write_table

Form = Literal["msgpack", "json", "toml", "text"]

WILD: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 4096, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 0.5, 1e-9, 1e15,
    1e308, nan, inf, -inf, "", "inf", "nan", "vacancy", "x" * 201, "\u2028", "\x00", [], {}, [[]], [{}],
)  # fmt: skip

READ: dict[Form, Callable[[bytes], Any]] = {
    "msgpack": lambda data: msgpack.unpackb(data, strict_map_key=False),
    "json": json.loads,
    "toml": lambda data: tomllib.loads(data.decode()),
}
WRITE: dict[Form, Callable[[Any], bytes]] = {
    "msgpack": msgpack.packb,
    "json": lambda value: json.dumps(value).encode(),
    "toml": lambda value: write_table(value).encode(),
}
_CANNOT = (ValueError, TypeError, OverflowError, AttributeError, RecursionError, msgpack.UnpackException)


def mutated(data: bytes, form: Form, rng: Random) -> bytes | None:
    """The input with a few values changed; `None`: it has no such form."""
    if form not in READ:
        return None
    try:
        value = READ[form](data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            value = _changed(value, rng)
        return WRITE[form](value)
    except _CANNOT:
        return None


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container within a value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def _changed(value: Any, rng: Random) -> Any:
    places = list(_places(value))
    if not places:
        return _other(value, rng)
    container, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del container[key]
        case 1:
            source, at = rng.choice(places)
            container[key] = deepcopy(source[at])
        case 2 if isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), deepcopy(container[key]))
        case 3 if isinstance(container, dict):
            container[rng.choice(("more", "", "size", "name", key))] = container.pop(key)
        case 4:
            container[key] = [container[key]]
        case _:
            container[key] = _other(container[key], rng)
    return value


def _other(value: Any, rng: Random) -> Any:
    """A value near this one, or any other."""
    if type(value) in (int, float) and rng.random() < 0.5:
        return rng.choice((value + 1, value - 1, -value, value * 2, float(value), int(min(max(value, -1e18), 1e18))))
    if type(value) is str and value and rng.random() < 0.5:
        return rng.choice((value[:-1], value + value[0], value.upper(), value + "-1"))
    return deepcopy(rng.choice(WILD))
