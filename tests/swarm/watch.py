"""What watchers of routers and of servers have in common, and what lies between a router and a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from router.policy import Job
from router.protocol.messages import Dispatch

if TYPE_CHECKING:
    from tests.swarm.router_watch import RouterWatch
    from tests.swarm.server_watch import ServerWatch
    from tests.swarm.watchers import Watchers


class Pair:
    """A router and a server on one link, as messages tell of them.

    Attributes:
        there: Dispatches under way. `present`: jobs at the server. `back`: ends under way. `other`: further messages.
        since: When the server was welcomed by the router.
        news: How often the router has said on this link what it needs from then on.
        held: The numbers of the pull-messages that the router holds. `jobs`: the job of each dispatch.
        router, server: The watchers, while the link is up at their end. `origin`: `server`, for ever.
    """

    __slots__ = (
        "back",
        "held",
        "id",
        "jobs",
        "news",
        "origin",
        "other",
        "present",
        "router",
        "server",
        "since",
        "there",
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.there = self.present = self.back = self.other = 0
        self.news = 0
        self.since = 0.0
        self.held: dict[int, None] = {}
        self.jobs: dict[int, Job] = {}
        self.router: RouterWatch | None = None
        self.server: ServerWatch | None = None
        self.origin: ServerWatch | None = None


class Watched:
    """A core with somebody who looks on. Whatever else is asked of it is answered by the core itself.

    Args:
        core: The core.
        name: Its name.
        watchers: All of the run.
    """

    def __init__(self, core: Any, name: str, watchers: Watchers) -> None:
        self.core = core
        self.watchers = watchers
        self.story = watchers.story
        self._name = name
        self._at = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)

    def handle(self, event: Any, now: float) -> list[Any]:
        """Hand it on, and look at what comes of it."""
        raise NotImplementedError

    def entrance(self, kind: type) -> Callable[[Any, float], list[Any]]:
        """No event passes unseen, of whatever kind."""
        return self.handle

    def begins(self, event: Any, now: float) -> None:
        """An event is about to be handled; a core that is late hears of what was before what is."""
        story = self.story
        story.begins(self._name, event, now)
        if not self._at <= now <= story.now:
            self.fail(f"time runs from {self._at!r} to {now!r} at {self._name}")
        self._at = now

    def fail(self, what: str) -> NoReturn:
        """Raise, with the story."""
        self.story.fail(what)


def job_of(router: Any, dispatch: Dispatch) -> Job:
    """The job that a dispatch is about."""
    job: Job = router.in_flight[dispatch.job].job
    return job
