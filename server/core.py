"""One server as a pure state machine: events in, effects out; see `docs/architecture.md` for its table."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from types import MethodType
from typing import Any, ClassVar

from router.protocol.errors import LocalProtocolError
from router.protocol.messages import Dispatch, End, Outcome, Probe, Report, build
from router.protocol.timer import StartTimer
from server.events import (
    Disturbed,
    Drain,
    NeedsChanged,
    Open,
    PatienceEnded,
    RateChanged,
    ReportDue,
    RouterJoined,
    RouterLeft,
    ServerEffect,
    ServerEvent,
    ServiceEnded,
    Work,
)
from server.routers import Routers
from server.spec import ServerSpec

__all__ = [
    "Disturbed", "Drain", "NeedsChanged", "Open", "PatienceEnded", "RateChanged", "ReportDue", "RouterJoined",
    "RouterLeft", "ServerCore", "ServerEffect", "ServerEvent", "ServerSpec", "ServiceEnded", "Work",
]  # fmt: skip


class ServerCore:
    """One server: its queue, its slots, and what it tells the routers. One caller; not thread-safe.

    Rule: first come, first served; a job that finds a free slot starts at once; one that finds
    `capacity` jobs is blocked; a waiting job leaves when its patience ends.

    Units: instants and durations in the clock's unit, of which `time_unit` make one time unit.

    Args:
        spec: What it is.
        rng: The source of its draws (which router to tell).
        time_unit: Clock units in a time unit.
        abandons_in_service: Patience also ends a service.
        ceiling: The most jobs that it holds where its capacity is larger still; beyond, they fail with reason
            `ceiling`.
        now: The instant at which it opens, empty.

    Attributes:
        length: Jobs in its system, waiting and in service.
        busy: Busy slots.
        disturbance: How it misbehaves. `held`: services that are over, but do not end while it hangs.
        arrivals: Dispatches received. `started_at_once`: those that found a free slot.
        stale: Those whose pull-message or expected queue length was wrong.
        ends: Ends by outcome; arrivals = sum of ends + length, at all times.
        time_at_length: Time spent with 0, 1, 2, … jobs, up to the last change.
    """

    __slots__ = (
        "_abandons_in_service", "_announcer", "_fallen", "_handlers", "_refusing", "_risen", "_room", "_routers",
        "_service_unit", "_since", "_slots", "_time_unit", "_waiting", "arrivals", "busy", "disturbance", "draining",
        "ends", "held", "id", "length", "sessions", "spec", "stale", "started_at_once", "time_at_length",
    )  # fmt: skip

    def __init__(
        self,
        spec: ServerSpec,
        rng: Random,
        *,
        time_unit: float = 1.0,
        abandons_in_service: bool = False,
        ceiling: int = 1_000_000,
        now: float = 0.0,
    ) -> None:
        self.spec = spec
        self.id = spec.id
        self.length = 0
        self.busy = 0
        self.draining = False
        self.disturbance = Disturbed()
        self.arrivals = 0
        self.started_at_once = 0
        self.stale = 0
        self.ends: Counter[Outcome] = Counter()
        self.time_at_length: list[float] = [0.0]
        self._since = now
        self._time_unit = time_unit
        self._service_unit = time_unit / spec.rate
        self._slots = spec.slots
        self._room = min(spec.capacity, ceiling)
        self._abandons_in_service = abandons_in_service
        self._refusing = ""  # the reason for which each dispatch fails
        self.held: list[Work] = []
        self._handlers = self._HANDLERS
        self._waiting: deque[Work] = deque()
        self._routers = Routers(spec, rng, time_unit)
        self._announcer = self._routers.announcer
        self.sessions = self._routers.sessions
        self._risen = self._fallen = self._routers.risen

    def occupancy(self, now: float) -> list[float]:
        """`time_at_length` up to `now`."""
        times = list(self.time_at_length)
        times[self.length] += now - self._since
        return times

    def handle(self, event: ServerEvent, now: float) -> list[ServerEffect]:
        """Take one event in, at instant `now`; return what is to be done, in order.

        Raises:
            LocalProtocolError: The event is impossible in this state; nothing was changed.
        """
        return self._handlers[type(event)](self, event, now)

    def entrance(self, kind: type) -> Callable[[Any, float], list[ServerEffect]]:
        """`handle` for messages of this kind, without the look-up: for a loop that knows the kind."""
        return MethodType(self._HANDLERS[kind], self)

    @property
    def pull_messages(self) -> int:
        """Pull-messages that are out."""
        return len(self._announcer.outstanding)

    # -- jobs ---------------------------------------------------------------------------------

    def _dispatch(self, event: Dispatch, now: float) -> list[ServerEffect]:
        _, router, job, size, patience, number, expected, held = event
        session = self.sessions.get(router) or self._routers.session(router)
        session.seen += 1
        session.held = held
        self.arrivals += 1
        announcer = self._announcer
        length = self.length
        if number is None:
            stale = expected is not None and expected != length
        else:
            announcer.outstanding.pop(number, None)
            stale = length > announcer.last_threshold
        if stale:
            self.stale += 1
        work = Work(session, job, size, now, stale)
        if self._refusing:
            # One that fails its jobs is as idle as before, and says so: a sink for jobs.
            return [*announcer.settle(length), *self._end(work, "failed", self._refusing, now)]
        if length >= self._room:
            if length >= self.spec.capacity:
                return self._end(work, "blocked", "", now)
            return self._end(work, "failed", "ceiling", now)
        session.believed += 1
        self._change_length(length + 1, now)
        effects: list[ServerEffect] = []
        if self.busy < self._slots:
            self.started_at_once += 1
            effects.append(self._start(work, now))
        else:
            self._waiting.append(work)
        if patience is not None and (work.state is Work.WAITING or self._abandons_in_service):
            effects.append(StartTimer(now + patience * self._time_unit, PatienceEnded(work)))
        if self._risen is not None:
            effects += self._risen(length + 1)
        return effects

    def _start(self, work: Work, now: float) -> StartTimer:
        work.state = Work.IN_SERVICE
        work.started = now
        self.busy += 1
        return build(StartTimer, (now + work.size * self._service_unit, build(ServiceEnded, (work,))))

    def _service_ended(self, event: ServiceEnded, now: float) -> list[ServerEffect]:
        work = event.work
        if work.state is Work.IN_SERVICE:
            return self._leave(work, "served", now)
        if work.state is Work.GONE and self._abandons_in_service:
            return []
        raise LocalProtocolError(f"server {self.spec.id}: service of job {work.job} ended while it was {work.state}")

    def _patience_ended(self, event: PatienceEnded, now: float) -> list[ServerEffect]:
        work = event.work
        if work.state is Work.WAITING or (work.state is Work.IN_SERVICE and self._abandons_in_service):
            return self._leave(work, "abandoned", now)
        return []

    def _leave(self, work: Work, outcome: Outcome, now: float) -> list[ServerEffect]:
        """The job goes; a slot that it leaves is taken by the next in line, and routers are told."""
        effects: list[ServerEffect] = []
        length = self.length - 1
        self._change_length(length, now)
        if work.state is Work.IN_SERVICE:
            self.busy -= 1
            waiting = self._waiting
            while waiting:
                successor = waiting.popleft()
                if successor.state is Work.WAITING:  # else it has abandoned, and left its place empty
                    effects.append(self._start(successor, now))
                    break
        elif len(self._waiting) > 2 * (length - self.busy) + 64:
            # Empty places go away when a slot comes to them; a slot that is held for long must not let them pile up.
            self._waiting = deque(other for other in self._waiting if other.state is Work.WAITING and other is not work)
        if self._fallen is not None:
            effects += self._fallen(length)
        # The end comes first: a router that is told a length counts no job of its own that is not there any more.
        ended = self._end(work, outcome, "", now)
        ended += effects
        return ended

    def _end(self, work: Work, outcome: Outcome, reason: str, now: float) -> list[ServerEffect]:
        """Book the one end of a job; nobody is told when the link that it came by is lost."""
        started = now if work.state is Work.WAITING else work.started
        arrived = work.arrived
        work.state = Work.GONE
        self.ends[outcome] += 1
        session = work.session
        if not session.up:
            return []
        length = seen = None
        if session.reports_on_end:
            length, seen = self.length, session.seen
            session.believed = length
        return [
            build(
                End,
                (self.id, session.router, work.job, outcome, reason, arrived, started - arrived, now - started,
                 work.stale, length, seen),
            )
        ]  # fmt: skip

    def _change_length(self, length: int, now: float) -> None:
        times = self.time_at_length
        times[self.length] += now - self._since
        self._since = now
        self.length = length
        if length == len(times):
            times.append(0.0)

    # -- routers ------------------------------------------------------------------------------

    def _probe(self, event: Probe, now: float) -> list[ServerEffect]:
        _, router, job = event
        session = self.sessions.get(router) or self._routers.session(router)
        session.believed = length = self.length
        return [build(Report, (self.id, router, length, session.seen, job))]

    def _about_routers(self, event: Any, now: float) -> list[ServerEffect]:
        effects = self._routers.handle(event, self.length, now)
        self._risen, self._fallen = self._routers.risen, self._routers.fallen
        return effects

    def _drain(self, event: Drain, now: float) -> list[ServerEffect]:
        self.draining = True
        self._refusing = "draining"
        return self._about_routers(event, now)

    # -- pace and misbehaviour ----------------------------------------------------------------

    def _rate_changed(self, event: RateChanged, now: float) -> list[ServerEffect]:
        if not 0.0 < event.rate < float("inf"):
            raise LocalProtocolError(f"server {self.spec.id}: rate = {event.rate}: expected a finite number above 0")
        self.spec = self.spec._replace(rate=event.rate)
        self._service_unit = self._time_unit / event.rate * self.disturbance.slow
        return []

    def _disturbed(self, event: Disturbed, now: float) -> list[ServerEffect]:
        if not 0.0 < event.slow < float("inf"):
            raise LocalProtocolError(f"server {self.spec.id}: slow = {event.slow}: expected a finite number above 0")
        self.disturbance = event
        self._service_unit = self._time_unit / self.spec.rate * event.slow
        self._refusing = "draining" if self.draining else "server" if event.failing else ""
        self._handlers = self._HUNG_HANDLERS if event.hung else self._HANDLERS
        if event.hung:
            return []
        held, self.held = self.held, []  # what is over ends now, in order, unless patience has ended it
        ended = (self._leave(work, "served", now) for work in held if work.state is Work.IN_SERVICE)
        return [effect for effects in ended for effect in effects]

    def _service_held(self, event: ServiceEnded, now: float) -> list[ServerEffect]:
        """The server hangs: this service is over, but does not end."""
        if event.work.state is Work.WAITING:
            return self._service_ended(event, now)  # which is impossible, and says so
        self.held.append(event.work)
        return []

    # One table for all servers: a thousand of their own would not stay in the processor's cache.
    _HANDLERS: ClassVar[dict[type, Callable[[ServerCore, Any, float], list[ServerEffect]]]] = {
        Dispatch: _dispatch,
        Probe: _probe,
        ServiceEnded: _service_ended,
        PatienceEnded: _patience_ended,
        **dict.fromkeys(Routers.HANDLERS, _about_routers),
        Drain: _drain,
        RateChanged: _rate_changed,
        Disturbed: _disturbed,
    }
    # A server that hangs has a table of its own, so that no service of the others need ask whether it hangs.
    _HUNG_HANDLERS: ClassVar = _HANDLERS | {ServiceEnded: _service_held}
