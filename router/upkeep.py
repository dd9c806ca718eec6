"""What a router does about servers that fail, hang or fall silent: nothing, unless it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.events import RouterEffect
from router.freshness import NO_JOB, Freshness, Stale, ViewsDue
from router.in_force import InForce
from router.jobs import InFlight
from router.members import Members
from router.memory import FailureMemory, Forgiven, MemoryRule, WatchDue
from router.policy import Server
from router.protocol.messages import Probe


class Upkeep:
    """The failure memory and the watch over the views of one router; each of them is off by default.

    Whom it sets aside is in `members.just_aside`, for whoever waits for their answers.

    Args:
        members: The servers.
        in_force: The policy.
        in_flight: Jobs that have no end yet, by the numbers of their dispatches, in order.
        memory: When servers that fail or hang are set aside; `None`: never.
        stale_after: When a view is stale, in time units; `None`: never. `stale`: what it counts as.
        time_unit: Clock units in a time unit.

    Attributes:
        memory: Sets servers aside. `freshness`: watches over views. `None`: off.
    """

    def __init__(
        self,
        members: Members,
        in_force: InForce,
        in_flight: dict[int, InFlight],
        memory: MemoryRule | None,
        stale_after: float | None,
        stale: Stale,
        time_unit: float,
    ) -> None:
        self._members = members
        self._in_force = in_force
        self._in_flight = in_flight
        self.memory = None if memory is None else FailureMemory(memory, members, time_unit)
        self.freshness = None if stale_after is None else Freshness(stale_after * time_unit, stale, members)
        self._watchers = [watcher for watcher in (self.memory, self.freshness) if watcher is not None]
        self.begin_anew(0.0)

    def handlers(self) -> dict[type, Callable[[Any, float], list[RouterEffect]]]:
        """What the timers of both come to."""
        found: dict[type, Callable[[Any, float], list[RouterEffect]]] = {}
        if self.memory is not None:
            found |= {WatchDue: self._watch, Forgiven: self._forgive}
        if self.freshness is not None:
            found |= {ViewsDue: self._look}
        return found

    @property
    def stale_views(self) -> int:
        """Servers whose views are stale."""
        return 0 if self.freshness is None else len(self.freshness.stale)

    def joined(self, server: Server, now: float) -> list[RouterEffect]:
        """A server, or a new incarnation of one."""
        return [timer for watcher in self._watchers for timer in watcher.joined(server, now)]

    def drains(self, server: Server, now: float) -> None:
        """It takes nothing new. Call it before the other parts know."""
        if self.memory is not None:
            self.memory.drains(server, now)

    def leaves(self, server: Server, now: float) -> None:
        """Its link is lost. Call it before the other parts forget the server."""
        for watcher in self._watchers:
            watcher.leaves(server, now)

    def begin_anew(self, now: float) -> None:
        """Another policy is in force."""
        if self.freshness is not None:
            needs = self._in_force.policy.needs
            self.freshness.begin_anew(needs.reports is not None or needs.probes, now)

    def _watch(self, event: WatchDue, now: float) -> list[RouterEffect]:
        """Who hangs is asked as well: the end of its job may have been lost, which its answer shows."""
        assert self.memory is not None
        late, timers = self.memory.watch(self._in_flight, now)
        return [*timers, *self._ask(late)]

    def _forgive(self, event: Forgiven, now: float) -> list[RouterEffect]:
        assert self.memory is not None
        self.memory.forgive(event)
        return []

    def _look(self, event: ViewsDue, now: float) -> list[RouterEffect]:
        assert self.freshness is not None
        in_force = self._in_force
        asked, changed, timers = self.freshness.look(now)
        for server in changed:
            if in_force.on_report is not None and server.id not in self._members.unchosen:
                in_force.tell(in_force.policy, in_force.on_report, server)
        return [*timers, *self._ask(asked)]

    def _ask(self, servers: list[Server]) -> list[Probe]:
        asked = [server for server in servers if server.id not in self._members.draining]
        self._in_force.tally.probes += len(asked)
        return [Probe(server.id, self._members.router, NO_JOB) for server in asked]
