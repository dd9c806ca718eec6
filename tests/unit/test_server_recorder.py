"""What a server writes into its event log, beside what it does."""

from __future__ import annotations

from random import Random
from typing import Any

from router.protocol.due import DueHeap
from router.protocol.eventlog import ENDS, Kind
from router.protocol.messages import Dispatch
from router.protocol.timer import StartTimer
from server.core import Disturbed, RouterJoined, RouterLeft, ServerSpec
from server.recorder import RecordedCore
from tests.unit.server_story import NOTHING


class Pages:
    """A log that is read as soon as it is written: (kind, outcome, job) of each record about a job."""

    def __init__(self) -> None:
        self.names = [""]
        self.records: list[tuple[str, str, int]] = []

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text)

    def append(self, what: int, server: int, router: int, word: int, at: float, *rest: Any) -> None:
        outcomes = {place: outcome for outcome, place in ENDS.items()}
        job = rest[2]
        if job >= 0:
            kind = Kind(what & 255)
            outcome = outcomes[what >> 8 & 255] if kind is Kind.LEFT_SERVER else ""
            self.records.append((kind.name, outcome, job))


def story(*happens: tuple[float, Any]) -> list[tuple[str, str, int]]:
    """What is written when these events come to a server, and then time passes."""
    pages = Pages()
    core = RecordedCore(ServerSpec("slow-1", "slow"), Random(1), log=pages)
    due: DueHeap[Any] = DueHeap()

    def handle(event: Any, at: float) -> None:
        for effect in core.handle(event, at):
            if isinstance(effect, StartTimer):
                due.push(effect.at, effect.event)

    for at, event in [(0.0, RouterJoined("router-1", NOTHING)), *happens, (99.0, None)]:
        for when, timer in due.pop_due(at):
            handle(timer, when)
        if event is not None:
            handle(event, at)
    return pages.records


def job(number: int) -> Dispatch:
    return Dispatch("slow-1", "router-1", number, 1.0, None, None, None, 0)


SERVED_AFTER_ANOTHER = [
    ("RECEIVED", "", 1), ("RECEIVED", "", 2), ("LEFT_SERVER", "served", 1), ("STARTED", "", 2),
    ("LEFT_SERVER", "served", 2),
]  # fmt: skip


def test_a_job_that_waited_is_received_started_and_ended() -> None:
    assert story((0.0, job(1)), (0.5, job(2))) == SERVED_AFTER_ANOTHER


def test_so_it_is_when_nobody_hears_of_the_end_before_it() -> None:
    # The link is lost while job 1 is served: its end is told nobody, so the start of job 2 is all that is to be done.
    assert story((0.0, job(1)), (0.5, job(2)), (0.7, RouterLeft("router-1"))) == SERVED_AFTER_ANOTHER


def test_so_it_is_when_a_server_hangs_no_more() -> None:
    hung, well = Disturbed(hung=True), Disturbed()
    assert story((0.0, job(1)), (0.5, job(2)), (0.7, hung), (5.0, well)) == SERVED_AFTER_ANOTHER


def test_so_it_is_when_a_server_hangs_no_more_and_nobody_hears_of_it() -> None:
    hung, well, lost = Disturbed(hung=True), Disturbed(), RouterLeft("router-1")
    assert story((0.0, job(1)), (0.5, job(2)), (0.7, hung), (2.0, lost), (5.0, well)) == SERVED_AFTER_ANOTHER


def test_a_job_that_fails_at_once_has_one_end() -> None:
    assert story((0.0, Disturbed(failing=True)), (0.0, job(1))) == [("RECEIVED", "", 1), ("LEFT_SERVER", "failed", 1)]
