"""The table that a person reads: rows that mean something, then the checks, then the verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.audit.lines import audit_lines
from services.lab.compare import TAIL_SHARE, Row
from services.lab.report import Report
from services.lab.simulate import place
from services.lab.terminal import faults_line, heading, places, plain_table
from services.measure.quantities import Quantity
from services.measure.validity import CPU_LIMIT, DELAY_LIMIT_UNITS, LATENESS_LIMIT_UNITS
from services.measure.verdict import Word, interval95
from services.report.sentences import MEANINGS
from services.report.values import at, decimals, number
from services.scenario_text import policy_words

TAIL_ROWS = 5

_SAYS_IT_AGAIN = ("job_share.", "queue_length_mean.")
"""Of a pool that is the only one."""

WORDS: dict[Word, str] = {
    "agree": "agree",
    "differ": "DIFFER",
    "not_enough_data": "too little",
    "limit": "limit",
    "not_compared": "",
}
_STYLES = {"agree": "green", "DIFFER": "bold red", "too little": "yellow", "limit": "cyan"}

Cells = tuple[str, str, str, str, str]


def print_report(report: Report, console: Console) -> None:
    """Print everything that a person wants to know of a run."""
    scenario = report.scenario
    console.print(heading(scenario), highlight=False)
    console.print(escape(f"policy {policy_words(scenario.policy)}; {_size(report)}"), highlight=False)
    for line in report.trace:
        console.print(escape(line), highlight=False, soft_wrap=True)
    console.print(_table(report))
    for line in _lines(report):
        console.print(line, highlight=False, soft_wrap=True)


def _size(report: Report) -> str:
    scenario = report.scenario
    pools = " + ".join(f"{pool.servers} {pool.name}" for pool in scenario.pools)
    routers = "1 router" if scenario.routers.count == 1 else f"{scenario.routers.count} routers"
    return f"{routers}; servers: {pools}; a time unit is {scenario.time_unit_s:g} s"


# -- the table ---------------------------------------------------------------------------------------


def _table(report: Report) -> Table:
    live = report.column == "live"
    simulated = report.column != "models"
    titles = ["quantity", *(["live"] if live else []), *(["simulated"] if simulated else []), "model", "verdict"]
    table = plain_table(*titles)
    for title in ("live", "simulated", "model"):
        if title in titles:
            table.columns[titles.index(title)].justify = "left"
            table.columns[titles.index(title)].no_wrap = True
    alone = len(report.scenario.pools) == 1
    for name, row in report.table.rows.items():
        if alone and name.startswith(_SAYS_IT_AGAIN):
            continue
        for quantity, of_live, of_simulation, model, word in _cells(name, row, live):
            style = _STYLES.get(word, "")
            shown = f"[{style}]{word}[/{style}]" if style else word
            columns = [escape(quantity), *([of_live] if live else []), *([of_simulation] if simulated else []), model]
            table.add_row(*columns, shown if simulated else "")
    if not simulated:
        table.columns.pop()
    return table


def _cells(name: str, row: Row, live: bool) -> Iterator[Cells]:
    """The rows of one quantity: one, or one for each place of a list; none if there is nothing to see."""
    shown = row.live if row.live is not None else row.simulated
    is_list = shown.value.ndim > 0 if shown is not None else isinstance(next(iter(row.models.values())).value, list)
    if not is_list:
        if _is_nothing(name, row):
            return
        yield (
            name, _number(row.live), _number(row.simulated), _model(row, None),
            WORDS[row.word],
        )  # fmt: skip
        return
    if name != "queue_tail":
        return  # the lists of the pools are in the summary
    for k in range(1, TAIL_ROWS + 1):
        at_k = [quantity and place(quantity, k) for quantity in (row.live, row.simulated)]
        values = [float(quantity.value) for quantity in at_k if quantity is not None] + [
            value for model in row.models.values() if (value := at(model.value, k)) is not None
        ]
        if max(values, default=0.0) <= TAIL_SHARE:
            return
        yield f"{name}[{k}]", _number(at_k[0]), _number(at_k[1]), _model(row, k), WORDS[row.word] if k == 1 else ""


def _is_nothing(name: str, row: Row) -> bool:
    """Nothing to see: 0 or unknown everywhere, or a detail that no model speaks of."""
    if name == "perpendicular_second_moment" and not row.models:
        return True
    values = [float(quantity.value) for quantity in (row.live, row.simulated) if quantity is not None]
    values += [value for prediction in row.models.values() if (value := at(prediction.value, None)) is not None]
    return all(not np.isfinite(value) or value == 0.0 for value in values)


def _number(quantity: Quantity | None) -> str:
    if quantity is None or not np.isfinite(quantity.value):
        return ""
    value = float(quantity.value)
    low, high = interval95(quantity)
    half = (float(high) - float(low)) / 2.0
    return number(value) + (f" ±{half:.{decimals(value)}f}" if np.isfinite(half) else "")


def _model(row: Row, k: int | None) -> str:
    """The first model that speaks of it; a limit, however it was found, is called one."""
    for method, prediction in row.models.items():
        value = at(prediction.value, k)
        if value is not None:
            kind = method if prediction.exact else "mean f." if method == "meanfield" else "limit"
            return f"{number(value)} {kind}"
    return ""


# -- below the table -----------------------------------------------------------------------------------


def _lines(report: Report) -> Iterator[str]:
    yield ""
    for check in report.checks:
        sign = "=" if check.found == check.expected else "≈" if check.holds else "≠"
        off = "" if check.holds else "  [bold red]VIOLATED[/bold red]"
        within = f" (± {check.tolerance:.0f})" if check.tolerance and check.found != check.expected else ""
        yield escape(f"{check.text}: {check.found:.0f} {sign} {check.expected:.0f}{within}") + off
    yield from faults_line(report.scenario)
    yield from _steadiness(report)
    yield from (escape(line) for line in _machine(report.details))
    for hint in report.hints:
        yield f"[yellow]{escape(hint)}[/yellow]"
    for reason in report.invalid:
        yield f"[bold red]INVALID[/bold red]: {escape(reason)}"
    if report.column != "models":
        yield f"[bold]verdict: {escape(_verdict(report))}[/bold]"
    yield from places(report.details)


def _steadiness(report: Report) -> Iterator[str]:
    found = report.stationarity
    if report.column == "models":
        return
    if found.state == "steady":
        half = f"{found.growth:.3f}-fold, {found.difference:+.3g} with a noise of {found.noise:.3g}"
        yield f"the halves of the window agree: jobs in the system {half}"
    elif found.state == "not_tested":
        yield escape(found.why)


def _machine(details: Mapping[str, Any]) -> Iterator[str]:
    if "lateness_p99_units" in details:
        yield f"generator lateness p99: {details['lateness_p99_units']:.4f} time units (allowed {LATENESS_LIMIT_UNITS})"
    if "delay_p99_units" in details:
        yield f"delay of messages p99: {details['delay_p99_units']:.4f} time units (allowed {DELAY_LIMIT_UNITS})"
    if lag_s := details.get("timer_lag_s"):
        p50, p99 = ("unknown" if value is None else f"{value * 1e3:.2g} ms" for value in lag_s)
        yield f"timer lag of the servers: p50 below {p50}, p99 below {p99}"
    if cpu := details.get("cpu"):
        name = max(cpu, key=lambda process: cpu[process])
        yield f"busiest process: {name} with {cpu[name]:.0%} of a core (allowed {CPU_LIMIT:.0%})"
    if audit := details.get("audit"):
        yield from audit_lines(audit)
    if reasons := details.get("reasons"):
        yield "failed jobs: " + ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def _verdict(report: Report) -> str:
    text = f"{report.verdict.replace('_', ' ')}: {MEANINGS[report.verdict]}"
    if report.verdict == "agree":
        words = {found.word for row in report.table.rows.values() for found in row.comparisons.values()}
        text += ", and every identity holds" if report.checks else ""
        text += "; a limit is not met at this size: see the gap" if "limit" in words else ""
    if report.verdict == "differ":
        differing = [name for name, row in report.table.rows.items() if row.word == "differ"]
        differing += [check.name for check in report.checks if not check.holds]
        text += f": {', '.join(differing)}"
    return f"{text}; but the run is invalid" if report.invalid else text
