"""A sweep as a person reads it: one row for each point and policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.lab.contest_table import HEADINGS
from services.lab.terminal import heading, places, plain_table
from services.scenario import Scenario
from services.solver import METHODS

SHOWN = ("sojourn_mean", "sojourn_p99", "wait_probability", "block_probability", "abandon_probability",
         "messages.total")  # fmt: skip


def print_sweep(scenario: Scenario, summary: Mapping[str, Any], console: Console) -> None:
    """Print the values at all points, and why some have none."""
    points = summary["points"]
    console.print(heading(scenario), highlight=False)
    names = [name for name in SHOWN if any(_any(point["values"].get(name)) for point in points)]
    headings = [
        title
        for name in names
        for column, title in (("simulated", HEADINGS[name]), ("models", f"model {HEADINGS[name]}"))
        if column in summary["columns"]
    ]
    several = ["policy"] if len(summary["policies"]) > 1 else []
    table = plain_table(*summary["over"], *several, *headings, "")
    for column in table.columns[: len(summary["over"])]:
        column.min_width = len(str(column.header))
    for point in points:
        cells = [
            _cell(point["quantities"].get(name, {}), column, name == "sojourn_mean")
            for name in names
            for column in ("simulated", "models")
            if column in summary["columns"]
        ]
        found = point["stationarity"] or {"state": "steady"}
        remark = "" if found["state"] in ("steady", "not_tested") else found["state"].replace("_", " ")
        place = [str(value) for value in point["point"].values()] + [escape(point["policy"])] * len(several)
        remark = remark or ("no model" if point["refused"] else "")
        table.add_row(*place, *cells, f"[yellow]{remark}[/yellow]")
    _keep_values_whole(table)
    console.print(table)
    for reason in dict.fromkeys(point["refused"] for point in points if point["refused"]):
        console.print(f"[yellow]{escape(reason)}[/yellow]", highlight=False)
    for line in places(summary):
        console.print(line, highlight=False)


def _keep_values_whole(table: Table) -> None:
    """Where a terminal is narrow, headings wrap between words and values do not wrap."""
    for column in table.columns:
        widest = max((cell_len(str(cell)) for cell in column.cells if not str(cell).startswith("[")), default=0)
        column.min_width = max(column.min_width or 0, widest)


def _any(value: Any) -> bool:
    return value is not None and value != 0.0


def _cell(quantity: Mapping[str, Any], column: str, with_interval: bool) -> str:
    if column not in quantity:
        return ""
    if column == "models":
        value = next(quantity["models"][method]["value"] for method in METHODS if method in quantity["models"])
        return "" if value is None else f"{value:.4f}"
    value, (low, high) = quantity["simulated"]["value"], quantity["simulated"]["ci95"]
    if value is None:
        return ""
    return f"{value:.4f}" + ("" if low is None or not with_interval else f" ±{(high - low) / 2.0:.4f}")
