"""How much a core remembers: entries of all containers that it holds, and that nobody else does."""

from __future__ import annotations

import types
from collections import Counter, deque
from typing import Any

_LEAVES = (str, bytes, int, float, bool, type(None), type, types.FunctionType, types.ModuleType, types.MethodType)
_TABLES = {"Ranks", "RankTable"}
"""Look-up tables, as long as the longest queue ever seen."""

_LENGTHS = "time_at_length"
"""As long, too; whoever watches a server knows how long that is."""


def entries(root: Any) -> tuple[int, str]:
    """Count them; and name the largest container."""
    total, largest, where = 0, 0, ""
    seen: set[int] = set()
    waiting: list[tuple[Any, str]] = [(root, type(root).__name__)]
    while waiting:
        found, path = waiting.pop()
        if isinstance(found, _LEAVES) or id(found) in seen or type(found).__name__ in _TABLES:
            continue
        seen.add(id(found))
        if isinstance(found, dict | Counter):
            inner = [*found.keys(), *found.values()]
        elif isinstance(found, list | tuple | set | frozenset | deque):
            inner = list(found)
        else:
            waiting += [(value, f"{path}.{name}") for name, value in _fields(found)]
            continue
        if isinstance(found, dict | list | set | deque):
            total += len(found)
            if len(found) > largest:
                largest, where = len(found), path
        waiting += [(value, f"{path}[]") for value in inner]
    return total, f"{largest} in {where}"


def _fields(found: Any) -> list[tuple[str, Any]]:
    if not type(found).__module__.startswith(("router", "server")):
        return []
    names = [name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ())]
    values = [(name, getattr(found, name)) for name in names if hasattr(found, name)]
    return [pair for pair in [*values, *getattr(found, "__dict__", {}).items()] if pair[0] != _LENGTHS]
