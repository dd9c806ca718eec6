"""The routers of a server: who has joined, what each wants to hear, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, ClassVar

from router.protocol.errors import LocalProtocolError
from router.protocol.timer import StartTimer
from server.announcer import Announcer
from server.events import Drain, NeedsChanged, Open, ReportDue, RouterJoined, RouterLeft, ServerEffect
from server.reporter import Reporter
from server.session import Session
from server.spec import ServerSpec

Tell = Callable[[int], Iterable[ServerEffect]]
"""Tells those routers of a queue length that are to hear of it."""


def _each(*tells: tuple[bool, Tell]) -> Tell | None:
    """Those that are wanted as one; `None`: none is, so that nothing need be called."""
    wanted = [tell for is_wanted, tell in tells if is_wanted]
    if len(wanted) > 1:
        return lambda length: [effect for tell in wanted for effect in tell(length)]
    return wanted[0] if wanted else None


class Routers:
    """The routers that one server knows.

    Units: as `ServerCore`.

    Args:
        spec: The server.
        rng: The source of its draws (which router to tell).
        time_unit: Clock units in a time unit.

    Attributes:
        sessions: Those that have joined, by name; the last to say what it needs comes last.
        announcer: Keeps the pull-messages.
        risen: To be called with the queue length when a job was admitted. `fallen`: when one has left.
    """

    __slots__ = ("_reporter", "_server", "_time_unit", "announcer", "fallen", "risen", "sessions")

    def __init__(self, spec: ServerSpec, rng: Random, time_unit: float) -> None:
        self.sessions: dict[str, Session] = {}
        self.announcer = Announcer(spec.id, spec.slots, spec.capacity, rng)
        self.risen: Tell | None = None
        self.fallen: Tell | None = None
        self._reporter = Reporter(spec.id, rng)
        self._server = spec.id
        self._time_unit = time_unit

    def handle(self, event: Any, length: int, now: float) -> list[ServerEffect]:
        """Take in an event of `HANDLERS` while `length` jobs are there.

        Raises:
            LocalProtocolError: The event is impossible in this state; nothing was changed.
        """
        return self.HANDLERS[type(event)](self, event, length, now)

    def session(self, router: str) -> Session:
        """Of a router that has joined."""
        session = self.sessions.get(router)
        if session is None:
            raise LocalProtocolError(f"server {self._server}: message from router {router}, which has not joined")
        return session

    def _joined(self, event: RouterJoined, length: int, now: float) -> list[ServerEffect]:
        if event.router in self.sessions:
            raise LocalProtocolError(f"server {self._server}: router {event.router} has joined already")
        session = self.sessions[event.router] = Session(event.router, event.needs, event.epoch)
        return self._needs_are_new(session, length, now)

    def _needs_changed(self, event: NeedsChanged, length: int, now: float) -> list[ServerEffect]:
        session = self.session(event.router)
        withdrawals = self.announcer.recall(session)
        session.set_needs(event.needs)
        session.needs_changes += 1
        self.sessions[event.router] = self.sessions.pop(event.router)  # the last to say what it needs
        return [*withdrawals, *self._needs_are_new(session, length, now)]

    def _needs_are_new(self, session: Session, length: int, now: float) -> list[ServerEffect]:
        self._share_out()
        effects: list[ServerEffect] = []
        reports = session.needs.reports
        if reports is not None:
            effects.append(self._reporter.report(session, length))
            if reports.every is not None:
                effects.append(self._next_report(session, now))
        return [*effects, *self.announcer.settle(length)]

    def _left(self, event: RouterLeft, length: int, now: float) -> list[ServerEffect]:
        session = self.session(event.router)
        session.up = False
        del self.sessions[event.router]
        self.announcer.lost(session)
        self._share_out()
        return [*self.announcer.settle(length)]

    def _share_out(self) -> None:
        """Which sessions want what has changed: sort them anew, so that no job has to."""
        announcer, reporter, sessions = self.announcer, self._reporter, list(self.sessions.values())
        announcer.set_takers(sessions)
        reporter.set_listeners(sessions)
        pulls, changes = (announcer.threshold >= 0, announcer.risen), (bool(reporter.on_change), reporter.changed)
        self.risen = _each(pulls, changes)
        self.fallen = _each((pulls[0], announcer.fallen), changes, (reporter.on_departure, reporter.departed))

    def _report_due(self, event: ReportDue, length: int, now: float) -> list[ServerEffect]:
        session = event.session
        if not session.up or session.needs_changes != event.needs_changes:
            return []
        return [self._reporter.report(session, length), self._next_report(session, now)]

    def _next_report(self, session: Session, now: float) -> StartTimer:
        reports = session.needs.reports
        assert reports is not None and reports.every is not None
        return StartTimer(now + reports.every * self._time_unit, ReportDue(session, session.needs_changes))

    def _open(self, event: Open, length: int, now: float) -> list[ServerEffect]:
        return [*self.announcer.open(length)]

    def _drain(self, event: Drain, length: int, now: float) -> list[ServerEffect]:
        effects: list[ServerEffect] = [*self.announcer.close()]
        self._share_out()
        return effects

    HANDLERS: ClassVar[dict[type, Callable[[Routers, Any, int, float], list[ServerEffect]]]] = {
        RouterJoined: _joined,
        NeedsChanged: _needs_changed,
        RouterLeft: _left,
        ReportDue: _report_due,
        Open: _open,
        Drain: _drain,
    }
