"""The story of a server, told by hand."""

from __future__ import annotations

from random import Random
from typing import Any

from router.protocol.messages import Dispatch, End
from router.protocol.needs import Needs, PullNeeds
from server.core import Open, RouterJoined, ServerCore, ServerSpec
from tests.unit.core_story import CoreStory

PULL = Needs(pull=PullNeeds())
NOTHING = Needs()


class Story(CoreStory):
    """One server."""

    core: ServerCore

    def __init__(self, spec: ServerSpec | None = None, seed: int = 1, **options: Any) -> None:
        super().__init__(ServerCore(spec or ServerSpec("slow-1", "slow"), Random(seed), **options))

    def job(self, now: float, size: float = 1.0, **fields: Any) -> list[Any]:
        self.jobs += 1
        values = {"router": "router-1", "patience": None, "number": None, "expected": None, "held": 0} | fields
        return self.at(now, Dispatch(server=self.core.spec.id, job=self.jobs, size=size, **values))


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
