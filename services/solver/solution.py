"""What models say of a scenario: a prediction for each quantity and method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

METHODS = ("exact", "closed", "meanfield", "limit")
"""In the order of preference: the value of a quantity is that of the first method that has one."""

Value = float | list[float]


@dataclass(frozen=True)
class Prediction:
    """One quantity by one method.

    Attributes:
        value: In time units, per arrival, or a list of shares of servers, as the quantity's name says.
        kind: What sort of statement it is, for instance "closed form" or "mean field".
        source: Who has shown it.
        assumes: What must be so that it holds.
        exact: It holds for this number of servers and routers, so a run may be tested against it; otherwise it is
            approached as the system grows, and a run can only be shown beside it.
    """

    value: Value
    kind: str
    source: str
    assumes: str
    exact: bool


@dataclass(frozen=True)
class Statement:
    """What the predictions of one model have in common; attributes as in `Prediction`."""

    kind: str
    source: str
    assumes: str
    exact: bool

    def of(self, values: Mapping[str, float | Iterable[float]]) -> dict[str, Prediction]:
        """Predict these values, by quantity; anything but a number becomes a list of numbers."""
        return {
            name: Prediction(
                float(value) if isinstance(value, int | float) else [float(item) for item in value],
                self.kind,
                self.source,
                self.assumes,
                self.exact,
            )
            for name, value in values.items()
        }


@dataclass(frozen=True)
class Solution:
    """All predictions for a scenario.

    Attributes:
        quantities: Quantity to method to prediction; methods in order of preference.
        methods: The methods of which a model applied; identities alone do not count.
        left_out: For each method of which none did, the reason.
    """

    quantities: dict[str, dict[str, Prediction]]
    methods: tuple[str, ...]
    left_out: dict[str, str]

    def values(self) -> dict[str, Value]:
        """For each quantity the first there is of exact, closed, meanfield, limit."""
        return {name: next(iter(by_method.values())).value for name, by_method in self.quantities.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain values, ready for JSON."""
        return {
            "methods": list(self.methods),
            "left_out": dict(self.left_out),
            "values": self.values(),
            "quantities": {
                name: {"models": {method: asdict(prediction) for method, prediction in by_method.items()}}
                for name, by_method in self.quantities.items()
            },
        }
