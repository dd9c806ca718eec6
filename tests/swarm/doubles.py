"""A router to which some messages of servers come twice."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from router.core import RouterCore
from router.protocol.messages import End, Pull, Report, Withdraw
from tests.swarm.router_watch import RouterWatch

if TYPE_CHECKING:
    from tests.swarm.run import SwarmWorld

FROM_SERVERS = frozenset((End, Pull, Withdraw, Report))
LATER = (0.0, 0.0, 1.0, 10.0)
"""How long after the first time, for an end; anything else could be overtaken by what contradicts it."""


class DoublingWatch(RouterWatch):
    """Watches that nothing comes of it.

    Args:
        core: The router's core.
        world: In which it lives.
        share: Of the messages.
        rng: Draws them.
    """

    def __init__(self, core: RouterCore, world: SwarmWorld, share: float, rng: Random) -> None:
        super().__init__(core, world.watchers)
        self._world = world
        self._share = share
        self._rng = rng

    def handle(self, event: Any, now: float) -> list[Any]:
        """Hand it on, once or twice."""
        effects = super().handle(event, now)
        if type(event) in FROM_SERVERS and self._rng.random() < self._share:
            after = self._rng.choice(LATER)
            if after == 0.0 or type(event) is not End:
                self._double(event, now)
            else:
                self._world.agenda.at(self.story.now + after, self._double_later, event)
        return effects

    def _double_later(self, event: Any, now: float) -> None:
        router = self._world.routers[self.core.id]
        if router.core is self and router.alive and not router.hung:
            self._double(event, now)

    def _double(self, event: Any, now: float) -> None:
        """The same message comes again; an end even by a link that is lost meanwhile."""
        pair = self.pairs.get(event.server)
        if type(event) is End:
            self._orphaned += 1
        elif pair is None or pair.router is not self:
            return
        else:
            pair.other += 1
        self.story.says(f"the next message comes twice to {self.core.id}")
        effects = self._double_end(event, now) if type(event) is End else self.handle(event, now)
        if effects:
            self.fail(f"of {event}, which came twice, came {effects}")

    def _double_end(self, event: End, now: float) -> list[Any]:
        self.begins(event, now)
        effects: list[Any] = self.core.handle(event, now)
        self._conserves()
        return effects
