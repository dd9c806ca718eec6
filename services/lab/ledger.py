"""The generator's ledger in a run's folder: one row a job in `jobs.csv`, and whose clock it is of in `ledger.json`."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from router.process.identity import make_identity
from router.protocol.errors import SettingsError
from router.protocol.messages import OUTCOMES
from services.audit.ledger import Ledger
from services.loadgen.client.result import Generation

NO_END = "no_end"
"""In the place of a reason: the job was sent, and nobody said what became of it."""
FILE = "ledger.json"


def reasons_of(generation: Generation) -> Iterator[str]:
    """Why each job failed, as `jobs.csv` says it."""
    for why, outcome in zip(generation.why.tolist(), generation.records.outcome.tolist(), strict=True):
        yield generation.whys[why] if outcome >= 0 else NO_END


def write_ledger(folder: Path, generation: Generation, routers: list[str], time_unit_s: float, tagged: bool) -> None:
    """Write what `jobs.csv` does not tell.

    Args:
        folder: The run's.
        generation: What the generator says.
        routers: Their names, in the order of the workload.
        time_unit_s: Seconds in a time unit.
        tagged: Whether routers were told the numbers of the jobs.
    """
    table = {
        "start_s": generation.start_s, "time_unit_s": time_unit_s, "boot": make_identity("lab").boot,
        "routers": routers, "tagged": tagged, "doubled": generation.doubled, "twice": generation.twice,
    }  # fmt: skip
    (folder / FILE).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def read_ledger(folder: Path) -> Ledger:
    """Read the ledger of a run.

    Raises:
        SettingsError: The folder holds no live run, or one that cannot be read.
    """
    try:
        table = json.loads((folder / FILE).read_text(encoding="utf-8"))
        with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
            return _ledger(table, list(csv.DictReader(file)))
    except OSError as error:
        where = f"{folder}: no folder of a live run: {Path(error.filename or '').name}: {error.strerror}"
        raise SettingsError(f"{where}: expected one that `herdless run` has left") from None
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{folder}: {FILE} or jobs.csv cannot be read: {error!r}") from None


def _ledger(table: Mapping[str, Any], rows: list[dict[str, str]]) -> Ledger:
    servers: dict[str, int] = {}
    reasons: dict[str, int] = {"": 0, NO_END: 1}
    routers = {name: place for place, name in enumerate(table["routers"])}
    start_s, unit_s = float(table["start_s"]), float(table["time_unit_s"])

    def instants(column: str) -> Any:
        return start_s + unit_s * np.array([float(row[column]) if row[column] else math.nan for row in rows])

    def places(column: str, known: dict[str, int]) -> Any:
        return np.array([known.setdefault(row[column], len(known)) for row in rows], np.int64)

    reason = places("reason", reasons)
    outcome = np.array([OUTCOMES.index(row["outcome"]) for row in rows], np.int64)
    sent = instants("sent_units")
    server = np.array([servers.setdefault(name, len(servers)) if (name := row["server"]) else -1 for row in rows])
    return Ledger(
        intended=instants("intended_units"),
        sent=sent,
        ended=instants("ended_units"),
        router=np.array([routers[row["router"]] for row in rows], np.int64),
        server=server.astype(np.int64),
        outcome=np.where(reason == reasons[NO_END], -1, outcome),
        reason=np.where(reason == reasons[NO_END], 0, reason),
        routers=list(routers),
        servers=list(servers),
        reasons=list(reasons),
        doubled=[*table["twice"], *[-1] * (int(table["doubled"]) - len(table["twice"]))],
        tagged=bool(table["tagged"]),
        time_unit_s=unit_s,
        boot=str(table["boot"]),
    )
