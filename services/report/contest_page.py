"""The page of a comparison: which policy is best, by how much, and at what cost in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.report.drawing import Drawing
from services.report.markup import Markup, element, join
from services.report.page import Headline, Subject, figures_section, page, section
from services.report.quantities import EXPLAINED, axis
from services.report.tables import link, scrolling
from services.report.values import measured, number

SHOWN = (
    "sojourn_mean", "sojourn_p95", "sojourn_p99", "wait_probability", "block_probability", "abandon_probability",
    "failed_probability", "messages.total",
)  # fmt: skip

SIGNS = {
    "more": ("▲", "more"),
    "less": ("▼", "less"),
    "alike": ("≈", "alike"),
    "no_difference_seen": ("?", "no difference seen"),
    "not_compared": ("·", "not compared"),
}


def contest_page(subject: Subject, summary: Mapping[str, Any], drawings: Sequence[Drawing]) -> str:
    """The page of a comparison.

    Args:
        subject: What it is about.
        summary: The JSON object of the command.
        drawings: Its figures.
    """
    names = [name for name in SHOWN if _is_known(summary, name)]
    sections = [
        section("Policies", _reading(summary), _values(summary, names)),
        _differences(summary, names),
        figures_section(drawings),
        _steadiness(summary),
    ]
    return page(subject, _headline(summary), sections, [name for name in EXPLAINED if name in names])


def _headline(summary: Mapping[str, Any]) -> Headline:
    leaders = summary["leaders"]
    broken = [f"Violated: {what}" for what in summary["violated"]]
    last_first = [*summary["statements"][-1:], *summary["statements"][:-1]]  # the last one says who is best
    sentences = [text + ("" if text.endswith(".") else ".") for text in last_first]
    lines = [*broken, *(f"Invalid: {reason}" for reason in summary["invalid"]), *sentences]
    if summary["invalid"]:
        return Headline("invalid", "✗ Invalid", lines)
    if broken:
        return Headline("differ", "✗ Jobs or messages are missing", lines)
    if not leaders:
        return Headline("not_enough_data", "? No policy has a steady state here", lines)
    by = EXPLAINED[summary["criterion"]].title
    beside = f", not told apart from {', '.join(leaders[1:])}" if len(leaders) > 1 else ""
    return Headline("limit", f"Best by {by}: {leaders[0]}{beside}", lines)


def _is_known(summary: Mapping[str, Any], name: str) -> bool:
    dots = [measured(found["quantities"].get(name), summary["column"]) for found in summary["policies"].values()]
    return any(dot and dot.value for dot in dots)


def _reading(summary: Mapping[str, Any]) -> Markup:
    how = "ran live, one after another," if summary["column"] == "live" else "was simulated"
    return element(
        "p",
        f"Each policy {how} with the same jobs. Times are in time units, the rest counts per job; intervals (±) are "
        "95%, each for itself. The best policy stands first, and those that were not told apart from it are marked.",
        class_="reading",
    )


def _order(summary: Mapping[str, Any]) -> list[str]:
    """The best first; those without a steady state last."""
    return [*summary["ranking"], *(label for label in summary["policies"] if label not in summary["ranking"])]


def _values(summary: Mapping[str, Any], names: Sequence[str]) -> Markup:
    rows = []
    for label in _order(summary):
        found = summary["policies"][label]
        best = label in summary["leaders"]
        dots = [measured(found["quantities"].get(name), summary["column"]) for name in names]
        if found["quantities"]:
            cells = [element("td", dot.text if dot else "") for dot in dots]
        else:
            cells = [element("td", "no steady state", colspan=str(len(names)), class_="by")]
        mark = element("span", " ★", title="best, or not told apart from it") if best else None
        rows.append(element("tr", element("th", label, mark, scope="row"), cells, class_="best" if best else None))
    head = element("tr", element("th", "policy", scope="col"), [_heading(name) for name in names])
    return scrolling(element("table", element("thead", head), element("tbody", rows)), "Policies")


def _heading(name: str) -> Markup:
    return element("th", link(name, axis(name) if name == "messages.total" else None), scope="col")


def _differences(summary: Mapping[str, Any], names: Sequence[str]) -> Markup | None:
    found = summary["differences"]
    if not found:
        return None
    rows = [
        element(
            "tr",
            element("th", label, scope="row"),
            [element("td", _difference(found[label].get(name))) for name in names],
        )
        for label in summary["ranking"]
        if label in found
    ]
    head = element("tr", element("th", "policy", scope="col"), [_heading(name) for name in names])
    sure = 1.0 - summary["false_alarms"]
    return section(
        f"Differences from {summary['baseline']}",
        element(
            "p",
            f"Each policy minus {summary['baseline']}, from the same jobs, so that what these share cancels. The "
            f"{summary['family']} intervals hold all together with probability {sure:g}. ",
            join([f"{sign} {text}" for sign, text in SIGNS.values()], "; "),
            ".",
            class_="reading",
        ),
        scrolling(element("table", element("thead", head), element("tbody", rows)), "Differences"),
    )


def _difference(found: Mapping[str, Any] | None) -> Markup | str:
    if found is None or found["difference"] is None:
        return ""
    sign, text = SIGNS.get(found["word"], ("", found["word"]))
    value = found["difference"]
    low, high = found["interval"]
    half = "" if low is None or high is None else f"\u00a0±\u2009{number((high - low) / 2.0)}"
    return join([element("span", f"{sign} ", title=text), f"{'−' if value < 0.0 else '+'}{number(abs(value))}{half}"])


def _steadiness(summary: Mapping[str, Any]) -> Markup | None:
    lines = []
    for label in _order(summary):
        found = summary["policies"][label]["stationarity"]
        growth = (
            "" if found["growth"] is None else f" (jobs in the system: {found['growth']:.3g}-fold in the second half)"
        )
        text = found["why"] or f"the halves of the window agree{growth}"
        jobs = f"{summary['policies'][label]['jobs']} jobs"
        good = found["state"] in ("steady", "not_tested")
        sign = element("span", "✓" if good else "✗", class_="sign")
        lines.append(element("li", sign, f"{label}: {text}; {jobs}", class_="ok" if good else "broken"))
    return section("Steady states", element("ul", lines, class_="lines"))
