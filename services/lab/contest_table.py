"""A comparison of policies as a person reads it: one row a policy, then sentences."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from services.lab.contest import Contest, column_of
from services.lab.rivals import Outcome
from services.lab.terminal import faults_line, heading, places, plain_table

HEADINGS = {
    "sojourn_mean": "mean sojourn",
    "sojourn_p95": "p95",
    "sojourn_p99": "p99",
    "waiting_mean": "mean wait",
    "wait_probability": "P(wait)",
    "block_probability": "P(block)",
    "abandon_probability": "P(abandon)",
    "failed_probability": "P(fail)",
    "messages.total": "messages/job",
}

_WITH_INTERVAL = ("sojourn_mean", "block_probability", "abandon_probability", "failed_probability")
"""The others have theirs in the summary: a row has to fit on a screen."""


def print_contest(contest: Contest, console: Console) -> None:
    """Print everything that a person wants to know of a comparison."""
    how = "live, one after another" if contest.column == "live" else "simulated"
    console.print(heading(contest.scenario), highlight=False)
    console.print(f"{len(contest.outcomes)} policies, the same jobs for each, {how}", highlight=False)
    for line in faults_line(contest.scenario):
        console.print(line, highlight=False)
    names = [name for name in HEADINGS if name in contest.compared and name != "waiting_mean"]
    table = plain_table("policy", *(HEADINGS[name] for name in names))
    for outcome in contest.outcomes:
        table.add_row(escape(outcome.rival.label), *_cells(outcome, names))
    console.print(table)
    console.print()
    for sentence in contest.statements():
        console.print(escape(sentence), highlight=False)
    for violation in contest.violated:
        console.print(f"[bold red]VIOLATED[/bold red]: {escape(violation)}", highlight=False)
    for reason in contest.invalid:
        console.print(f"[bold red]INVALID[/bold red]: {escape(reason)}", highlight=False)
    for line in places(contest.details):
        console.print(line, highlight=False)


def _cells(outcome: Outcome, names: list[str]) -> list[str]:
    if not outcome.has_mean:
        return ["[yellow]unstable[/yellow]", *[""] * (len(names) - 1)]
    cells = []
    for name in names:
        column = column_of(outcome.runs, name)
        value, (low, high) = column["value"], column["ci95"]
        half = f" ±{(high - low) / 2.0:.3f}" if name in _WITH_INTERVAL and low is not None else ""
        cells.append("" if value is None else f"{value:.3f}{half}")
    return cells
