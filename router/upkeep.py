"""What a router does about servers that fail, hang or fall silent: nothing, unless it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from router.events import RouterEffect
from router.freshness import NO_JOB, Freshness, Stale, ViewsDue
from router.memory import FailureMemory, Forgiven, MemoryRule, WatchDue
from router.policy import Server
from router.protocol.messages import End, Probe
from router.protocol.needs import Needs
from router.protocol.timer import StartTimer

if TYPE_CHECKING:
    from router.core import RouterCore


class Upkeep:
    """The failure memory and the watch over the views of one router; each of them is off by default.

    Args:
        core: The router.
        memory: When servers that fail or hang are set aside; `None`: never.
        stale_after: When a view is stale, in time units; `None`: never. `stale`: what it counts as.
        time_unit: Clock units in a time unit.

    Attributes:
        memory: Sets servers aside. `freshness`: watches over views. `None`: off.
    """

    def __init__(
        self, core: RouterCore, memory: MemoryRule | None, stale_after: float | None, stale: Stale, time_unit: float
    ) -> None:
        self._core = core
        self._members = core.members
        self.memory = None if memory is None else FailureMemory(memory, core.members, time_unit)
        self.freshness = None if stale_after is None else Freshness(stale_after * time_unit, stale, core.members)
        self._watchers = [watcher for watcher in (self.memory, self.freshness) if watcher is not None]

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

    def left(self, server: Server) -> None:
        """It is gone."""
        for watcher in self._watchers:
            watcher.left(server)

    def ended(self, server: Server, end: End, now: float) -> list[RouterEffect]:
        """A server has ended a job of ours; only if there is a memory."""
        assert self.memory is not None
        return self._done(self.memory.ended(server, end, now))

    def begin_anew(self, needs: Needs, now: float) -> None:
        """Another policy is in force."""
        if self.freshness is not None:
            self.freshness.begin_anew(needs.reports is not None or needs.probes, now)

    def _watch(self, event: WatchDue, now: float) -> list[RouterEffect]:
        """Who hangs is asked as well: the end of its job may have been lost, which its answer shows."""
        assert self.memory is not None
        late, timers = self.memory.watch(self._core.in_flight, self._core.dispatches, now)
        return [*self._done(timers), *self._ask(late)]

    def _forgive(self, event: Forgiven, now: float) -> list[RouterEffect]:
        assert self.memory is not None
        self.memory.forgive(event)
        return []

    def _look(self, event: ViewsDue, now: float) -> list[RouterEffect]:
        assert self.freshness is not None
        core = self._core
        asked, changed, timers = self.freshness.look(now)
        for server in changed:
            core.view_changed(server)
        return [*self._done(timers), *self._ask(asked)]

    def _ask(self, servers: list[Server]) -> list[Probe]:
        core = self._core
        asked = [server for server in servers if server.id not in core.draining]
        core.tally.probes += len(asked)
        return [Probe(server.id, core.id, NO_JOB) for server in asked]

    def _done(self, timers: list[StartTimer]) -> list[RouterEffect]:
        """Whoever was set aside meanwhile is not waited for."""
        effects: list[RouterEffect] = list(timers)
        while self._members.just_aside:
            effects += self._core.unask(self._members.just_aside.pop())
        return effects
