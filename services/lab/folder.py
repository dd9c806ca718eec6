"""The folder that a run leaves behind."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

from router.protocol.errors import SettingsError
from router.protocol.messages import OUTCOMES
from services.lab.errors import writing
from services.measure.records import Fleet, Records
from services.scenario import Scenario, scenario_toml

COLUMNS = (
    "job", "intended_units", "sent_units", "arrived_units", "ended_units", "waiting_units", "service_units", "size",
    "patience_units", "router", "server", "pool", "outcome", "fallback", "stale", "reason",
)  # fmt: skip


def make_folder(scenario: Scenario, out: Path | None = None, parts: Sequence[str] = ("logs", "metrics")) -> Path:
    """Make the run's folder, `runs/<UTC time>-<scenario>` unless another one is asked for, and folders in it.

    Raises:
        SettingsError: It cannot be made, or holds a run already.
    """
    folder = out or _free(Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{scenario.name}")
    if (folder / "summary.json").exists():
        raise SettingsError(f"--out {folder}: holds a run already: choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            (folder / part).mkdir(exist_ok=True)
        (folder / "scenario.toml").write_text(scenario_toml(scenario), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--out {folder}: cannot be written: {error.strerror}") from None
    return folder


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the JSON object of a command.

    Raises:
        RunInvalid: It cannot be written.
    """
    path = folder / "summary.json"
    with writing(path):
        path.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_metrics(folder: Path, expositions: Mapping[str, str]) -> list[str]:
    """Write what each process, by name, showed at the end; return the names of the files without their ending.

    Raises:
        RunInvalid: One of them cannot be written.
    """
    written = []
    for name, text in expositions.items():
        written.append("".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name))
        path = folder / "metrics" / f"{written[-1]}.txt"
        with writing(path):
            path.write_text(text, encoding="utf-8")
    return written


def write_jobs(folder: Path, records: Records, fleet: Fleet, reasons: Iterable[str] = repeat("")) -> None:
    """Write one row a job.

    Args:
        folder: The run's.
        records: Of the jobs.
        fleet: What their servers are called.
        reasons: Why each job failed; empty where it did not.

    Raises:
        RunInvalid: It cannot be written.
    """
    path = folder / "jobs.csv"
    with writing(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(_rows(records, fleet, reasons))


def _rows(records: Records, fleet: Fleet, reasons: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Times as text with six digits after the point; unknown ones empty."""
    times = (
        records.intended, records.sent, records.arrived, records.ended, records.waiting, records.service,
        records.size, records.patience,
    )  # fmt: skip
    pool_of = fleet.pool_of.tolist()
    columns = [
        records.router.tolist(), records.server.tolist(), records.outcome.tolist(), records.fallback.tolist(),
        records.stale.tolist(), *(column.tolist() for column in times),
    ]  # fmt: skip
    rows = zip(zip(*columns, strict=True), reasons, strict=False)
    for job, ((router, server, outcome, fallback, stale, *numbers), reason) in enumerate(rows):
        name, pool = (fleet.servers[server], fleet.pools[pool_of[server]]) if server >= 0 else ("", "")
        yield (
            job, *("" if math.isnan(number) else f"{number:.6f}" for number in numbers),
            fleet.routers[router], name, pool, OUTCOMES[outcome], int(fallback), int(stale), reason,
        )  # fmt: skip


def _free(folder: Path) -> Path:
    """The folder, or one beside it: two runs may begin in the same second."""
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free
