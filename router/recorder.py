"""Writes down what happens to the jobs of a router, from the events and effects of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
from router.jobs import InFlight
from router.protocol.eventlog import ENDS, NOTHING, Kind, LogWriter, Places, code
from router.protocol.messages import Dispatch, End, Pull, Withdraw

ARRIVED, PULLED = code(Kind.ARRIVED), code(Kind.PULLED)
ENDED = {outcome: code(Kind.ENDED, place) for outcome, place in ENDS.items()}
RETRIED = {outcome: code(Kind.RETRIED, place) for outcome, place in ENDS.items()}
ORPHANED = {outcome: code(Kind.ORPHANED, place) for outcome, place in ENDS.items()}

Handle = Callable[[Any, float], list[RouterEffect]]


def recorded(core: RouterCore, log: LogWriter, tag_of: Callable[[int], int]) -> Handle:
    """An entrance for a core: hands each event on, and writes down what came of it before anybody else is told.

    Rule: a dispatch is on record before it is sent, so no server has one that its router's log does not know.

    Args:
        core: The core.
        log: Where to write.
        tag_of: The generator's number of a job; `NOTHING`: it has none.

    Returns:
        What stands in for `core.handle`.
    """
    # What each job needs is done in closures, whose variables cost half of what attributes do.
    append, places = log.append, Places(log.name)
    arrive, pull, end = core.entrance(JobArrived), core.entrance(Pull), core.entrance(End)
    rest = _Rest(core, log)

    def arrived(event: JobArrived, now: float) -> list[RouterEffect]:
        effects = arrive(event, now)
        job = event[0][0]
        first = effects[0] if effects else None
        if type(first) is Dispatch:
            server, _, dispatch, _, _, number, _, _ = first
            number = NOTHING if number is None else number
            append(ARRIVED, places[server], 0, 0, now, job, tag_of(job), dispatch, number)
            if len(effects) > 1:
                rest.write(effects[1:], now)
        else:
            append(ARRIVED, 0, 0, 0, now, job, tag_of(job), NOTHING, NOTHING)
            rest.write(effects, now)
        return effects

    def pulled(event: Pull, now: float) -> list[RouterEffect]:
        append(PULLED, places[event[0]], 0, 0, now, NOTHING, NOTHING, NOTHING, event[2])
        return pull(event, now)

    def ended(event: End, now: float) -> list[RouterEffect]:
        record = core.in_flight.get(event[2])
        effects = end(event, now)
        first = effects[0] if effects else None
        if type(first) is EndJob and first[4] is event and len(effects) == 1:
            word = places[first[2]]
            append(ENDED[first[1]], places[event[0]], 0, word, now, first[0][0], NOTHING, event[2], NOTHING)
        else:
            rest.ended(event, effects, now, record)
        return effects

    entrances: dict[type, Any] = {
        JobArrived: arrived, Pull: pulled, End: ended, ServerLeft: rest.left, Withdraw: core.entrance(Withdraw)
    }  # fmt: skip
    other = rest.other

    def handle(event: RouterEvent, now: float) -> list[RouterEffect]:
        found: list[RouterEffect] = entrances.get(type(event), other)(event, now)
        return found

    return handle


class _Rest:
    """What is rare."""

    def __init__(self, core: RouterCore, log: LogWriter) -> None:
        self._core = core
        self._append = log.append
        self._name = log.name

    def ended(self, event: End, effects: list[RouterEffect], now: float, record: InFlight | None) -> None:
        """An end that came too late, or after which its job goes on."""
        server, _, dispatch, outcome, reason = event[:5]
        place = self._name(server)
        if record is None or record.server.id != server:
            self._append(ORPHANED[outcome], place, 0, 0, now, NOTHING, NOTHING, dispatch, NOTHING)
            return
        job = record.job.id
        own = next((one for one in effects if type(one) is EndJob and one.job.id == job), None)
        if own is None:
            self._append(RETRIED[outcome], place, 0, self._name(reason), now, job, NOTHING, dispatch, NOTHING)
        self.write(effects, now, {job: dispatch})

    def left(self, event: ServerLeft, now: float) -> list[RouterEffect]:
        """Of the dispatches that are lost with a server some end their job, others are made anew."""
        name = self._name(event.server)
        lost = {
            record.job.id: dispatch
            for dispatch, record in self._core.in_flight.items()
            if record.server.id == event.server
        }
        effects = self._core.handle(event, now)
        self._append(code(Kind.LEFT), name, 0, 0, now, NOTHING, NOTHING, NOTHING, NOTHING)
        over = {effect.job.id for effect in effects if type(effect) is EndJob}
        for job, dispatch in lost.items():
            if job not in over:
                word = self._name("link_lost")
                self._append(RETRIED["failed"], name, 0, word, now, job, NOTHING, dispatch, NOTHING)
        self.write(effects, now, lost)
        return effects

    def other(self, event: RouterEvent, now: float) -> list[RouterEffect]:
        """Any other event."""
        effects = self._core.handle(event, now)
        self._about_no_job(event, now)
        self.write(effects, now)
        return effects

    def write(self, effects: Iterable[RouterEffect], now: float, over: dict[int, int] | None = None) -> None:
        """Dispatches and ends of whatever event.

        Args:
            effects: Of the event.
            now: Its instant.
            over: The dispatches with which jobs end, by job.
        """
        for effect in effects:
            if type(effect) is Dispatch:
                record = self._core.in_flight[effect.job]
                number = NOTHING if effect.number is None else effect.number
                what = code(Kind.DISPATCHED, attempt=record.attempt)
                self._append(what, self._name(effect.server), 0, 0, now, record.job.id, NOTHING, effect.job, number)
            elif type(effect) is EndJob:
                job, server = effect.job.id, effect.server
                dispatch = over.get(job, NOTHING) if over else NOTHING
                place = 0 if server is None else self._name(server.id)
                word = self._name(effect.reason)
                self._append(ENDED[effect.outcome], place, 0, word, now, job, NOTHING, dispatch, NOTHING)

    def _about_no_job(self, event: RouterEvent, now: float) -> None:
        match event:
            case ServerJoined():
                what, server, word = Kind.JOINED, event.server.id, ""
            case ServerDraining():
                what, server, word = Kind.DRAINING, event.server, ""
            case PolicyChanged():
                what, server, word = Kind.POLICY, "", event.policy.name
            case Draining():
                what, server, word = Kind.DRAINING, "", ""
            case _:
                return
        self._append(code(what), self._name(server), 0, self._name(word), now, NOTHING, NOTHING, NOTHING, NOTHING)
