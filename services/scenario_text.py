"""The text of a scenario: TOML with overrides read into one table, and a table written as TOML."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from router.protocol.errors import SettingsError
from router.protocol.faults import shown

RATES = ("load", "rate_per_server", "rate_total", "speedup")
"""The keys of [arrivals] that state how many jobs there are; exactly one is given."""

COMMON = ("law", *RATES[:3])
"""The keys of [arrivals] that every law has."""

DEEPEST = 10
"""Tables and lists inside one another."""

MOST_LETTERS = 1 << 18
"""Of a scenario file; the longest that is shipped has two thousand."""

MOST_DOTS = 50
"""In one key: reading takes as long as their number squared."""

_TOO_DEEP = f"expected at most {DEEPEST} tables and lists inside one another, found more"
_PARTS = re.compile(r"[=,\[\]{}]")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read_table(text: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Read TOML and set what the overrides say.

    Rule: an override replaces what the file says under its key, and what contradicts it there. A rate of [arrivals]
    replaces the one in the file. `size_column` and `size_columns` replace each other, and [service], because the
    sizes then come from the trace. `routers.count` replaces a list of shares, and such a list the count. Another
    `policy.name`, `service.law` or `arrivals.law` drops the parameters that the file gives for the former one; the
    rates of arrivals stay. What two overrides say is never dropped: they may contradict each other.

    Args:
        text: The TOML.
        overrides: `KEY=VALUE` each: a dotted key, with positions in lists from 0; VALUE is a TOML value, and
            text if it is none.

    Raises:
        SettingsError: Either cannot be read; the message lacks the name of the file.
    """
    _check_length(text)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(_syntax(error)) from None
    changes = [_split(override) for override in overrides]
    for key, value in changes:
        _drop_contradictions(table, key, value)
    for key, value in changes:
        _set(table, key, value)
    _check_depth(table)
    return table


def read_value(text: str) -> Any:
    """Read a value as TOML does; what TOML cannot read is text."""
    _check_length(text)
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if len(read) == 1 else text


def parted(text: str, separator: str) -> list[str]:
    """The parts between separators, but for separators within the brackets of a list."""
    return re.split(rf"{re.escape(separator)}(?![^\[]*\])", text)


def policy_words(table: Mapping[str, Any]) -> str:
    """A [policy] table as people read it: its name, and in brackets what it says beside."""
    rest = ", ".join(f"{key} = {value}" for key, value in table.items() if key != "name")
    return f"{table['name']} ({rest})" if rest else str(table["name"])


def write_table(table: Mapping[str, Any]) -> str:
    """Write a table as TOML: plain keys first, then its tables and lists of tables; `None` is left out."""
    lines = [_pair(key, value) for key, value in table.items() if value is not None and not _is_section(value)]
    for key, value in table.items():
        if _is_section(value):
            name = _written_key(key)
            tables, head = ([value], f"[{name}]") if isinstance(value, Mapping) else (value, f"[[{name}]]")
            for section in tables:
                lines += ["", head, *(_pair(*pair) for pair in section.items() if pair[1] is not None)]
    return "\n".join(lines) + "\n"


def _check_depth(table: dict[str, Any]) -> None:
    """Refuse what would exhaust the stack of whoever walks over it later; no key of a scenario goes this deep."""
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        level = [item for parent in level for item in (parent.values() if isinstance(parent, dict) else parent)]
        level = [item for item in level if isinstance(item, dict | list)]
    if level:
        raise SettingsError(_TOO_DEEP)


def _check_length(text: str) -> None:
    """Refuse what would take long to read, and is no scenario."""
    if len(text) > MOST_LETTERS:
        raise SettingsError(f"expected at most {MOST_LETTERS:,} letters, found {len(text):,}")
    # A key ends at its line, and between two of these signs; so no key has more dots than one of these parts.
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS and any(part.count(".") > MOST_DOTS for part in _PARTS.split(line)):
            raise SettingsError(f"{_TOO_DEEP}: line {number} has more than {MOST_DOTS} dots in one key or text")


def _syntax(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    found = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
    message, place = found.groups() if found else (str(error), "")
    return f"{place}: {message}: no valid TOML" if place else f"no valid TOML: {message}"


def _split(override: str) -> tuple[list[str], Any]:
    """Split `KEY=VALUE`; the key is read as TOML reads keys, so that parts may be quoted."""
    key, equals, value = override.partition("=")
    _check_length(key)
    try:
        nested: Any = tomllib.loads(f"{key} = 0") if equals else None
    except ValueError:
        nested = None
    path: list[str] = []
    while isinstance(nested, dict) and len(nested) == 1:
        ((part, nested),) = nested.items()
        path.append(part)
    if not path or nested != 0:
        raise SettingsError(f"--set {override}: expected KEY=VALUE, for instance policy.d=3 or pools.0.servers=10")
    return path, read_value(value.strip())


def _drop_contradictions(table: dict[str, Any], key: list[str], value: Any) -> None:
    match key:
        case [("policy" | "service" | "arrivals") as room, ("name" | "law") as choice]:
            section = table.get(room)
            if isinstance(section, dict) and choice in section and section[choice] != value:
                kept = COMMON if room == "arrivals" else (choice,)
                table[room] = {name: item for name, item in section.items() if name in kept}
        case ["routers", "count"]:
            _drop(table, "routers", ("split",))
        case ["routers", "split"] if isinstance(value, list):
            _drop(table, "routers", ("count",))
        case ["arrivals", name] if name in RATES:
            _drop(table, "arrivals", RATES)
        case ["arrivals", ("size_column" | "size_columns") as name, *_]:
            _drop(table, "arrivals", ("size_column", "size_columns"), but=name)
            table.pop("service", None)


def _drop(table: dict[str, Any], room: str, names: Sequence[str], but: str = "") -> None:
    section = table.get(room)
    if isinstance(section, dict):
        table[room] = {name: item for name, item in section.items() if name == but or name not in names}


def _set(table: dict[str, Any], key: list[str], value: Any) -> None:
    place: Any = table
    for depth, part in enumerate(key[:-1]):
        if isinstance(place, dict):
            place.setdefault(part, {})
        place = place[_index(place, key, depth)]
    place[_index(place, key, len(key) - 1)] = value


def _index(place: Any, key: list[str], depth: int) -> str | int:
    """Return what to look up in `place`, which is where the first `depth` parts of the key lead to."""
    part = key[depth]
    if isinstance(place, dict):
        return part
    whole, done = ".".join(key), ".".join(key[:depth])
    if not isinstance(place, list):
        raise SettingsError(f"--set {whole}: {done} is {shown(place)}, no table or list: set {done} itself")
    if not re.fullmatch(r"[0-9]{1,6}", part) or int(part) >= len(place):
        raise SettingsError(f"--set {whole}: {done} has {len(place)} entries, counted from 0, and no {part}")
    return int(part)


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _pair(key: str, value: Any) -> str:
    return f"{_written_key(key)} = {_written(value)}"


def _written_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _written(key)


def _written(value: Any) -> str:
    if isinstance(value, str):
        # What JSON escapes TOML reads, but TOML wants one more character escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pair(*pair) for pair in value.items() if pair[1] is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(item) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return repr(value)
