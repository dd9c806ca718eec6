"""The figures of a comparison: several policies on the same jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from services.report.drawing import (
    BLUE,
    FAINT,
    INK,
    LINES,
    VERMILLION,
    Drawing,
    blank,
    end_labels,
    finish,
    key,
    log_scale,
    log_width,
    rule,
    spread,
    style,
)  # fmt: skip
from services.report.quantities import axis, capital, title
from services.report.values import Measured, measured, places

SOJOURNS = {
    "sojourn_mean": ("mean", "o", INK),
    "sojourn_p95": ("p95", "D", BLUE),
    "sojourn_p99": ("p99", "s", VERMILLION),
}

LOST = ("block_probability", "abandon_probability", "failed_probability")
MOST_LINES = len(LINES)
LONGEST_TAIL = 40
LOWEST_SHARE = 1e-5

Policies = Mapping[str, Mapping[str, Any]]


def contest_figures(summary: Mapping[str, Any]) -> list[Drawing]:
    """Everything that can be drawn of a comparison.

    Args:
        summary: The JSON object of the command.
    """
    column = summary["column"]
    found = summary["policies"]
    policies = {label: found[label]["quantities"] for label in summary["ranking"]}
    if not policies:
        return []
    with style():
        drawings = [
            _sojourns(policies, column),
            *(_one(policies, column, name) for name in LOST),
            _cost(policies, column),
            _queue_tails(policies, column),
        ]
    return [drawing for drawing in drawings if drawing is not None]


def _sojourns(policies: Policies, column: str) -> Drawing | None:
    rows = {name: [measured(quantities.get(name), column) for quantities in policies.values()] for name in SOJOURNS}
    values = [dot.value for dots in rows.values() for dot in dots if dot and dot.value > 0.0]
    if not values:
        return None
    figure, (axes,) = blank(height=_height(policies))
    for place in range(len(policies)):
        seen = [dot.value for dots in rows.values() if (dot := dots[place])]
        if seen:
            axes.plot([min(seen), max(seen)], [place, place], color=FAINT, linewidth=0.6, alpha=0.6, zorder=1)
    for name, dots in rows.items():
        label, marker, colour = SOJOURNS[name]
        _intervals(axes, dots, marker, colour, label)
    log_width(axes, min(values) / 1.25, max(values) * 1.25)
    axes.set_xlabel("sojourn time (time units)")
    _names(axes, policies)
    key(axes)
    return finish(
        figure, "sojourns", "Sojourn times by policy",
        "Mean, p95 and p99 of the sojourn time of served jobs, best policy first, with 95% intervals.",
    )  # fmt: skip


def _one(policies: Policies, column: str, name: str) -> Drawing | None:
    dots = [measured(quantities.get(name), column) for quantities in policies.values()]
    if not any(dot and dot.value > 0.0 for dot in dots):
        return None
    figure, (axes,) = blank(height=_height(policies))
    _intervals(axes, dots, "o", INK, None)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(axis(name))
    _names(axes, policies)
    return finish(
        figure, name.replace("_", "-"), f"{capital(title(name))} by policy",
        "Share of jobs that are lost this way, best policy first, with 95% intervals.",
    )  # fmt: skip


def _cost(policies: Policies, column: str) -> Drawing | None:
    """What is bought by messages."""
    points = {
        label: (cost, gain)
        for label, quantities in policies.items()
        if (cost := measured(quantities.get("messages.total"), column))
        and (gain := measured(quantities.get("sojourn_mean"), column))
    }
    if len(points) < 2 or not any(cost.value for cost, _ in points.values()):
        return None
    figure, (axes,) = blank(height=3.3)
    most = max(cost.value for cost, _ in points.values())
    high = max(gain.value for _, gain in points.values())
    axes.set_xlim(-0.03 * most, 1.5 * most)
    axes.set_ylim(0.0, 1.12 * high)
    heights = _label_heights({label: (cost.value, gain.value) for label, (cost, gain) in points.items()}, most, high)
    for label, (cost, gain) in points.items():
        _, marker, colour = SOJOURNS["sojourn_mean"]
        axes.errorbar(cost.value, gain.value, _bar(gain), fmt=marker, color=colour, elinewidth=0.8)
        axes.annotate(
            label, (cost.value, gain.value), (cost.value + 0.045 * most, heights[label]), va="center", fontsize=8.0,
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.5, "shrinkA": 0.0, "shrinkB": 2.0},
        )  # fmt: skip
    axes.set_xlabel("control messages per job")
    axes.set_ylabel("mean sojourn (time units)")
    rule(axes)
    return finish(
        figure, "cost", "What messages buy",
        "Mean sojourn time against control messages per job: down and to the left is better.",
    )  # fmt: skip


def _label_heights(points: Mapping[str, tuple[float, float]], most: float, high: float) -> dict[str, float]:
    """Where labels stand so that those of neighbours do not lie on one another."""
    columns: list[list[str]] = []
    for label in sorted(points, key=lambda label: points[label][0]):
        if not columns or points[label][0] - points[columns[-1][-1]][0] > 0.3 * most:
            columns.append([])
        columns[-1].append(label)
    return {
        label: height
        for column in columns
        for label, height in zip(column, spread([points[label][1] for label in column], 0.062 * high), strict=True)
    }


def _queue_tails(policies: Policies, column: str) -> Drawing | None:
    tails = {label: places(quantities.get("queue_tail", {}), column) for label, quantities in policies.items()}
    shown = [(label, tail) for label, tail in tails.items() if len(tail) > 1][:MOST_LINES]
    if not shown:
        return None
    lowest = max(min(share for _, tail in shown for share in tail if share > 0.0) / 2.0, LOWEST_SHARE)
    figure, (axes,) = blank(height=3.3)
    ends = []
    longest = 0
    for (label, tail), (colour, marker) in zip(shown, LINES, strict=False):
        kept = [share for share in tail[:LONGEST_TAIL] if share > lowest]
        axes.plot(range(len(kept)), kept, color=colour, marker=marker, markevery=max(1, len(kept) // 12))
        longest = max(longest, len(kept))
        ends.append((label, colour, len(kept) - 1, kept[-1]))
    log_scale(axes, lowest, 1.4)
    axes.set_xlim(0, longest - 0.5)
    end_labels(axes, ends)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("queue length k (jobs at a server)")
    axes.set_ylabel("share of servers with ≥ k jobs")
    rule(axes)
    left_out = f" The first {MOST_LINES} policies in the order of the table." if len(policies) > MOST_LINES else ""
    return finish(
        figure, "queue-tails", "Queue lengths by policy",
        f"Share of servers that hold at least k jobs, over the measured window.{left_out}",
    )  # fmt: skip


def _height(policies: Policies) -> float:
    return 1.0 + 0.27 * len(policies)


def _bar(dot: Measured) -> list[list[float]]:
    low, high = (dot.value if end is None else end for end in (dot.low, dot.high))
    return [[max(dot.value - low, 0.0)], [max(high - dot.value, 0.0)]]


def _intervals(axes: Axes, dots: Sequence[Measured | None], marker: str, colour: str, label: str | None) -> None:
    seen = [(dot, place) for place, dot in enumerate(dots) if dot]
    bars = [_bar(dot) for dot, _ in seen]
    axes.errorbar(
        [dot.value for dot, _ in seen], [place for _, place in seen],
        xerr=[[bar[0][0] for bar in bars], [bar[1][0] for bar in bars]],
        fmt=marker, color=colour, elinewidth=0.9, label=label,
    )  # fmt: skip


def _names(axes: Axes, policies: Policies) -> None:
    axes.set_yticks(range(len(policies)), list(policies))
    axes.set_ylim(len(policies) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    rule(axes, "x")
