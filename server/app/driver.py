"""Drives the servers of this process: real time and messages in, effects out.

All is done in the loop's thread, without awaiting anything: one call hands over what is due and what has
arrived, in order, and puts what the servers say into the outboxes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from router.process.metrics import Histogram
from router.protocol.due import DueHeap
from router.protocol.eventlog import LogWriter
from router.protocol.messages import Dispatch, End, Message, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs
from router.protocol.timer import StartTimer
from server.app.settings import ServerSettings
from server.app.timer import Kind, PreciseTimer
from server.core import (
    Disturbed,
    Drain,
    NeedsChanged,
    Open,
    RateChanged,
    RouterJoined,
    RouterLeft,
    ServerCore,
    ServerEffect,
    ServerEvent,
)
from server.events import is_void
from server.recorder import RecordedCore

Put = Callable[[Message], bool]

# Lags are shown from 10 µs to 100 ms.
_USUAL_LAG_S = 1e-3

_FEW_TIMERS = 10_000
"""Of so many, nobody asks whether they have lost their meaning."""


class ServerDriver:
    """All servers of a process, one heap of what is due, one timer.

    Rule: due ends first. Whatever happens at an instant, all timers due at or before it are handed over before,
    in order of their instants and each with its scheduled instant as `now`; so waiting and service times are those
    of the schedule, however late the machine is.

    Units: seconds of `clock`.

    Args:
        settings: What the servers are.
        clock: The monotonic clock.
        timer_kind: Which alarm the timer uses.
        log: The event log; `None`: nothing is written down, at no cost.

    Attributes:
        cores: The servers, by name, in order.
        sent, received: Messages by type, since the start.
        unsent: Messages to a router whose link was being lost.
        waiting_units, service_units: Times of jobs whose end a router was told of, in time units.
        lag_s: How late timers were handed over, against their schedule.
        opened: Whether the first pull-messages were posted.
        rerated: The servers whose rate is not, or was once not, that of the start, in the order of their first change.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        timer_kind: Kind = "auto",
        log: LogWriter | None = None,
    ) -> None:
        now = clock()
        make = ServerCore if log is None else partial(RecordedCore, log=log)
        self.cores: dict[str, ServerCore] = {
            spec.id: make(
                spec,
                settings.stream(spec.id, "routers"),
                time_unit=settings.time_unit_s,
                abandons_in_service=settings.in_service,
                ceiling=settings.ceiling,
                now=now,
            )
            for spec in settings.specs()
        }
        self.sent: dict[type, int] = dict.fromkeys((Pull, Withdraw, Report, End), 0)
        self.received: dict[type, int] = dict.fromkeys((Dispatch, Probe), 0)
        self.unsent = 0
        self.waiting_units = Histogram(1.0)
        self.service_units = Histogram(1.0)
        self.lag_s = Histogram(_USUAL_LAG_S)
        self.opened = False
        self.rerated: dict[str, None] = {}
        self.clock = clock
        self._unit_s = settings.time_unit_s
        self._puts: dict[str, Put] = {}
        self._due: DueHeap[tuple[ServerCore, ServerEvent]] = DueHeap()
        self._most_due = _FEW_TIMERS
        self._timer = PreciseTimer(asyncio.get_running_loop(), self._on_timer, timer_kind)
        self._emptied = asyncio.Event()

    def close(self) -> None:
        """Hand over no more timers."""
        self._timer.close()

    # -- what happens -------------------------------------------------------------------------

    def receive(self, messages: Sequence[Message]) -> None:
        """Take in one batch of dispatches and probes from a router that has joined."""
        now = self.clock()
        due, cores, received = self._due, self.cores, self.received
        try:
            if due.next_at <= now:
                self._hand_over(now)
            for message in messages:
                received[type(message)] += 1
                core = cores[message.server]
                # The link's codec lets only messages of routers pass, which its type does not say.
                self._perform(core, core.handle(message, now))  # type: ignore[arg-type]
                if due.next_at <= now:  # a service of size 0 ends before the next message
                    self._hand_over(now)
        finally:
            self._arm()

    def open(self) -> None:
        """The links are up: every server posts its first pull-message."""
        if not self.opened:
            self.opened = True
            self._all(Open())

    def router_joined(self, router: str, needs: Needs, put: Put, epoch: int = 0) -> None:
        """A link to this incarnation of a router is up; `put` sends messages over it."""
        self._puts[router] = put
        self._all(RouterJoined(router, needs, epoch))

    def needs_changed(self, router: str, needs: Needs) -> None:
        """A router that has joined follows another policy."""
        self._all(NeedsChanged(router, needs))

    def router_left(self, router: str) -> None:
        """A link is lost."""
        self._all(RouterLeft(router))  # what is due before that may still speak to it, in vain
        del self._puts[router]

    def drain(self, servers: Iterable[str]) -> None:
        """These servers take nothing new."""
        self._each([self.cores[server] for server in servers], Drain())

    def rate(self, server: str, rate: float) -> None:
        """This server has another rate, from its next service on."""
        self.rerated[server] = None
        self._each([self.cores[server]], RateChanged(rate))

    def disturb(self, server: str, disturbance: Disturbed) -> None:
        """This server misbehaves from now on, in this way."""
        self._each([self.cores[server]], disturbance)
        self._emptied.set()  # services that were held back have ended: whoever waits for the last job looks again

    # -- what is there ------------------------------------------------------------------------

    @property
    def in_system(self) -> int:
        """Jobs at all servers."""
        return sum(core.length for core in self.cores.values())

    @property
    def draining(self) -> list[str]:
        """The servers that take nothing new, in order."""
        return [core.spec.id for core in self.cores.values() if core.draining]

    async def until_empty(self) -> None:
        """Wait until no job is left at any server."""
        while self.in_system:
            self._emptied.clear()
            await self._emptied.wait()

    # -- inside -------------------------------------------------------------------------------

    def _all(self, event: ServerEvent) -> None:
        self._each(self.cores.values(), event)

    def _each(self, cores: Iterable[ServerCore], event: ServerEvent) -> None:
        now = self.clock()
        try:
            self._hand_over(now)
            for core in cores:
                self._perform(core, core.handle(event, now))
        finally:
            self._arm()

    def _arm(self) -> None:
        due = self._due
        if len(due) > self._most_due:
            # Patience may end in years, long after its job has: such timers must not pile up until then.
            due.sweep(lambda item: is_void(item[1]))
            self._most_due = 2 * len(due) + _FEW_TIMERS
        self._timer.arm(due.next_at)

    def _on_timer(self) -> None:
        try:
            self._hand_over(self.clock())
        finally:
            self._arm()

    def _hand_over(self, now: float) -> None:
        """Hand over all timers due at or before `now`, also those that arise meanwhile."""
        observe = self.lag_s.observe
        for at, (core, event) in self._due.pop_due(now):
            observe(now - at)
            self._perform(core, core.handle(event, at))
            if not core.length:
                self._emptied.set()

    def _perform(self, core: ServerCore, effects: list[ServerEffect]) -> None:
        sent = self.sent
        for effect in effects:
            # mypy does not follow `type(x) is C` through a variable; isinstance would, at a cost for every job.
            kind = type(effect)
            if kind is StartTimer:
                self._due.push(effect.at, (core, effect.event))  # type: ignore[union-attr]
                continue
            sent[kind] += 1
            if kind is End:
                self.waiting_units.observe(effect.waiting / self._unit_s)  # type: ignore[union-attr]
                self.service_units.observe(effect.service / self._unit_s)  # type: ignore[union-attr]
            if not self._puts[effect.router](effect):  # type: ignore[union-attr,arg-type]
                self.unsent += 1
