"""What the tables of all commands have in common on a terminal: heading, look, and where everything is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from services.scenario import Scenario


def heading(scenario: Scenario) -> str:
    """The line above everything."""
    return f"\n[bold]{escape(scenario.title or scenario.name)}[/bold]"


def plain_table(*titles: str) -> Table:
    """A table without lines; the first column may wrap."""
    table = Table(*titles, box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.columns[0].overflow = "fold"
    return table


def faults_line(scenario: Scenario) -> Iterator[str]:
    """What goes wrong when, if anything does."""
    if faults := scenario.timeline():
        yield escape("faults: " + "; ".join(f"{fault.words} at {fault.at:g}" for fault in faults))


def places(found: Mapping[str, Any]) -> Iterator[str]:
    """Where the folder and the page of a JSON object are, if it names them."""
    if folder := found.get("run_folder"):
        yield escape(f"everything is in {folder}")
    if page := found.get("report"):
        yield escape(f"the page to read is {page}")
