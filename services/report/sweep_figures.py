"""The figures of a sweep: each quantity against the key that is varied, one line for each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from services.report.drawing import INK, LINES, Drawing, blank, end_labels, finish, key_of, log_scale, rule, style
from services.report.quantities import axis, capital, title
from services.report.values import Measured, measured, predicted

SWEPT = (
    "sojourn_mean", "sojourn_p99", "waiting_mean", "wait_probability", "block_probability", "abandon_probability",
    "messages.total",
)  # fmt: skip

WIDE = 20.0
"""Values that differ by more than this factor stand on a logarithmic axis."""

MOST_SERIES = len(LINES)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Dot:
    """One point of a line: where it stands, what was simulated and what is predicted."""

    x: float
    simulated: Measured | None
    model: float | None


def swept_key(summary: Mapping[str, Any]) -> str:
    """The key along the horizontal axis: the one with the most values, numbers before words."""
    over: Mapping[str, Sequence[Any]] = summary["over"]
    return max(over, key=lambda key: (_is_number(over[key]), len(over[key])))


def series(summary: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The rows of each line: one policy, and one value of each further key."""
    across = swept_key(summary)
    others = [key for key in summary["over"] if key != across]
    found: dict[str, list[Row]] = {}
    for row in summary["points"]:
        parts = [f"{key.split('.')[-1]} {row['point'][key]}" for key in others]
        if len(summary["policies"]) > 1 or not parts:
            parts.insert(0, row["policy"])
        found.setdefault(", ".join(parts), []).append(row)
    return found


def sweep_figures(summary: Mapping[str, Any]) -> list[Drawing]:
    """Everything that can be drawn of a sweep.

    Args:
        summary: The JSON object of the command.
    """
    with style():
        drawings = [_figure(summary, name) for name in SWEPT]
    return [drawing for drawing in drawings if drawing is not None]


def _figure(summary: Mapping[str, Any], name: str) -> Drawing | None:
    across = swept_key(summary)
    texts = [str(value) for value in summary["over"][across]]
    numeric = _is_number(summary["over"][across])
    lines = {
        label: dots
        for label, rows in list(series(summary).items())[:MOST_SERIES]
        if (dots := [dot for row in rows if (dot := _dot(row, name, _place(row["point"][across], texts, numeric)))])
    }
    values = [value for dots in lines.values() for dot in dots for value in _numbers(dot)]
    if not any(values):
        return None
    figure, (axes,) = blank()
    for (_, dots), (colour, marker) in zip(lines.items(), LINES, strict=False):
        _line(axes, dots, colour, marker)
    _scales(axes, values, [dot.x for dots in lines.values() for dot in dots], numeric)
    if not numeric:
        axes.set_xticks(range(len(texts)), texts)
    if len(series(summary)) > 1:
        end_labels(
            axes, [_end(label, colour, dots) for (label, dots), (colour, _) in zip(lines.items(), LINES, strict=False)]
        )
    axes.set_xlabel(across)
    axes.set_ylabel(axis(name))
    rule(axes)
    _key(axes, lines)
    return finish(
        figure, name.replace("_", "-").replace(".", "-"), capital(title(name)),
        f"{capital(axis(name))} against {across}; simulated points have 95% intervals, dashes are what a model "
        "predicts. "
        "Points without a steady state are left out."
        + (f" The first {MOST_SERIES} lines of {len(series(summary))}." if len(series(summary)) > MOST_SERIES else ""),
    )  # fmt: skip


def _is_number(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _place(value: Any, texts: Sequence[str], numeric: bool) -> float:
    return float(value) if numeric else float(texts.index(str(value)))


def _dot(row: Row, name: str, x: float) -> Dot | None:
    """A point of a line; nothing where the quantity is not known, or has no steady-state value."""
    if name not in row["values"]:
        return None
    quantity = row["quantities"].get(name, {})
    model = next(iter(predicted(quantity).values()), None)
    dot = Dot(x, measured(quantity, "simulated"), model)
    return dot if _numbers(dot) else None


def _numbers(dot: Dot) -> list[float]:
    return [*([dot.simulated.value] if dot.simulated else []), *([dot.model] if dot.model is not None else [])]


def _line(axes: Axes, dots: Sequence[Dot], colour: str, marker: str) -> None:
    seen = [(dot.x, dot.simulated) for dot in dots if dot.simulated]
    if seen:
        below = [max(found.value - (found.value if found.low is None else found.low), 0.0) for _, found in seen]
        above = [max((found.value if found.high is None else found.high) - found.value, 0.0) for _, found in seen]
        axes.errorbar(
            [x for x, _ in seen], [found.value for _, found in seen], [below, above], color=colour, marker=marker,
            elinewidth=0.9, linewidth=1.2,
        )  # fmt: skip
    predicted = [(dot.x, dot.model) for dot in dots if dot.model is not None]
    if predicted:
        axes.plot(
            [x for x, _ in predicted], [value for _, value in predicted], color=colour, linestyle=(0, (4, 2)),
            linewidth=1.1, marker="" if len(predicted) > 1 else "_",
        )  # fmt: skip


def _scales(axes: Axes, values: Sequence[float], places: Sequence[float], numeric: bool) -> None:
    positive = [value for value in values if value > 0.0]
    if max(positive) > WIDE * min(positive):
        log_scale(axes, max(min(positive), 1e-7) / 1.5, max(positive) * 1.5)
    else:
        axes.set_ylim(0.0, 1.1 * max(values))
    if numeric and min(places) > 0.0 and max(places) > WIDE * min(places):
        axes.set_xscale("log")
        shown = sorted(set(places))
        axes.set_xticks(shown if len(shown) <= 8 else shown[:: -(-len(shown) // 8)])
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda value, place: "")


def _end(label: str, colour: str, dots: Sequence[Dot]) -> tuple[str, str, float, float]:
    last = max(dots, key=lambda dot: dot.x)
    return label, colour, last.x, _numbers(last)[0]


def _key(axes: Axes, lines: Mapping[str, Sequence[Dot]]) -> None:
    """Dots and dashes mean the same for every colour."""
    dots = [dot for found in lines.values() for dot in found]
    handles = []
    if any(dot.simulated for dot in dots):
        handles += axes.plot([], [], color=INK, marker="o", linewidth=1.2, label="simulated")
    if any(dot.model is not None for dot in dots):
        handles += axes.plot([], [], color=INK, linestyle=(0, (4, 2)), linewidth=1.1, label="model")
    key_of(axes, handles)
