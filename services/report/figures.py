"""The figures of one run: what was measured as dots, simulated as a line, predicted as dashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from services.measure.curves import Curves
from services.report.drawing import (
    BLUE,
    FAINT,
    INK,
    PAPER,
    PURPLE,
    VERMILLION,
    Drawing,
    blank,
    finish,
    key,
    log_scale,
    rule,
    style,
)
from services.report.quantities import EXPLAINED
from services.report.values import COLUMNS, Measured, kind, measured, places, predicted

LOWEST_SHARE = 1e-5
LONGEST_TAIL = 60
MOST_MARKS_WRITTEN = 12
FEW_JOBS = 10
"""A tail is drawn as far as so many jobs are beyond."""

KINDS = ("messages.pull", "messages.withdraw", "messages.probe", "messages.report", "messages.total")

_DASHES = {"exact": (0, (4, 2)), "closed": (0, (4, 2)), "meanfield": (0, (1.2, 1.2)), "limit": (0, (5, 1.5, 1, 1.5))}

Quantities = Mapping[str, Mapping[str, Any]]


Marks = Sequence[tuple[float, str]]
"""What happened when, in time units."""


def run_figures(
    quantities: Quantities, curves: Mapping[str, Curves], warmup: float, marks: Marks = ()
) -> list[Drawing]:
    """Everything that can be drawn of a run, a simulation or a solution.

    Args:
        quantities: As the JSON object of the report has them.
        curves: Of the live run and of the simulation, by column; those that there are.
        warmup: Until when jobs do not count, in time units.
        marks: What is marked in time.
    """
    with style():
        found = [
            queue_tails(quantities),
            sojourn_tail(quantities, curves),
            waiting_in_time(quantities, curves, warmup, marks),
            pools(quantities),
            messages(quantities),
        ]
    return [drawing for drawing in found if drawing is not None]


def queue_tails(quantities: Quantities) -> Drawing | None:
    """The share of servers with at least k jobs."""
    quantity = quantities.get("queue_tail", {})
    tails = {column: places(quantity, column) for column in COLUMNS}
    models = {method: [float(item) for item in model["value"]] for method, model in quantity.get("models", {}).items()}
    seen = [share for tail in tails.values() for share in tail if share > 0.0]
    lowest = max(min(seen, default=1e-4) / 2.0, LOWEST_SHARE)
    longest = max((sum(share > lowest for share in tail) for tail in [*tails.values(), *models.values()]), default=0)
    if not longest:
        return None
    longest = min(longest, LONGEST_TAIL)
    figure, (axes,) = blank()
    if simulated := tails["simulated"][:longest]:
        axes.plot(range(len(simulated)), simulated, color=BLUE, label="simulated")
    for method, tail in models.items():
        axes.plot(
            range(len(tail[:longest])), tail[:longest], color=VERMILLION, linestyle=_DASHES[method], marker="s",
            markerfacecolor="none", markersize=5.0, markevery=max(1, longest // 20), label=kind(quantity, method),
        )  # fmt: skip
    _dots(axes, [measured(quantity, "live", k) for k in range(len(tails["live"][:longest]))], lowest)
    log_scale(axes, lowest, 1.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("queue length k (jobs at a server)")
    axes.set_ylabel("share of servers with ≥ k jobs")
    rule(axes)
    key(axes)
    return finish(
        figure, "queue-tails", "Queue lengths",
        "Share of servers that hold at least k jobs, waiting and in service, over the measured window. "
        + ("Bars are 95% intervals of the live run." if tails["live"] else ""),
    )  # fmt: skip


def sojourn_tail(quantities: Quantities, curves: Mapping[str, Curves]) -> Drawing | None:
    """The share of served jobs with a sojourn longer than t."""
    tails = {}
    for column in COLUMNS:
        if column in curves and (jobs := int(curves[column].sojourns.sum())):
            times, shares = curves[column].sojourn_tail()
            enough = shares * jobs >= FEW_JOBS
            if enough.any():
                tails[column] = times[enough], shares[enough]
    if not tails:
        return None
    figure, (axes,) = blank()
    if "simulated" in tails:
        axes.plot(*tails["simulated"], color=BLUE, label="simulated")
    _quantiles_of_models(axes, quantities)
    if "live" in tails:
        times, shares = tails["live"]
        wanted = np.geomspace(0.98, shares.min(), 24)
        few = np.unique([int(np.argmin(np.abs(np.log(shares / share)))) for share in wanted])
        axes.plot(times[few], shares[few], "o", color=INK, label="live")
    log_scale(axes, min(float(shares.min()) for _, shares in tails.values()) / 1.5, 1.4)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("sojourn time t (time units)")
    axes.set_ylabel("share of served jobs > t")
    rule(axes)
    key(axes)
    return finish(
        figure, "sojourn-tail", "Sojourn times",
        "Share of served jobs whose sojourn was longer than t, drawn as far as ten jobs lie beyond. "
        "Where a model knows quantiles, squares show its median, p95 and p99.",
    )  # fmt: skip


def _quantiles_of_models(axes: Axes, quantities: Quantities) -> None:
    points: dict[str, list[tuple[float, float]]] = {}
    for percent in (50, 95, 99):
        quantity = quantities.get(f"sojourn_p{percent}", {})
        for method, value in predicted(quantity).items():
            points.setdefault(kind(quantity, method), []).append((value, 1.0 - percent / 100.0))
    for label, found in points.items():
        times, shares = zip(*found, strict=True)
        axes.plot(
            times, shares, "s", color=VERMILLION, markerfacecolor="none", markersize=6.0, zorder=4,
            label=label,
        )  # fmt: skip


def waiting_in_time(
    quantities: Quantities, curves: Mapping[str, Curves], warmup: float, marks: Marks = ()
) -> Drawing | None:
    """The mean waiting time of jobs by when they arrived."""
    if not any(found.waiting.sum() > 0.0 for found in curves.values()):
        return None
    figure, (axes,) = blank()
    if warmup > 0.0:
        axes.axvspan(0.0, warmup, color=FAINT, alpha=0.18, linewidth=0.0)
        axes.text(0.0, 0.985, " warm-up", transform=axes.get_xaxis_transform(), va="top", fontsize=8.0, color=INK)
    if "simulated" in curves:
        axes.plot(*curves["simulated"].mean_waiting(), color=BLUE, label="simulated")
    waiting = quantities.get("waiting_mean", {})
    for method, value in predicted(waiting).items():
        axes.axhline(value, color=VERMILLION, linestyle=_DASHES[method], label=kind(waiting, method))
    if "live" in curves:
        axes.plot(*curves["live"].mean_waiting(), "o-", color=INK, markersize=3.0, linewidth=0.6, label="live")
    axes.set_xlim(0.0, float(next(iter(curves.values())).edges[-1]))
    axes.set_ylim(bottom=0.0)
    axes.margins(y=0.15)
    _mark(axes, marks)
    axes.set_xlabel("arrival of the job (time units)")
    axes.set_ylabel("mean waiting (time units)")
    rule(axes)
    key(axes)
    return finish(
        figure, "waiting-in-time", "Waiting over time",
        "Mean waiting time of the jobs by when they arrived. "
        + ("Thin lines mark what went wrong, and what was mended." if marks else
           "After the warm-up it should be level: a slope means too short a warm-up, or an unstable system."),
    )  # fmt: skip


def _mark(axes: Axes, marks: Marks) -> None:
    """A thin line at each instant; what happened beside it, while there is room for that."""
    for instant, words in marks:
        axes.axvline(instant, color=PURPLE, linewidth=0.7, alpha=0.7)
        if len(marks) <= MOST_MARKS_WRITTEN:
            axes.text(
                instant, 0.97, f" {words}", transform=axes.get_xaxis_transform(), rotation=90.0, va="top", ha="left",
                fontsize=6.5, color=PURPLE,
            )  # fmt: skip


def pools(quantities: Quantities) -> Drawing | None:
    """Utilisation of each pool, and how the jobs are shared among them."""
    names = [name.removeprefix("utilisation.") for name in quantities if name.startswith("utilisation.")]
    if not names:
        return None
    families = ["utilisation", "job_share"][: 1 if len(names) == 1 else 2]
    figure, plots = blank(len(families), 1.0 + 0.55 * min(len(names), 12))
    for axes, family in zip(plots, families, strict=True):
        _bars(axes, names[:12], [quantities.get(f"{family}.{name}", {}) for name in names[:12]], 1.12)
        axes.set_xticks([0.0, 0.5, 1.0])
        axes.set_xlabel({"utilisation": "utilisation (busy ÷ slots)", "job_share": "share of served jobs"}[family])
    if len(plots) > 1:
        plots[1].set_yticklabels([])
    key(plots[0])
    return finish(
        figure, "pools", "Pools",
        "How busy each pool is, and what share of the served jobs it served; diamonds are what a model predicts."
        if len(names) > 1 else "How busy the servers are; a diamond is what a model predicts.",
    )  # fmt: skip


def messages(quantities: Quantities) -> Drawing | None:
    """Control messages per job, by kind."""
    rows = [name for name in KINDS if any(dot.value > 0.0 for dot in _all(quantities.get(name, {})))]
    if not rows:
        return None
    figure, (axes,) = blank(height=1.0 + 0.45 * len(rows))
    most = max(dot.value for name in rows for dot in _all(quantities[name]))
    _bars(axes, [EXPLAINED[name].title for name in rows], [quantities[name] for name in rows], 1.1 * most)
    axes.set_xlabel("control messages per job")
    key(axes)
    return finish(
        figure, "messages", "Messages per job",
        "Control messages per job, by kind; dispatches and ends, which are the work itself, are not counted.",
    )  # fmt: skip


def _all(quantity: Mapping[str, Any]) -> Iterator[Measured]:
    yield from (dot for column in COLUMNS if (dot := measured(quantity, column)) is not None)
    yield from (Measured(value, None, None) for value in predicted(quantity).values())


def _bars(axes: Axes, names: list[str], rows: list[Mapping[str, Any]], width: float) -> None:
    """One group of bars a row: live above simulated, with the prediction as a diamond."""
    present = [column for column in COLUMNS if any(measured(row, column) for row in rows)]
    ends = [max((dot.value for dot in _all(row)), default=0.0) for row in rows]
    height = 0.8 / max(len(present), 1)
    looks = {"live": (INK, 0.75), "simulated": (BLUE, 0.85)}
    for order, column in enumerate(present):
        offset = (order - (len(present) - 1) / 2.0) * height
        dots = [measured(row, column) for row in rows]
        lengths = [dot.value if dot else 0.0 for dot in dots]
        colour, alpha = looks[column]
        axes.barh(
            [place + offset for place in range(len(rows))], lengths, height * 0.88, color=colour, alpha=alpha,
            label=column, linewidth=0.0,
        )  # fmt: skip
        for place, dot in enumerate(dots):
            if dot:
                _write_value(axes, dot.value, ends[place], place + offset, width)
    labelled: set[str] = set()
    for place, row in enumerate(rows):
        for method, value in predicted(row).items():
            axes.plot(
                value, place, "D", color=VERMILLION, markerfacecolor="none", markersize=5.0, markeredgewidth=1.4,
                clip_on=False, label=None if (label := kind(row, method)) in labelled else label,
            )  # fmt: skip
            labelled.add(label)
    axes.set_xlim(0.0, width)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    rule(axes, "x")


def _write_value(axes: Axes, value: float, end: float, y: float, width: float) -> None:
    """Within the bar, where no diamond is; if it is too short for that, beyond everything in its row."""
    within = value > 0.25 * width
    axes.annotate(
        f"{value:.3g}", (0.0 if within else end, y), (4 if within else 8, 0), textcoords="offset points", va="center",
        fontsize=8.0, color=PAPER if within else INK,
    )  # fmt: skip


def _dots(axes: Axes, dots: list[Measured | None], lowest: float) -> None:
    """Live values above `lowest` with their intervals, at 0, 1, …; an interval that ends lower is cut off there."""
    seen = {k: dot for k, dot in enumerate(dots) if dot and dot.value > lowest}
    if seen:
        lower = [dot.value - max(dot.low if dot.low is not None else dot.value, lowest) for dot in seen.values()]
        upper = [(dot.high if dot.high is not None else dot.value) - dot.value for dot in seen.values()]
        axes.errorbar(
            list(seen), [dot.value for dot in seen.values()], [lower, upper], fmt="o", color=INK, elinewidth=0.6,
            ecolor=FAINT, capsize=0.0, label="live", zorder=3,
        )  # fmt: skip
