"""The options that commands share, and what happens around every command.

Modules that take long to import (scipy, numpy, aiohttp) are imported in the commands that need them, so that
`--help` and the start of a process stay quick.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from services.lab.live import Progress
    from services.lab.report import Report

EXIT_USER_MISTAKE, EXIT_RUN_INVALID, EXIT_UNCHECKED, EXIT_INTERRUPTED = 2, 3, 4, 130

ScenarioName = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one.", show_default=False)
]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario: policy.d=3, pools.0.servers=10, …",
                 show_default=False),
]  # fmt: skip
ScenarioSets = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", envvar="HERDLESS_SET", show_default=False,
                 help="Change the scenario: policy.d=3, pools.0.servers=10, …"),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]
Alarms = Annotated[float, typer.Option("--false-alarms", help="The rate of false alarms of all tests together.")]
RouterList = Annotated[
    str,
    typer.Option("--routers", metavar="LIST", help="URLs, host:port or names, with commas between.",
                 show_default=False),
]  # fmt: skip


def say(value: Any) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(value, allow_nan=False, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say_report(report: Report, as_json: bool) -> int:
    """Print a report, as JSON or as a table; return the exit code."""
    if as_json:
        say(report.json())
    else:
        from rich.console import Console

        from services.lab.table import print_report

        print_report(report, Console(width=None if sys.stdout.isatty() else 100))
    return report.exit_code


def check_alarms(alarms: float) -> None:
    """Raise `SettingsError` unless this is a rate."""
    from router.protocol.errors import SettingsError

    if not 0.0 < alarms < 1.0:
        raise SettingsError(f"--false-alarms {alarms:g}: expected a number between 0 and 1, for instance 1e-3")


_STAGES = {
    "start": "starting processes",
    "live": "live",
    "replay": "simulating the same jobs",
    "models": "simulating without delay",
    "simulate": "simulating",
    "sweep": "points of the grid",
    "write": "writing the run folder",
}


@contextmanager
def progress_bar(as_json: bool) -> Iterator[Progress]:
    """A bar on standard error while it works; nothing where nobody looks on."""
    if as_json or not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description:<26}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    # A share that is done may come minutes after the one before: the speed is that of the last hour.
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600) as bar:
        tasks: dict[str, Any] = {}

        def show(stage: str, share: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(_STAGES.get(stage, stage), total=1.0)
            bar.update(tasks[stage], completed=share)

        yield show
