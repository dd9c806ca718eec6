"""What happened to one job, in order of time, as generator, routers and servers have it on record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from router.protocol.eventlog import AT_ONCE, UNHEARD, Kind
from router.protocol.messages import OUTCOMES
from services.audit.ledger import VIRTUAL, Ledger
from services.audit.log import Log

VIRTUAL_TIME = "virtual time"
ORDER = ("sent", "arrived", "retried", "dispatched", "received", "started", "left_server", "orphaned", "ended", "end")
"""The way there and back, for what is simultaneous: in a simulation without delay everything is."""


class Event(NamedTuple):
    """One thing that happened to a job.

    Attributes:
        at_s: When, on the host's clock. `process`: to whom.
        what: In words. `event`: in one word.
        server: The server that it is about; empty: none.
    """

    at_s: float
    process: str
    event: str
    what: str
    server: str = ""


@dataclass(frozen=True)
class Story:
    """A job's story.

    Attributes:
        job: Its number.
        intended_s: When it was to be sent, or had arrived, on the host's clock: what times are told from.
        time_unit_s: Seconds in a time unit. `clock`: whose clock the instants are of.
        events: In order.
        missing: What is not known, and why.
        origin: What times are told from, in words.
    """

    job: int
    intended_s: float
    time_unit_s: float
    clock: str
    events: Sequence[Event]
    missing: Sequence[str]
    origin: str = "at which it was to be sent"

    def json(self) -> dict[str, Any]:
        """As JSON has it; `at_ms` and `at_units` are told from the intended instant."""
        events = [
            {"at_ms": _rounded(1e3 * (event.at_s - self.intended_s)),
             "at_units": _rounded((event.at_s - self.intended_s) / self.time_unit_s),
             "process": event.process, "event": event.event, "server": event.server, "what": event.what}
            for event in self.events
        ]  # fmt: skip
        return {"job": self.job, "clock": self.clock, "time_unit_s": self.time_unit_s, "events": events,
                "missing": list(self.missing)}  # fmt: skip

    def lines(self) -> list[str]:
        """What a person reads."""
        wide = max((len(event.process) for event in self.events), default=0)
        unit = "thousandths of a time unit" if self.clock == VIRTUAL_TIME else "ms"
        return [
            f"job {self.job}: times in {unit} from the instant {self.origin}; {self.clock}",
            *(
                f"{1e3 * (event.at_s - self.intended_s):>12.3f}  {event.process:<{wide}}  {event.what}"
                for event in self.events
            ),
            *(f"  {text}" for text in self.missing),
        ]

    def __str__(self) -> str:
        return "\n  ".join(self.lines())


def tell(ledger: Ledger, logs: Sequence[Log], job: int) -> Story:
    """Tell the story of a job.

    Args:
        ledger: The generator's.
        logs: All there are.
        job: Its number, from 0.
    """
    events: list[Event] = []
    if math.isfinite(ledger.sent[job]):
        events.append(
            Event(float(ledger.sent[job]), "generator", "sent", f"sent to {ledger.routers[ledger.router[job]]}")
        )
    for log in logs:
        if log.about.role == "router":
            dispatches = _at_router(log, job, events)
            for other in logs:
                if dispatches and other.about.role == "server":
                    events += _at_servers(other, log, dispatches)
    if ledger.outcome[job] >= 0:
        events.append(Event(float(ledger.ended[job]), "generator", "end", f"its end: {_end_of(ledger, job)}"))
    events.sort(key=lambda event: (event.at_s, ORDER.index(event.event)))
    missing = list(_missing(ledger, logs, job, events))
    boots = {log.about.boot for log in logs} | {ledger.boot}
    origin = "at which it was to be sent" if ledger.kept and boots != {VIRTUAL} else "of its arrival"
    return Story(job, float(ledger.intended[job]), ledger.time_unit_s, _clock(boots), events, missing, origin)


def _clock(boots: set[str]) -> str:
    if boots == {VIRTUAL}:
        return VIRTUAL_TIME
    return "one clock, the monotonic one of the host" if len(boots) == 1 else "several clocks, which do not compare"


def _at_router(log: Log, tag: int, events: list[Event]) -> list[int]:
    """Add what a router's log has of the job; return the numbers of its dispatches."""
    records = log.records
    kind = records["code"] & 255
    own = records["job"][(kind == Kind.ARRIVED) & (records["tag"] == tag)]
    mine = np.isin(records["job"], own)
    dispatches = np.unique(records["dispatch"][mine & (records["dispatch"] >= 0)]).tolist()
    mine |= (kind == Kind.ORPHANED) & np.isin(records["dispatch"], dispatches)
    events += [_router_event(log, record) for record in records[mine]]
    return [int(number) for number in dispatches]


def _router_event(log: Log, record: Any) -> Event:
    kind, outcome, _, attempt = _code(record)
    server, word = log.text(int(record["server"])), log.text(int(record["word"]))
    dispatch = f"dispatch {record['dispatch']}"
    by = f", by its pull-message {record['number']}" if record["number"] >= 0 else ""
    end = OUTCOMES[outcome] + (f": {word}" if word else "")
    words = {
        Kind.ARRIVED: f"arrived as its job {record['job']}"
        + (f" and goes to {server} ({dispatch}{by})" if record["dispatch"] >= 0 else ""),
        Kind.DISPATCHED: f"goes to {server} ({dispatch}{by}{f', attempt {attempt + 1}' if attempt else ''})",
        Kind.ENDED: f"has ended: {end}" + (f" ({dispatch})" if record["dispatch"] >= 0 else ""),
        Kind.RETRIED: f"{dispatch} to {server} has ended, {end}, and the job goes on",
        Kind.ORPHANED: f"an end of {dispatch} from {server}, {end}, which had ended already: ignored",
    }
    return Event(float(record["at"]), log.about.id, Kind(kind).name.lower(), words[Kind(kind)], server)


def _at_servers(log: Log, router: Log, dispatches: list[int]) -> Iterator[Event]:
    records = log.records
    ours = np.isin(records["dispatch"], dispatches) & (records["job"] == router.about.epoch)
    for record in records[ours]:
        if log.text(int(record["router"])) == router.about.id:
            yield _server_event(log, record)


def _server_event(log: Log, record: Any) -> Event:
    kind, outcome, marks, _ = _code(record)
    server, word = log.text(int(record["server"])), log.text(int(record["word"]))
    end = OUTCOMES[outcome] + (f": {word}" if word else "")
    words = {
        Kind.RECEIVED: f"{server} has received dispatch {record['dispatch']}"
        + (" and serves it at once" if marks & AT_ONCE else ""),
        Kind.STARTED: f"{server} begins to serve it",
        Kind.LEFT_SERVER: f"{server} has ended it: {end}" + (", and nobody hears it" if marks & UNHEARD else ""),
    }
    return Event(float(record["at"]), log.about.id, Kind(kind).name.lower(), words[Kind(kind)], server)


def _code(record: Any) -> tuple[int, int, int, int]:
    code = int(record["code"])
    return code & 255, code >> 8 & 255, code >> 16 & 255, code >> 24


def _end_of(ledger: Ledger, job: int) -> str:
    reason = ledger.reasons[ledger.reason[job]]
    place = int(ledger.server[job])
    at = f" at {ledger.servers[place]}" if place >= 0 else ""
    return f"{OUTCOMES[int(ledger.outcome[job])]}{f': {reason}' if reason else ''}{at}"


def _missing(ledger: Ledger, logs: Sequence[Log], job: int, events: Sequence[Event]) -> Iterator[str]:
    if not ledger.kept:
        yield "the generator has left nothing: when it was sent and what came back is not known"
    elif not math.isfinite(ledger.sent[job]):
        yield "it was never sent"
        return
    names = {event.process for event in events}
    router = ledger.routers[ledger.router[job]]
    if not ledger.tagged and ledger.kept:
        yield "it came by HTTP, without a number: its router cannot tell it from others"
    elif router not in names:
        there = any(log.about.id == router for log in logs)
        yield f"{router} has {'nothing on record of it' if there else 'left no event log'}"
    if ledger.outcome[job] < 0 and ledger.kept:
        yield "the generator never heard of its end"
    heard_of = {name for log in logs if log.about.role == "server" for name in log.names}
    for server in dict.fromkeys(event.server for event in events if event.server not in heard_of and event.server):
        yield f"the process of {server} has left no event log"
    words = [event.event for event in events]
    if {"arrived", "ended"}.issubset(words) and words.count("received") == words.count("left_server"):
        return
    for log in logs:
        if log.overwritten:
            yield f"{log.about.id}: the oldest {log.overwritten} records are overwritten"
        if not log.closed_at:
            yield f"{log.about.id} did not end in order, its log ends with it"


def _rounded(value: float) -> float:
    return round(value, 6)
