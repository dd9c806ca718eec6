"""The generator's ledger in a run's folder: one row a job in `jobs.csv`, and whose clock it is of in `ledger.json`."""

from __future__ import annotations

import csv
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from router.process.identity import make_identity
from router.protocol.errors import SettingsError
from router.protocol.messages import OUTCOMES
from services.audit.ledger import Ledger
from services.lab.errors import writing
from services.lab.folder import write_jobs
from services.lab.left import Left
from services.loadgen.client.result import Generation

NO_END = "no_end"
"""In the place of a reason: the job was sent, and nobody said what became of it."""
FILE = "ledger.json"
COLUMNS = ("intended_units", "sent_units", "ended_units", "router", "server", "outcome", "reason")


def reasons_of(generation: Generation) -> Iterator[str]:
    """Why each job failed, as `jobs.csv` says it."""
    for why, outcome in zip(generation.why.tolist(), generation.records.outcome.tolist(), strict=True):
        yield generation.whys[why] if outcome >= 0 else NO_END


def write_ledger(folder: Path, left: Left, metrics: Sequence[str], time_unit_s: float, tagged: bool) -> None:
    """Write down all that the generator knows, and what else there must be.

    Args:
        folder: The run's.
        left: What it has left.
        metrics: The names of the files of final metrics.
        time_unit_s: Seconds in a time unit.
        tagged: Whether routers were told the numbers of the jobs.

    Raises:
        RunInvalid: It cannot be written.
    """
    generation = left.generation
    write_jobs(folder, left.records, left.fleet, reasons_of(generation))
    table = {
        "start_s": generation.start_s, "time_unit_s": time_unit_s, "boot": make_identity("lab").boot,
        "routers": left.fleet.routers, "tagged": tagged, "doubled": generation.doubled, "twice": generation.twice,
        "processes": dict(left.processes), "metrics": list(metrics), "broken": left.broken,
    }  # fmt: skip
    with writing(folder / FILE):
        (folder / FILE).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def read_ledger(folder: Path) -> Ledger:
    """Read the ledger of a run.

    Raises:
        SettingsError: The folder holds no live run, or one that cannot be read.
    """
    try:
        table = json.loads((folder / FILE).read_text(encoding="utf-8"))
        with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
            return _ledger(table, csv.reader(file))
    except OSError as error:
        found = f"{Path(error.filename or '').name}: {error.strerror}"
        if not folder.is_dir():
            found = "it is a file" if folder.exists() else "there is nothing of that name"
        raise SettingsError(
            f"{folder}: no folder of a live run: {found}: expected one that `herdless run` has left, "
            "or that of one policy of a live `herdless compare`"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, csv.Error) as error:
        raise SettingsError(
            f"{folder}: {FILE} or jobs.csv cannot be read: {error!r}: take another copy of the run"
        ) from None


def _ledger(table: Mapping[str, Any], rows: Iterator[list[str]]) -> Ledger:
    """Row by row into arrays: a long run has millions."""
    header = next(rows, [])
    intended, sent, ended, router, server, outcome, reason = (header.index(name) for name in COLUMNS)
    routers, outcomes = _places(table["routers"]), _places(OUTCOMES)
    servers, reasons = {"": -1}, {"": 0, NO_END: 1}
    instants = [array("d") for _ in range(3)]
    places = [array("q") for _ in range(4)]
    for row in rows:
        for column, text in zip(instants, (row[intended], row[sent], row[ended]), strict=True):
            column.append(float(text) if text else math.nan)
        places[0].append(routers[row[router]])
        places[1].append(servers.setdefault(row[server], len(servers) - 1))
        places[2].append(outcomes[row[outcome]])
        places[3].append(reasons.setdefault(row[reason], len(reasons)))
    start_s, unit_s = float(table["start_s"]), float(table["time_unit_s"])
    intended_s, sent_s, ended_s = (start_s + unit_s * np.array(column) for column in instants)
    router_of, server_of, outcome_of, reason_of = (np.array(column, np.int64) for column in places)
    twice = [int(job) for job in table["twice"]]
    no_end = reason_of == reasons[NO_END]
    return Ledger(
        intended=intended_s,
        sent=sent_s,
        ended=ended_s,
        router=router_of,
        server=server_of,
        outcome=np.where(no_end, -1, outcome_of),
        reason=np.where(no_end, 0, reason_of),
        routers=list(routers),
        servers=list(servers)[1:],
        reasons=list(reasons),
        doubled=[*twice, *[-1] * (int(table["doubled"]) - len(twice))],
        tagged=bool(table["tagged"]),
        time_unit_s=unit_s,
        boot=str(table["boot"]),
        processes={str(name): int(times) for name, times in table["processes"].items()},
        metrics=[str(name) for name in table["metrics"]],
        broken=str(table["broken"]),
    )


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}
