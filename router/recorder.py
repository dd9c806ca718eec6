"""Writes down what happens to the jobs of a router, from the events and effects of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from router.core import RouterCore
from router.events import (
    Draining,
    EndJob,
    JobArrived,
    PolicyChanged,
    RouterEffect,
    RouterEvent,
    ServerDraining,
    ServerJoined,
    ServerLeft,
)
from router.protocol.eventlog import ENDS, NOTHING, Book, Kind, code
from router.protocol.messages import Dispatch, End, Pull, Withdraw

ARRIVED, PULLED = code(Kind.ARRIVED), code(Kind.PULLED)
ENDED = {outcome: code(Kind.ENDED, place) for outcome, place in ENDS.items()}
RETRIED = {outcome: code(Kind.RETRIED, place) for outcome, place in ENDS.items()}
ORPHANED = {outcome: code(Kind.ORPHANED, place) for outcome, place in ENDS.items()}


class RouterRecorder:
    """Stands before a core: hands each event on, and writes down what came of it before anybody else is told.

    Rule: a dispatch is on record before it is sent, so no server has one that its router's log does not know.

    Args:
        core: The core.
        book: Where to write.
        tag_of: The generator's number of a job; `NOTHING`: it has none.
    """

    def __init__(self, core: RouterCore, book: Book, tag_of: Callable[[int], int]) -> None:
        self._core = core
        self._handle = core.handle
        self._append = book.append
        self._name = book.name
        self._tag_of = tag_of

    def handle(self, event: RouterEvent, now: float) -> list[RouterEffect]:
        """As `RouterCore.handle`."""
        kind = type(event)
        if kind is JobArrived:
            effects = self._handle(event, now)
            self._arrived(event[0][0], effects, now)  # type: ignore  # as a tuple: what each job needs
        elif kind is End:
            effects = self._end(event, now)  # type: ignore[arg-type]
        elif kind is Pull:
            effects = self._handle(event, now)
            self._append(PULLED, self._name(event[0]), 0, 0, now, NOTHING, NOTHING, NOTHING, event[2])  # type: ignore
        elif kind is ServerLeft:
            effects = self._left(event, now)  # type: ignore[arg-type]
        else:
            effects = self._handle(event, now)
            self._other(event, now)
            self._write(effects, now)
        return effects

    def _arrived(self, job: int, effects: list[RouterEffect], now: float) -> None:
        tag = self._tag_of(job)
        first = effects[0] if effects else None
        if type(first) is Dispatch:
            server, _, dispatch, _, _, number, _, _ = first
            number = NOTHING if number is None else number
            self._append(ARRIVED, self._name(server), 0, 0, now, job, tag, dispatch, number)
            if len(effects) > 1:
                self._write(effects[1:], now)
        else:
            self._append(ARRIVED, 0, 0, 0, now, job, tag, NOTHING, NOTHING)
            self._write(effects, now)

    def _end(self, event: End, now: float) -> list[RouterEffect]:
        core, (server, _, dispatch, outcome, reason) = self._core, event[:5]
        orphaned = core.orphaned
        record = core.in_flight.get(dispatch)
        effects = self._handle(event, now)
        place = self._name(server)
        if core.orphaned != orphaned or record is None:
            self._append(ORPHANED[outcome], place, 0, 0, now, NOTHING, NOTHING, dispatch, NOTHING)
            return effects
        job = record[0][0]
        first = effects[0] if effects else None
        if type(first) is EndJob and first[0][0] == job:
            word = self._name(first[2]) if first[2] else 0
            self._append(ENDED[first[1]], place, 0, word, now, job, NOTHING, dispatch, NOTHING)
            self._write(effects[1:], now)
        else:
            self._append(RETRIED[outcome], place, 0, self._name(reason), now, job, NOTHING, dispatch, NOTHING)
            self._write(effects, now)
        return effects

    def _left(self, event: ServerLeft, now: float) -> list[RouterEffect]:
        """Of the dispatches that are lost with a server some end their job, others are made anew."""
        name = self._name(event.server)
        lost = {
            record.job.id: dispatch
            for dispatch, record in self._core.in_flight.items()
            if record.server.id == event.server
        }
        effects = self._handle(event, now)
        self._append(code(Kind.LEFT), name, 0, 0, now, NOTHING, NOTHING, NOTHING, NOTHING)
        over = {effect.job.id for effect in effects if type(effect) is EndJob}
        for job, dispatch in lost.items():
            if job not in over:
                word = self._name("link_lost")
                self._append(RETRIED["failed"], name, 0, word, now, job, NOTHING, dispatch, NOTHING)
        self._write(effects, now, lost)
        return effects

    def _write(self, effects: Iterable[RouterEffect], now: float, lost: dict[int, int] | None = None) -> None:
        """Dispatches and ends of whatever event."""
        for effect in effects:
            if type(effect) is Dispatch:
                record = self._core.in_flight[effect.job]
                number = NOTHING if effect.number is None else effect.number
                what = code(Kind.DISPATCHED, attempt=record.attempt)
                self._append(what, self._name(effect.server), 0, 0, now, record.job.id, NOTHING, effect.job, number)
            elif type(effect) is EndJob:
                job, server = effect.job.id, effect.server
                dispatch = lost.get(job, NOTHING) if lost else NOTHING
                place = 0 if server is None else self._name(server.id)
                word = self._name(effect.reason)
                self._append(ENDED[effect.outcome], place, 0, word, now, job, NOTHING, dispatch, NOTHING)

    def _other(self, event: RouterEvent, now: float) -> None:
        """What is about no job."""
        match event:
            case Withdraw():
                what, server, word, number = Kind.WITHDRAWN, event.server, "", event.number
            case ServerJoined():
                what, server, word, number = Kind.JOINED, event.server.id, "", NOTHING
            case ServerDraining():
                what, server, word, number = Kind.DRAINING, event.server, "", NOTHING
            case PolicyChanged():
                what, server, word, number = Kind.POLICY, "", event.policy.name, NOTHING
            case Draining():
                what, server, word, number = Kind.DRAINING, "", "", NOTHING
            case _:
                return
        self._append(code(what), self._name(server), 0, self._name(word), now, NOTHING, NOTHING, NOTHING, number)
