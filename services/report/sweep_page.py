"""The page of a sweep: how quantities move with a key of the scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.report.drawing import Drawing
from services.report.markup import Markup, element, join
from services.report.page import Headline, Subject, figures_section, page, section
from services.report.quantities import EXPLAINED, axis
from services.report.sweep_figures import SWEPT
from services.report.tables import link, scrolling
from services.report.values import kind, measured, number, predicted

MOST_ROWS = 300

Row = Mapping[str, Any]


def sweep_page(subject: Subject, summary: Mapping[str, Any], drawings: Sequence[Drawing]) -> str:
    """The page of a sweep.

    Args:
        subject: What it is about.
        summary: The JSON object of the command.
        drawings: Its figures.
    """
    names = [name for name in SWEPT if any(row["values"].get(name) for row in summary["points"])]
    sections = [figures_section(drawings), section("Points", _reading(summary), _table(summary, names))]
    return page(subject, _headline(summary), sections, [name for name in EXPLAINED if name in names])


def _headline(summary: Mapping[str, Any]) -> Headline:
    rows = summary["points"]
    keys = ", ".join(summary["over"])
    policies = len(summary["policies"])
    text = f"{len(rows)} points over {keys}" + (f", {policies} policies" if policies > 1 else "")
    unstable = sum((row["stationarity"] or {}).get("state") == "unstable" for row in rows)
    short = sum((row["stationarity"] or {}).get("state") == "warmup_too_short" for row in rows)
    lines = [f"{unstable} of them have no steady state."] if unstable else []
    lines += [f"At {short} of them the warm-up is too short."] if short else []
    refused = [row["refused"] for row in rows if row["refused"]]
    lines += [f"No model applies at {len(refused)} of them; at the first: {refused[0]}"] if refused else []
    return Headline("limit", text, lines)


def _reading(summary: Mapping[str, Any]) -> Markup:
    rest = "" if len(summary["points"]) <= MOST_ROWS else f" Here are the first {MOST_ROWS}; the files have all."
    return element(
        "p",
        "Times are in time units, the rest counts per job; intervals (±) are 95%. Below a simulated value stands "
        f"what a model predicts.{rest}",
        class_="reading",
    )


def _table(summary: Mapping[str, Any], names: Sequence[str]) -> Markup:
    keys = list(summary["over"])
    head = element(
        "tr",
        [element("th", key, scope="col") for key in [*keys, "policy"]],
        [element("th", link(name, axis(name) if name == "messages.total" else None), scope="col") for name in names],
    )
    rows = [_row(row, keys, names) for row in summary["points"][:MOST_ROWS]]
    return scrolling(element("table", element("thead", head), element("tbody", rows)), "Points")


def _row(row: Row, keys: Sequence[str], names: Sequence[str]) -> Markup:
    first, *others = [str(row["point"][key]) for key in keys]
    return element(
        "tr",
        element("th", first, scope="row"),
        [element("td", text) for text in [*others, row["policy"]]],
        [element("td", _cell(row, name)) for name in names],
    )


def _cell(row: Row, name: str) -> Markup:
    quantity = row["quantities"].get(name, {})
    if name not in row["values"]:
        return element("span", "no steady state" if quantity else "", class_="by")
    dot = measured(quantity, "simulated")
    lines = [join([dot.text])] if dot else []
    lines += [
        join(
            [element("span", number(value), class_="model"), " ", element("span", kind(quantity, method), class_="by")]
        )
        for method, value in predicted(quantity).items()
    ]
    return join(lines, "<br>")
