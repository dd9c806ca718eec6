"""The driver of a router's core: feeds it events, carries its effects out.

Everything happens in one event loop, and nothing here waits: messages go into outboxes, ends to whoever handed
the job in, timers into one heap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, perf_counter
from typing import Any, Protocol

from router.app.counts import Counts
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
    ServerRated,
)
from router.policy import Job, Policy, Server
from router.protocol.due import DueHeap
from router.protocol.eventlog import NOTHING, LogWriter
from router.protocol.messages import Dispatch, Message, Probe
from router.protocol.needs import Needs
from router.protocol.notices import NewNeeds, encode_notice
from router.protocol.timer import StartTimer
from router.recorder import recorded

OnEnd = Callable[[EndJob, Any], None]
"""Told the end of a job, together with the tag that the job was handed in with; must not raise."""

NO_NEEDS = Needs()


class Outlet(Protocol):
    """What the driver needs of a link's outbox."""

    def put(self, message: Message) -> bool:
        """Send a message soon; False: the link is closed."""

    def put_frame(self, frame: bytes) -> bool:
        """Send a ready frame soon, in its place among the messages."""

    @property
    def is_behind(self) -> bool:
        """Whether so much waits that nothing more should be made for it now."""

    async def room(self) -> None:
        """Wait until it is behind no more."""


class RouterDriver:
    """Owns a `RouterCore`; create it inside the running loop.

    Args:
        core: The core; nobody else may hand it events.
        counts: Where to count what the core does not.
        log: The event log; `None`: nothing is written down, at no cost.
    """

    def __init__(self, core: RouterCore, counts: Counts, log: LogWriter | None = None) -> None:
        self.core = core
        self.counts = counts
        self.draining = False
        self._loop = asyncio.get_running_loop()
        self._handle = core.handle if log is None else recorded(core, log, self._tag_of)
        counts.know_policy(core.policy.name)
        self._jobs: dict[int, tuple[float, OnEnd, Any]] = {}
        self._number = 0
        self._put: dict[str, Callable[[Message], bool]] = {}
        self._outlets: list[Outlet] = []
        self._timers: DueHeap[RouterEvent] = DueHeap()
        self._alarm: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    @property
    def needs(self) -> Needs:
        """What servers must send now; nothing any more once this router drains."""
        return NO_NEEDS if self.draining else self.core.policy.needs

    # -- jobs and messages --------------------------------------------------------------------

    def submit(
        self, jobs: Iterable[tuple[Any, float, float | None]], on_end: OnEnd, now: float, kind: type[Job] = Job
    ) -> None:
        """Take jobs in.

        Args:
            jobs: `(tag, size, patience)` each; the tag is handed back with the end.
            on_end: Told the one end of each of them, perhaps before this returns.
            now: The instant of their arrival: now, by the monotonic clock.
            kind: `OnceJob`: they are served at most once.
        """
        if self._timers:
            self._hand_over_due(now)
        number = self._number
        try:
            for tag, size, patience in jobs:
                self._number = number = number + 1
                self._jobs[number] = (now, on_end, tag)
                arrived = JobArrived(kind(number, size, patience))
                before_s = perf_counter()
                effects = self._handle(arrived, now)
                self.counts.decision_s += perf_counter() - before_s
                self._execute(effects, now)
        except Exception:
            self._jobs.pop(number, None)  # nobody will end it: whoever handed it in learns it by this error
            raise

    def receive(self, messages: Sequence[Message], now: float) -> None:
        """Take in the messages of one frame of a link."""
        if self._timers:
            self._hand_over_due(now)
        handle, received = self._handle, self.counts.received
        for message in messages:
            received[type(message)] += 1
            effects = handle(message, now)  # type: ignore[arg-type]  # the link lets only messages of servers pass
            if effects:
                self._execute(effects, now)
        if self._emptied is not None:
            self._tell_if_empty()

    def _execute(self, effects: list[RouterEffect], now: float) -> None:
        for effect in effects:
            # mypy does not follow `type(x) is C` through a variable; isinstance would, at a cost for every job.
            kind = type(effect)
            if kind is Dispatch or kind is Probe:
                self._put[effect.server](effect)  # type: ignore[union-attr,index,arg-type]
            elif kind is EndJob:
                self._end(effect, now)  # type: ignore[arg-type]
            elif kind is StartTimer:
                self._start_timer(effect)  # type: ignore[arg-type]
            else:
                raise AssertionError(f"the core asks for {effect!r}, which no driver knows")

    def _end(self, effect: EndJob, now: float) -> None:
        arrived, on_end, tag = self._jobs.pop(effect.job.id)
        if effect.end is not None:
            self.counts.ended(effect, now - arrived)
        on_end(effect, tag)

    def _tag_of(self, job: int) -> int:
        tag = self._jobs[job][2]
        return tag if type(tag) is int else NOTHING  # of a client that waits for the answer

    def _handle_one(self, event: RouterEvent, now: float) -> None:
        self._hand_over_due(now)
        self._execute(self._handle(event, now), now)

    # -- timers -------------------------------------------------------------------------------

    def _start_timer(self, timer: StartTimer) -> None:
        is_first = timer.at < self._timers.next_at
        self._timers.push(timer.at, timer.event)
        if is_first:
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        if self._timers:
            self._alarm = self._loop.call_later(max(0.0, self._timers.next_at - monotonic()), self._ring)

    def _ring(self) -> None:
        try:
            self._hand_over_due(monotonic())
        finally:  # else whatever is due later would never be
            self._set_alarm()
        if self._emptied is not None:
            self._tell_if_empty()

    def _hand_over_due(self, now: float) -> None:
        for at, event in self._timers.pop_due(now):
            self._execute(self._handle(event, at), at)

    # -- servers ------------------------------------------------------------------------------

    def join(self, servers: Iterable[Server], outlet: Outlet) -> None:
        """A link is up: its servers may be chosen, and hear through `outlet`, which has told them `needs`."""
        now = monotonic()
        self._outlets.append(outlet)
        for server in servers:
            self.counts.know_pool(server.pool, self.core.servers.values())
            self._put[server.id] = outlet.put
            self._handle_one(ServerJoined(server), now)

    def behind(self) -> list[Outlet]:
        """The links for which so much waits that jobs should come in no faster."""
        return [outlet for outlet in self._outlets if outlet.is_behind]

    def drain_servers(self, servers: Iterable[Server]) -> None:
        """These servers take nothing new."""
        now = monotonic()
        for server in servers:
            self._handle_one(ServerDraining(server.id), now)

    def rate_server(self, server: Server, rate: float) -> None:
        """This server has another rate from now on."""
        self._handle_one(ServerRated(server.id, rate), monotonic())

    def leave(self, servers: Sequence[Server], outlet: Outlet) -> None:
        """The link of these servers is lost."""
        now = monotonic()
        self._outlets.remove(outlet)
        # All are taken out of the choice before the first one leaves: a job of the first
        # that is dispatched anew must not go to the second, which is as dead.
        for server in servers:
            self._handle_one(ServerDraining(server.id), now)
        for server in servers:
            self._handle_one(ServerLeft(server.id), now)
            del self._put[server.id]
        if self._emptied is not None:
            self._tell_if_empty()

    # -- policy and end -----------------------------------------------------------------------

    def switch(self, policy: Policy) -> None:
        """Put another policy in force and tell all servers what it needs.

        The core comes first: should the policy refuse to start, no server has heard of it. No event comes between
        the two, and the news takes its place in each outbox: behind the dispatches of the old policy, so that
        a server judges those by the old needs, and before the first one of the new.
        """
        self.counts.know_policy(policy.name)
        self._handle_one(PolicyChanged(policy), monotonic())
        self._announce()

    def _announce(self) -> None:
        frame = encode_notice(NewNeeds(needs=self.needs))
        for outlet in self._outlets:
            outlet.put_frame(frame)

    def drain(self) -> None:
        """Take no further job. Servers withdraw their pull-messages and post them at other routers."""
        if not self.draining:
            self.draining = True
            self._handle_one(Draining(), monotonic())
            self._announce()

    async def emptied(self) -> None:
        """Wait until the last job has ended."""
        self._emptied = self._loop.create_future()
        self._tell_if_empty()
        await self._emptied

    def _tell_if_empty(self) -> None:
        if self._emptied is not None and not self._emptied.done() and not self._jobs:
            self._emptied.set_result(None)

    def close(self) -> None:
        """Ring no more."""
        self._timers = DueHeap()
        self._set_alarm()
