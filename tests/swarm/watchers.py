"""Watches all cores of a run: what must be true after every event is looked at after every event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.core import RouterCore
from services.scenario import Scenario
from tests.swarm.router_watch import RouterWatch
from tests.swarm.server_watch import ServerWatch
from tests.swarm.story import Story
from tests.swarm.watch import Pair


class Watchers:
    """The watchers of one run, and what they know together.

    Rule: a run without faults is watched by `simulate(scenario, wrap=watchers.watch)`, and `watchers.finish()` when it
    is over. Where links come and go, whoever knows them says which one lies between a router and a server.

    Args:
        scenario: What runs.
        story: Of the run.
        options: Arguments of router cores, where they are not those of the scenario.
        switched: Whether policies change.

    Attributes:
        options: What is done about servers that fail or fall silent, as arguments of router cores.
        retries: How often a job may be dispatched again.
        routers, servers: The watchers.
        in_service: Whether jobs in service lose patience.
        used: Pull-messages, of all servers, that some dispatch has used.
        begun: Jobs that may be served only once, and whose service began.
    """

    def __init__(
        self, scenario: Scenario, story: Story, *, options: Mapping[str, Any] | None = None, switched: bool = False
    ) -> None:
        self.story = story
        self.options = scenario.routers.upkeep | dict(options or {})
        self.retries: int = self.options["retries"]
        self.switched = switched
        self.in_service = scenario.patience is not None and scenario.patience.in_service
        self.routers: list[RouterWatch] = []
        self.servers: list[ServerWatch] = []
        self.used: dict[tuple[int, int], None] = {}
        self.begun: dict[int, None] = {}
        self._pairs: dict[tuple[str, str], Pair] = {}

    def watch(self, core: Any) -> RouterWatch | ServerWatch:
        """Put a watcher around a core."""
        if isinstance(core, RouterCore):
            router = self.router_watch(core)
            self.routers.append(router)
            return router
        server = ServerWatch(core, self)
        self.servers.append(server)
        return server

    def router_watch(self, core: RouterCore) -> RouterWatch:
        """A watcher for a router."""
        return RouterWatch(core, self)

    def pair_at_router(self, router: str, server: str) -> Pair:
        """What lies between them, as it is at the router's end."""
        return self._pairs.setdefault((router, server), Pair(server))

    def pair_at_server(self, server: str, router: str) -> Pair:
        """What lies between them, as it is at the server's end."""
        return self.pair_at_router(router, server)

    def finish(self) -> None:
        """The run is over and no job is left."""
        for watch in [*self.routers, *self.servers]:
            watch.finish()
