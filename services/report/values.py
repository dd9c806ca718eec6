"""Numbers out of the JSON object of a report, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COLUMNS = ("live", "simulated")


@dataclass(frozen=True)
class Measured:
    """A value with its 95% interval; `None`: not known."""

    value: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """As people write it: four digits, and half the width of the interval."""
        places = decimals(self.value)
        if self.low is None or self.high is None:
            return f"{self.value:.{places}f}"
        return f"{self.value:.{places}f}\u00a0±\u2009{(self.high - self.low) / 2.0:.{places}f}"


def decimals(value: float) -> int:
    """So many that four digits are seen."""
    size = abs(value)
    return 4 if size < 1.0 else 3 if size < 10.0 else 2 if size < 100.0 else 1 if size < 1000.0 else 0


def number(value: float) -> str:
    """Four digits of it."""
    return f"{value:.{decimals(value)}f}"


def measured(quantity: Mapping[str, Any] | None, column: str, k: int | None = None) -> Measured | None:
    """A column of a quantity, or place k of its list; 0 beyond its end."""
    found = (quantity or {}).get(column)
    if found is None or (value := at(found.get("value"), k)) is None:
        return None
    low, high = found.get("ci95") or (None, None)
    return Measured(value, at(low, k), at(high, k))


def predicted(quantity: Mapping[str, Any] | None, k: int | None = None) -> dict[str, float]:
    """What each method says of a quantity, or of place k of its list."""
    models = (quantity or {}).get("models", {})
    values = {method: at(model.get("value"), k) for method, model in models.items()}
    return {method: value for method, value in values.items() if value is not None}


def kind(quantity: Mapping[str, Any], method: str) -> str:
    """What sort of statement a method makes of a quantity, for instance "closed form"."""
    return str(quantity["models"][method].get("kind") or method)


def at(value: Any, k: int | None) -> float | None:
    """A finite number, or place k of a list; `None` if it is not that."""
    if isinstance(value, list):
        if k is None:
            return None
        value = value[k] if k < len(value) else 0.0
    elif k is not None:
        return None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def places(quantity: Mapping[str, Any], column: str) -> list[float]:
    """A list of numbers; empty if there is none."""
    value = (quantity.get(column) or {}).get("value")
    return [float(item) for item in value] if isinstance(value, list) else []
