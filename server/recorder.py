"""Writes down what happens to the jobs of a server, from the events and effects of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from router.protocol.eventlog import AT_ONCE, ENDS, NOTHING, UNHEARD, Kind, LogWriter, Places, code
from router.protocol.messages import Dispatch, End
from router.protocol.timer import StartTimer
from server.core import ServerCore
from server.events import (
    Disturbed,
    Drain,
    PatienceEnded,
    RouterJoined,
    RouterLeft,
    ServerEffect,
    ServerEvent,
    ServiceEnded,
    Work,
)

RECEIVED, STARTED = code(Kind.RECEIVED), code(Kind.STARTED)
RECEIVED_AT_ONCE = code(Kind.RECEIVED, marks=AT_ONCE)
LEFT = {outcome: code(Kind.LEFT_SERVER, place) for outcome, place in ENDS.items()}
LEFT_UNHEARD = {outcome: code(Kind.LEFT_SERVER, place, UNHEARD) for outcome, place in ENDS.items()}

Handle = Callable[[Any, float], list[ServerEffect]]


def recorded(core: ServerCore, given: Handle, log: LogWriter) -> Handle:
    """An entrance for a core: hands each event on, and writes down what came of it.

    Args:
        core: The core.
        given: Its own entrance.
        log: Where to write.

    Returns:
        What stands in for `core.handle`.
    """
    # What each job needs is done in closures, whose variables cost half of what attributes do.
    append, places, id, sessions = log.append, Places(log.name), log.name(core.spec.id), core.sessions
    take = ServerCore.entrance(core, Dispatch)
    rest = _Rest(core, log)

    def dispatched(event: Dispatch, now: float) -> list[ServerEffect]:
        effects = take(event, now)
        _, router, dispatch, _, _, number, _, _ = event
        number = NOTHING if number is None else number
        first = effects[0] if effects else None
        at_once = type(first) is StartTimer and type(first[1]) is ServiceEnded
        what = RECEIVED_AT_ONCE if at_once else RECEIVED
        append(what, id, places[router], 0, now, sessions[router].epoch, NOTHING, dispatch, number)
        if not at_once and effects:
            rest.ends(effects, now)
        return effects

    def timer(event: ServiceEnded | PatienceEnded, now: float) -> list[ServerEffect]:
        work = event[0]
        here = work.state is not Work.GONE
        effects = given(event, now)
        if here and work.state is Work.GONE:  # else it comes to nothing
            session = work.session
            ends = LEFT if session.up else LEFT_UNHEARD
            what = ends["served" if type(event) is ServiceEnded else "abandoned"]
            append(what, id, places[session.router], 0, now, session.epoch, NOTHING, work.job, NOTHING)
        # One alone is the end, unless nobody hears of that: then it may be the start of the next in line.
        if len(effects) > 1 or (effects and type(effects[0]) is StartTimer):
            rest.starts(effects, now)
        return effects

    def disturbed(event: Disturbed, now: float) -> list[ServerEffect]:
        held = [work for work in core.held if work.state is not Work.GONE]
        effects = given(event, now)
        for work in held:
            if work.state is Work.GONE:  # it hangs no more: the end is an effect only if somebody hears of it
                session = work.session
                what = (LEFT if session.up else LEFT_UNHEARD)["served"]
                append(what, id, places[session.router], 0, now, session.epoch, NOTHING, work.job, NOTHING)
        rest.starts(effects, now)
        return effects

    entrances: dict[type, Any] = {
        Dispatch: dispatched, ServiceEnded: timer, PatienceEnded: timer, Disturbed: disturbed
    }  # fmt: skip

    def other(event: ServerEvent, now: float) -> list[ServerEffect]:
        effects = given(event, now)
        rest.about_links(event, now)
        rest.ends(effects, now)
        rest.starts(effects, now)
        return effects

    def handle(event: ServerEvent, now: float) -> list[ServerEffect]:
        found: list[ServerEffect] = entrances.get(type(event), other)(event, now)
        return found

    return handle


class _Rest:
    """What is rare: jobs that end or start otherwise, after a hang for instance, and the links."""

    def __init__(self, core: ServerCore, log: LogWriter) -> None:
        self._sessions = core.sessions
        self._append = log.append
        self._name = log.name
        self._id = log.name(core.spec.id)

    def ends(self, effects: Iterable[ServerEffect], now: float) -> None:
        """Write down those among the effects."""
        for effect in effects:
            if type(effect) is End:
                place, word = self._name(effect.router), self._name(effect.reason)
                epoch = self._sessions[effect.router].epoch
                self._append(LEFT[effect.outcome], self._id, place, word, now, epoch, NOTHING, effect.job, NOTHING)

    def starts(self, effects: Iterable[ServerEffect], now: float) -> None:
        """Write down those among the effects."""
        for effect in effects:
            if type(effect) is StartTimer and type(effect[1]) is ServiceEnded:
                work = effect[1][0]
                session = work.session
                place = self._name(session.router)
                self._append(STARTED, self._id, place, 0, now, session.epoch, NOTHING, work.job, NOTHING)

    def about_links(self, event: ServerEvent, now: float) -> None:
        """Write down who joins, leaves and drains."""
        kind = _ABOUT_LINKS.get(type(event))
        if kind is not None:
            place, epoch = self._name(getattr(event, "router", "")), getattr(event, "epoch", NOTHING)
            self._append(code(kind), self._id, place, 0, now, epoch, NOTHING, NOTHING, NOTHING)


_ABOUT_LINKS: dict[type, Kind] = {
    RouterJoined: Kind.LINKED, RouterLeft: Kind.UNLINKED, Drain: Kind.DRAINING
}  # fmt: skip


class RecordedCore(ServerCore):
    """A server whose jobs are written down; without a log, a `ServerCore` costs nothing more.

    Args:
        log: Where to write. The other arguments are those of `ServerCore`.
    """

    # In the place of the method: a call less for each event.
    __slots__ = ("handle",)
    handle: Handle  # type: ignore[assignment]  # mypy allows no attribute where the base class has a method

    def __init__(self, *args: Any, log: LogWriter, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.handle = recorded(self, super().handle, log)

    def entrance(self, kind: type) -> Handle:
        """As `ServerCore.entrance`, and on record."""
        return self.handle
