"""The points of a sweep: every combination of the values of its keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

from router.protocol.errors import SettingsError
from services.scenario_text import parted, read_value

MOST_POINTS = 10_000

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER}):({_NUMBER})")


@dataclass(frozen=True)
class Axis:
    """One key of the scenario, and the values that it takes.

    Attributes:
        key: As after `--set`.
        texts: The values as they are written there.
    """

    key: str
    texts: tuple[str, ...]

    @property
    def values(self) -> list[Any]:
        """The values as TOML reads them; what it cannot read is text."""
        return [read_value(text) for text in self.texts]


@dataclass(frozen=True)
class Point:
    """One value for each key.

    Attributes:
        overrides: `KEY=VALUE` each.
        values: By key.
    """

    overrides: tuple[str, ...]
    values: dict[str, Any]


def read_axes(texts: Sequence[str]) -> list[Axis]:
    """Read `KEY=SPEC`, where SPEC is a list `0.5,0.7,0.9` or a range `0.5:0.95:0.05`, its end included.

    Raises:
        SettingsError: One cannot be read, a key stands there twice, or there are too many points.
    """
    axes = [_axis(text) for text in texts]
    if not axes:
        raise SettingsError("--over: expected KEY=SPEC, for instance --over arrivals.load=0.5:0.95:0.05")
    keys = [axis.key for axis in axes]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise SettingsError(f"--over {key}: the key stands there twice: give all its values at once")
    points = 1
    for axis in axes:
        points *= len(axis.texts)
    if points > MOST_POINTS:
        raise SettingsError(f"--over: {points} points, expected at most {MOST_POINTS}: take fewer values")
    return axes


def points_of(axes: Sequence[Axis]) -> list[Point]:
    """All combinations; the last key changes fastest."""
    return [
        Point(
            tuple(f"{axis.key}={text}" for axis, (text, _) in zip(axes, chosen, strict=True)),
            {axis.key: value for axis, (_, value) in zip(axes, chosen, strict=True)},
        )
        for chosen in product(*(list(zip(axis.texts, axis.values, strict=True)) for axis in axes))
    ]


def _axis(text: str) -> Axis:
    key, equals, spec = (part.strip() for part in text.partition("="))
    found = _RANGE.fullmatch(spec)
    texts = _range(text, *found.groups()) if found else [part.strip() for part in parted(spec, ",")]
    if not key or not equals or not all(texts):
        raise SettingsError(
            f"--over {text}: expected KEY=SPEC with a list or a range, for instance arrivals.load=0.5,0.7,0.9 or "
            "arrivals.load=0.5:0.95:0.05"
        )
    if len(set(texts)) < len(texts):
        raise SettingsError(f"--over {text}: a value stands there twice")
    return Axis(key, tuple(texts))


def _range(text: str, first: str, last: str, step: str) -> list[str]:
    """In decimal, so that 0.5:0.7:0.1 ends with 0.7 and not with 0.7000000000000001."""
    start, end, by = Decimal(first), Decimal(last), Decimal(step)
    if by == 0 or (end - start) * by < 0:
        raise SettingsError(f"--over {text}: expected FIRST:LAST:STEP with a step that leads from first to last")
    steps = int((end - start) / by)
    if steps >= MOST_POINTS:
        raise SettingsError(f"--over {text}: {steps + 1} values, expected at most {MOST_POINTS}: take a larger step")
    return [_plain(start + number * by) for number in range(steps + 1)]


def _plain(number: Decimal) -> str:
    """Without an exponent, so that a whole number stays one."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text and int(number) == number else text
