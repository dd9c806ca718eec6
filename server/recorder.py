"""Writes down what happens to the jobs of a server, from the events and effects of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from router.protocol.eventlog import AT_ONCE, ENDS, NOTHING, UNHEARD, Book, Kind, code
from router.protocol.messages import Dispatch, End
from router.protocol.timer import StartTimer
from server.core import ServerCore
from server.events import Drain, PatienceEnded, RouterJoined, RouterLeft, ServerEffect, ServerEvent, ServiceEnded, Work

RECEIVED, STARTED = code(Kind.RECEIVED), code(Kind.STARTED)
RECEIVED_AT_ONCE = code(Kind.RECEIVED, marks=AT_ONCE)
LEFT = {outcome: code(Kind.LEFT_SERVER, place) for outcome, place in ENDS.items()}
LEFT_UNHEARD = {outcome: code(Kind.LEFT_SERVER, place, UNHEARD) for outcome, place in ENDS.items()}

Handle = Callable[[ServerEvent, float], list[ServerEffect]]


class ServerRecorder:
    """Stands before a core: hands each event on, and writes down what came of it.

    Args:
        core: The core. `handle`: its entrance.
        book: Where to write.
    """

    __slots__ = ("_append", "_book", "_core", "_handle", "_id")

    def __init__(self, core: ServerCore, handle: Handle, book: Book) -> None:
        self._core = core
        self._handle = handle
        self._book = book
        self._append = book.append
        self._id = book.name(core.spec.id)

    def handle(self, event: ServerEvent, now: float) -> list[ServerEffect]:
        """As `ServerCore.handle`."""
        kind = type(event)
        if kind is Dispatch:
            return self._dispatch(event, now)  # type: ignore[arg-type]
        if kind is ServiceEnded or kind is PatienceEnded:
            return self._timer(event[0], kind, event, now)  # type: ignore
        effects = self._handle(event, now)
        if kind in _ABOUT_LINKS:
            self._link(event, now)
        self._write(effects, now)
        return effects

    def _dispatch(self, event: Dispatch, now: float) -> list[ServerEffect]:
        effects = self._handle(event, now)
        _, router, dispatch, _, _, number, _, _ = event
        number = NOTHING if number is None else number
        first = effects[0] if effects else None
        at_once = type(first) is StartTimer and type(first[1]) is ServiceEnded
        epoch = self._core.sessions[router].epoch
        place = self._book.name(router)
        what = RECEIVED_AT_ONCE if at_once else RECEIVED
        self._append(what, self._id, place, 0, now, epoch, NOTHING, dispatch, number)
        if not at_once:
            for effect in effects:
                if type(effect) is End and effect.job == dispatch and effect.router == router:
                    word = self._book.name(effect.reason)
                    self._append(LEFT[effect.outcome], self._id, place, word, now, epoch, NOTHING, dispatch, NOTHING)
        return effects

    def _timer(self, work: Work, kind: type, event: ServerEvent, now: float) -> list[ServerEffect]:
        """The end of a service or of a patience; it may come to nothing."""
        here = work.state is not Work.GONE
        effects = self._handle(event, now)
        if here and work.state is Work.GONE:
            session = work.session
            ends = LEFT if session.up else LEFT_UNHEARD
            what = ends["served" if kind is ServiceEnded else "abandoned"]
            place = self._book.name(session.router)
            self._append(what, self._id, place, 0, now, session.epoch, NOTHING, work.job, NOTHING)
        self._started(effects, now)
        return effects

    def _started(self, effects: Iterable[ServerEffect], now: float) -> None:
        for effect in effects:
            if type(effect) is StartTimer and type(effect[1]) is ServiceEnded:
                work = effect[1][0]
                session = work.session
                place = self._book.name(session.router)
                self._append(STARTED, self._id, place, 0, now, session.epoch, NOTHING, work.job, NOTHING)

    def _write(self, effects: list[ServerEffect], now: float) -> None:
        """Jobs that end, and services that start, by another event: after a hang, for instance."""
        for effect in effects:
            if type(effect) is End:
                session = self._core.sessions[effect.router]
                place, word = self._book.name(effect.router), self._book.name(effect.reason)
                what = LEFT[effect.outcome]
                self._append(what, self._id, place, word, now, session.epoch, NOTHING, effect.job, NOTHING)
        self._started(effects, now)

    def _link(self, event: Any, now: float) -> None:
        kind = _ABOUT_LINKS[type(event)]
        router, epoch = ("", NOTHING) if kind is Kind.DRAINING else (event.router, getattr(event, "epoch", NOTHING))
        self._append(code(kind), self._id, self._book.name(router), 0, now, epoch, NOTHING, NOTHING, NOTHING)


_ABOUT_LINKS: dict[type, Kind] = {
    RouterJoined: Kind.LINKED, RouterLeft: Kind.UNLINKED, Drain: Kind.DRAINING
}  # fmt: skip


class RecordedCore(ServerCore):
    """A server whose jobs are written down; without a log, a `ServerCore` costs nothing more.

    Args:
        book: Where to write. The other arguments are those of `ServerCore`.
    """

    __slots__ = ("_recorder",)

    def __init__(self, *args: Any, book: Book, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._recorder = ServerRecorder(self, super().handle, book)

    def handle(self, event: ServerEvent, now: float) -> list[ServerEffect]:
        """As `ServerCore.handle`, and on record."""
        return self._recorder.handle(event, now)
