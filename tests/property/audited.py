"""A run that adds up, and what may be spoilt in it: for tests of the audit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from router.protocol.eventlog import AT_ONCE, ENDS, Kind
from services.audit.ledger import Ledger
from services.audit.log import Log
from services.scenario import parse_scenario
from services.simulator.recording import Recording, ledger_of
from services.simulator.run import simulate

SCENARIO = """
name = "audited"
seed = 5
[policy]
name = "pull"
[routers]
count = 2
[[pools]]
name = "slow"
servers = 3
[[pools]]
name = "fast"
servers = 2
rate = 2.0
[arrivals]
load = 0.9
[run]
warmup = 0
duration = 30
"""

SYSTEMS = {
    "pull": (),
    "probes": ("policy.name=power_of_d",),
    "patience": ("patience.rate=0.5", "policy.name=jsq", "arrivals.load=1.5"),
    "finite": ("pools.0.capacity=2", "pools.1.capacity=1", "policy.name=random"),
}

LONG_S = 100.0
"""Longer than a run of `books` takes."""


@dataclass(frozen=True)
class Books:
    """The generator's ledger, and the logs: of routers first."""

    ledger: Ledger
    logs: tuple[Log, ...]

    def with_log(self, place: int, records: Any, **changes: Any) -> Books:
        """The same with other records in one log."""
        logs = list(self.logs)
        logs[place] = replace(logs[place], records=records, **changes)
        return Books(self.ledger, tuple(logs))

    def with_column(self, name: str, job: int, value: Any) -> Books:
        """The same with another entry in the ledger."""
        column = getattr(self.ledger, name).copy()
        column[job] = value
        return Books(replace(self.ledger, **{name: column}), self.logs)

    def place(self, log: int, name: str) -> int:
        """A name's place in a log."""
        return self.logs[log].names.index(name)


@cache
def books(system: str) -> Books:
    """A run of about 200 jobs, as everybody has it on record."""
    scenario = parse_scenario(SCENARIO, "audited", SYSTEMS[system])
    recording = Recording()
    run = simulate(scenario, wrap=recording.watch)
    return Books(ledger_of(run), tuple(recording.logs()))


def kinds(log: Log) -> Any:
    """The kind of each record."""
    return log.records["code"] & 255


def dispatch_of(found: Books, job: int) -> tuple[int, int]:
    """The place of the job's router among the logs, and the number of its dispatch; -1: it had none."""
    place = int(found.ledger.router[job])
    log = found.logs[place]
    own = log.records[(kinds(log) == Kind.ARRIVED) & (log.records["tag"] == job)]["job"][0]
    numbers = log.records["dispatch"][(log.records["job"] == own) & (log.records["dispatch"] >= 0)]
    return place, int(numbers[0]) if len(numbers) else -1


def rows_of(found: Books, job: int, kind: Kind) -> tuple[int, Any]:
    """The log that has records of this kind about the job, and their places; none: an empty list."""
    router, dispatch = dispatch_of(found, job)
    if kind < Kind.RECEIVED:
        log = found.logs[router]
        own = log.records[(kinds(log) == Kind.ARRIVED) & (log.records["tag"] == job)]["job"][0]
        return router, np.flatnonzero((kinds(log) == kind) & (log.records["job"] == own))
    for place, log in enumerate(found.logs):
        if log.about.role == "server":
            name = found.logs[router].about.id
            ours = [log.text(int(number)) == name for number in log.records["router"]]
            rows = np.flatnonzero((kinds(log) == kind) & (log.records["dispatch"] == dispatch) & ours)
            if len(rows) and dispatch >= 0:
                return place, rows
    return -1, np.array([], int)


def dropped(found: Books, place: int, rows: Any) -> Books:
    """Without these records."""
    return found.with_log(place, np.delete(found.logs[place].records, rows))


def doubled(found: Books, place: int, rows: Any) -> Books:
    """With these records once more, at the end."""
    records = found.logs[place].records
    return found.with_log(place, np.append(records, records[rows]))


def altered(found: Books, place: int, rows: Any, **values: Any) -> Books:
    """With other values in these records."""
    records = found.logs[place].records.copy()
    for name, value in values.items():
        records[name][rows] = value
    return found.with_log(place, records)


def killed_router(found: Books, place: int, at: int, unheard: int = 0) -> Books:
    """The same run, had this router been killed after so many of its records.

    What it had dispatched goes on at the servers, unheard; what it would have dispatched later was never sent, and
    its jobs without an end are lost to the generator, as are those that never reached it, and the last `unheard` that
    ended.
    """
    log = found.logs[place]
    kept = log.records[:at]
    spoilt = found.with_log(place, kept, closed_at=0.0)
    kind = kept["code"] & 255
    sent = kept["dispatch"][np.isin(kind, (Kind.ARRIVED, Kind.DISPATCHED)) & (kept["dispatch"] >= 0)]
    for other, servers in enumerate(found.logs):
        if servers.about.role == "server" and log.about.id in servers.names:
            mine = (servers.records["router"] == servers.names.index(log.about.id)) & (servers.records["dispatch"] >= 0)
            never = mine & ~np.isin(servers.records["dispatch"], sent)
            spoilt = spoilt.with_log(other, servers.records[~never])
    arrived = kept[kind == Kind.ARRIVED]
    ended = kept["job"][kind == Kind.ENDED]
    over = np.isin(arrived["job"], ended[: max(len(ended) - unheard, 0)])
    return _lost(spoilt, np.setdiff1d(np.flatnonzero(found.ledger.router == place), arrived["tag"][over]))


def killed_servers(found: Books, place: int, at: int) -> Books:
    """The same run, had this server process been killed after so many of its records.

    Its routers end what they had dispatched to it as lost. What they sent after that is taken to have been lost on
    the way, so the end of those dispatches is theirs too.
    """
    log = found.logs[place]
    kept = log.records[:at]
    spoilt = found.with_log(place, kept, closed_at=0.0)
    left = kept[(kept["code"] & 255) == Kind.LEFT_SERVER]
    lost: list[int] = []
    for other, router in enumerate(found.logs):
        if router.about.role != "router" or router.about.id not in log.names:
            continue
        done = left["dispatch"][left["router"] == log.names.index(router.about.id)]
        here = [number for number, name in enumerate(router.names) if name in log.names and name and number]
        ends = ((router.records["code"] & 255) == Kind.ENDED) & np.isin(router.records["server"], here)
        rows = np.flatnonzero(ends & ~np.isin(router.records["dispatch"], done))
        names = [*router.names, "link_lost"]
        records = router.records.copy()
        records["code"][rows] = int(Kind.ENDED) | ENDS["failed"] << 8
        records["word"][rows] = len(names) - 1
        spoilt = spoilt.with_log(other, records, names=names)
        arrived = records[(records["code"] & 255) == Kind.ARRIVED]
        lost += arrived["tag"][np.isin(arrived["job"], records["job"][rows])].tolist()
    return _failed(spoilt, np.array(lost, np.int64))


def _failed(found: Books, jobs: Any) -> Books:
    """The generator hears that they have failed for a lost link, and where."""
    ledger = found.ledger
    outcome, reason = ledger.outcome.copy(), ledger.reason.copy()
    outcome[jobs], reason[jobs] = ENDS["failed"], 1
    return Books(replace(ledger, outcome=outcome, reason=reason), found.logs)


def _lost(found: Books, jobs: Any) -> Books:
    """The generator gives them up: nobody has told it where they were."""
    failed = _failed(found, jobs)
    server = failed.ledger.server.copy()
    server[jobs] = -1
    return Books(replace(failed.ledger, server=server), failed.logs)


def starts_at_once(found: Books, job: int) -> bool:
    """Whether its receipt is its start, too."""
    place, rows = rows_of(found, job, Kind.RECEIVED)
    return place >= 0 and bool(found.logs[place].records["code"][rows[0]] >> 16 & AT_ONCE)
