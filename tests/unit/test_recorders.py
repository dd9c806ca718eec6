"""What recorders write down, event by event, where it is not plain."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from router.core import JobArrived, RouterCore, ServerJoined, ServerLeft
from router.policy import Job, Server
from router.protocol.eventlog import AT_ONCE, ENDS, NOTHING, UNHEARD, About, Kind
from router.protocol.messages import Dispatch, End
from router.protocol.needs import Needs
from router.protocol.timer import StartTimer
from router.recorder import recorded as recorded_router
from router.registry import make_policy
from server.core import Disturbed, RouterJoined, RouterLeft, ServerSpec
from server.recorder import RecordedCore
from services.audit.ledger import Ledger
from services.audit.story import tell
from services.simulator.recording import MemoryLog


class Notes(MemoryLog):
    """A log whose records are read as `(kind, server, dispatch)`, and more where it matters."""

    def __init__(self) -> None:
        super().__init__(About("process", "router", 0, ""))

    def read(self) -> list[tuple[Any, ...]]:
        """All records: kind, server, dispatch."""
        records = self.so_far().records
        return [
            (Kind(int(record["code"]) & 255), self.names[record["server"]], int(record["dispatch"]))
            for record in records
        ]  # fmt: skip

    def last(self) -> dict[str, Any]:
        """The last record."""
        record = self.so_far().records[-1]
        code = int(record["code"])
        return {
            "kind": Kind(code & 255), "outcome": code >> 8 & 255, "marks": code >> 16 & 255, "attempt": code >> 24,
            "word": self.names[record["word"]], "router": self.names[record["router"]],
            **{name: int(record[name]) for name in ("job", "tag", "dispatch", "number")}, "at": float(record["at"]),
        }  # fmt: skip


def router(notes: Notes, *servers: str, **settings: Any) -> Any:
    core = RouterCore("router-1", make_policy({"name": "round_robin"}, Random(1)), **settings)
    handle = recorded_router(core, notes, lambda job: 100 + job)
    for server in servers:
        handle(ServerJoined(Server(server, "a", 1.0, 1, float("inf"), 0)), 0.0)
    return handle


def end(server: str, dispatch: int, outcome: Any = "served", reason: str = "") -> End:
    return End(server, "router-1", dispatch, outcome, reason, 1.0, 0.0, 0.5, False, None, None)


def test_a_job_that_goes_nowhere_has_an_arrival_and_an_end() -> None:
    notes = Notes()
    handle = router(notes)
    handle(JobArrived(Job(1, 1.0, None)), 2.0)

    assert notes.read() == [(Kind.ARRIVED, "", NOTHING), (Kind.ENDED, "", NOTHING)]
    last = notes.last()
    assert (last["outcome"], last["word"], last["job"], last["at"]) == (ENDS["failed"], "no_server", 1, 2.0)


def test_a_lost_dispatch_ends_its_job_or_the_job_goes_on() -> None:
    notes = Notes()
    handle = router(notes, "a-1", "a-2", retries=1)
    handle(JobArrived(Job(1, 1.0, None)), 1.0)
    handle(ServerLeft("a-1"), 2.0)
    handle(ServerLeft("a-2"), 3.0)

    assert notes.read()[2:] == [
        (Kind.ARRIVED, "a-1", 1), (Kind.LEFT, "a-1", NOTHING), (Kind.RETRIED, "a-1", 1), (Kind.DISPATCHED, "a-2", 2),
        (Kind.LEFT, "a-2", NOTHING), (Kind.ENDED, "a-2", 2),
    ]  # fmt: skip
    last = notes.last()
    assert (last["word"], last["outcome"], last["job"]) == ("link_lost", ENDS["failed"], 1)


def test_an_end_that_comes_twice_is_an_orphan() -> None:
    notes = Notes()
    handle = router(notes, "a-1")
    handle(JobArrived(Job(1, 1.0, None)), 1.0)
    handle(end("a-1", 1), 2.0)
    handle(end("a-1", 1, "abandoned"), 3.0)

    assert notes.read()[1:] == [(Kind.ARRIVED, "a-1", 1), (Kind.ENDED, "a-1", 1), (Kind.ORPHANED, "a-1", 1)]
    assert notes.last()["outcome"] == ENDS["abandoned"]


def test_a_job_that_its_server_turned_away_goes_on() -> None:
    notes = Notes()
    handle = router(notes, "a-1", "a-2", retries=1)
    handle(JobArrived(Job(1, 1.0, None)), 1.0)
    handle(end("a-1", 1, "failed", "draining"), 2.0)

    assert notes.read()[2:] == [(Kind.ARRIVED, "a-1", 1), (Kind.RETRIED, "a-1", 1), (Kind.DISPATCHED, "a-2", 2)]
    assert (notes.last()["attempt"], notes.last()["job"]) == (1, 1)


def server(notes: Notes, **spec: Any) -> RecordedCore:
    core = RecordedCore(ServerSpec("a-1", "a", **spec), Random(1), log=notes)
    core.handle(RouterJoined("router-1", Needs(), 77), 0.0)
    return core


def dispatch(number: int, router: str = "router-1") -> Dispatch:
    return Dispatch("a-1", router, number, 1.0, None, None, None, 0)


def take(core: RecordedCore, number: int, at: float) -> Any:
    """Hand over a dispatch; the timers that are started."""
    return [effect.event for effect in core.handle(dispatch(number), at) if isinstance(effect, StartTimer)]


def test_a_job_starts_at_once_or_when_its_turn_comes() -> None:
    notes = Notes()
    core = server(notes)
    [first] = take(core, 1, 1.0)
    assert notes.last()["marks"] == AT_ONCE and notes.last()["job"] == 77
    assert take(core, 2, 1.5) == [] and notes.last()["marks"] == 0
    core.handle(first, 2.0)

    assert notes.read()[1:] == [
        (Kind.RECEIVED, "a-1", 1), (Kind.RECEIVED, "a-1", 2), (Kind.LEFT_SERVER, "a-1", 1), (Kind.STARTED, "a-1", 2),
    ]  # fmt: skip


def test_a_blocked_job_is_received_and_leaves() -> None:
    notes = Notes()
    core = server(notes, capacity=1)
    take(core, 1, 1.0)
    take(core, 2, 1.5)

    assert notes.read()[2:] == [(Kind.RECEIVED, "a-1", 2), (Kind.LEFT_SERVER, "a-1", 2)]
    assert notes.last()["outcome"] == ENDS["blocked"]


def test_an_end_that_nobody_hears_is_on_record_and_so_is_the_next_start() -> None:
    notes = Notes()
    core = server(notes)
    core.handle(RouterJoined("router-2", Needs(), 78), 0.0)
    [first] = take(core, 1, 1.0)
    core.handle(dispatch(5, "router-2"), 1.2)
    core.handle(RouterLeft("router-1"), 1.5)
    core.handle(first, 2.0)

    assert notes.read()[-3:] == [
        (Kind.UNLINKED, "a-1", NOTHING), (Kind.LEFT_SERVER, "a-1", 1), (Kind.STARTED, "a-1", 5),
    ]  # fmt: skip
    marks = notes.so_far().records["code"][-2] >> 16 & 255
    assert marks == UNHEARD and (notes.last()["router"], notes.last()["job"]) == ("router-2", 78)


def test_services_that_a_hang_held_up_are_on_record_when_it_is_over() -> None:
    notes = Notes()
    core = server(notes)
    [first] = take(core, 1, 1.0)
    take(core, 2, 1.2)
    core.handle(Disturbed(hung=True), 1.5)
    core.handle(first, 2.0)
    assert notes.read()[-1] == (Kind.RECEIVED, "a-1", 2)
    core.handle(Disturbed(), 4.0)

    assert notes.read()[-2:] == [(Kind.LEFT_SERVER, "a-1", 1), (Kind.STARTED, "a-1", 2)]


def test_the_story_of_a_job_that_was_dispatched_anew() -> None:
    notes = Notes()
    handle = router(notes, "a-1", "a-2", retries=1)
    handle(JobArrived(Job(1, 1.0, None)), 1.0)
    handle(ServerLeft("a-1"), 2.0)
    handle(end("a-2", 2), 3.0)
    intended, sent, ended = (np.array([0.0, value]) for value in (0.5, 0.6, 3.1))  # the job 0 does not matter
    first = np.array([0, 0])
    ledger = Ledger(
        intended, sent, ended, first, first, first, first, ["process"], ["a-2"], [""], [], True, 1.0
    )  # fmt: skip
    log = notes.so_far()
    log.records["tag"][log.records["tag"] == 101] = 1

    assert [(event.event, event.server) for event in tell(ledger, [log], 1).events] == [
        ("sent", ""), ("arrived", "a-1"), ("retried", "a-1"), ("dispatched", "a-2"), ("ended", "a-2"), ("end", ""),
    ]  # fmt: skip
