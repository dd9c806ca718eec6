"""What all watchers of a run share: the story so far, and what lies between a router and a server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from router.policy import Job
from router.protocol.errors import InvariantViolation
from router.protocol.messages import Dispatch

if TYPE_CHECKING:
    from services.simulator.faults import FaultyWorld
    from tests.swarm.router_watch import RouterWatch
    from tests.swarm.server_watch import ServerWatch

LATEST = 30
"""How many events a story tells besides those of the job."""

MOST_EVENTS = 400_000


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

    @property
    def is_possible(self) -> bool:
        """Whether no more has come than was sent."""
        return self.there >= 0 and self.present >= 0 and self.back >= 0 and self.other >= 0

    @property
    def is_up(self) -> bool:
        """Whether the link is up at both ends."""
        return self.router is not None and self.server is not None

    @property
    def is_quiet(self) -> bool:
        """Whether it is, and nothing is under way."""
        return self.is_up and not (self.there or self.back or self.other)


class Story:
    """Everything that happened, if it is to be told; else how much.

    Attributes:
        events: Handled so far.
        now: The instant.
        begun: Jobs that may be served only once, and whose service began.
    """

    def __init__(self, told: bool) -> None:
        self.events = 0
        self.begun: dict[int, None] = {}
        self.now = 0.0
        self._told = told
        self._lines: list[str] = []

    def begins(self, name: str, event: Any, now: float, was: float) -> None:
        """An event is about to be handled, as of `now`; time has come to `was`."""
        self.events += 1
        if self.events > MOST_EVENTS:
            self.fail(f"more than {MOST_EVENTS} events: it does not end")
        if self._told:
            as_of = f" (as of {now:.4f})" if now != was else ""
            self._lines.append(f"{was:.4f} {name}{as_of}: {event}")

    def comes(self, effects: list[Any]) -> None:
        """Of which this came."""
        if self._told and effects:
            self._lines[-1] = "\n      -> ".join([self._lines[-1], *map(str, effects)])

    def says(self, text: str) -> None:
        """Something else happened."""
        if self._told:
            self._lines.append(f"{self.now:.4f} {text}")

    def about(self, what: str) -> list[str]:
        """The latest events, and those before that were about the job of a violation."""
        latest, before = self._lines[-LATEST:], self._lines[:-LATEST]
        job = re.search(r"job (\d+)", what)
        return [*([line for line in before if f"Job(id={job[1]}," in line] if job else []), *latest]

    def fail(self, what: str) -> NoReturn:
        """Raise, with the story."""
        raise InvariantViolation(f"{what}, at {self.now:.6g}, after event {self.events}", self.about(what))


class Watched:
    """A core with somebody who looks on. Whatever else is asked of it is answered by the core itself.

    Args:
        core: The core.
        story: Of the run.
        world: In which it lives.
    """

    def __init__(self, core: Any, story: Story, world: FaultyWorld) -> None:
        self.core = core
        self.story = story
        self.world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)

    def fail(self, what: str) -> NoReturn:
        """Raise, with the story."""
        self.story.fail(what)


def job_of(router: Any, dispatch: Dispatch) -> Job:
    """The job that a dispatch is about."""
    job: Job = router.in_flight[dispatch.job].job
    return job
