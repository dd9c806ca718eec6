"""One server whose timers are kept, so that a test can tell its story by hand."""

from __future__ import annotations

from random import Random
from typing import Any

from router.protocol.due import DueHeap
from router.protocol.messages import Dispatch, End
from router.protocol.needs import Needs, PullNeeds
from router.protocol.timer import StartTimer
from server.core import (
    Open,
    RouterJoined,
    ServerCore,
    ServerSpec,
)

PULL = Needs(pull=PullNeeds())
NOTHING = Needs()


class Story:
    """One server, driven as it must be: due ends first. What it says is kept apart from its timers."""

    def __init__(self, spec: ServerSpec | None = None, seed: int = 1, **options: Any) -> None:
        self.core = ServerCore(spec or ServerSpec("slow-1", "slow"), Random(seed), **options)
        self.due: DueHeap[Any] = DueHeap()
        self.jobs = 0

    def at(self, now: float, event: Any = None) -> list[Any]:
        """What the server says up to `now`, and to `event` then."""
        said = []
        for at, due in self.due.pop_due(now):
            said += self._handle(due, at)
        if event is not None:
            said += self._handle(event, now)
        return said

    def job(self, now: float, size: float = 1.0, **fields: Any) -> list[Any]:
        self.jobs += 1
        values = {"router": "router-1", "patience": None, "number": None, "expected": None, "held": 0} | fields
        return self.at(now, Dispatch(server=self.core.spec.id, job=self.jobs, size=size, **values))

    def _handle(self, event: Any, at: float) -> list[Any]:
        said = []
        for effect in self.core.handle(event, at):
            if isinstance(effect, StartTimer):
                self.due.push(effect.at, effect.event)
            else:
                said.append(effect)
        return said


def opened(needs: Needs, spec: ServerSpec | None = None, routers: int = 1, **options: Any) -> Story:
    """A server with its routers joined, its first messages posted, at instant 0."""
    story = Story(spec, **options)
    for number in range(1, routers + 1):
        story.at(0.0, RouterJoined(f"router-{number}", needs))
    story.at(0.0, Open())
    return story


def ends(said: list[Any]) -> list[tuple[int, str, float, float]]:
    return [(end.job, end.outcome, end.waiting, end.service) for end in said if isinstance(end, End)]


def kinds(said: list[Any]) -> list[str]:
    return [type(message).__name__ for message in said]
