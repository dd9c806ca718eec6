"""The story of a router, told by hand."""

from __future__ import annotations

from typing import Any

from router.core import JobArrived, RouterCore, ServerJoined
from router.policy import Job, Server
from router.protocol.messages import Dispatch, End, Report
from tests.property.variants import build
from tests.unit.core_story import CoreStory


class Story(CoreStory):
    """A router with servers."""

    core: RouterCore

    def __init__(self, table: dict[str, Any], count: int, **options: Any) -> None:
        super().__init__(RouterCore("r", build(table), **options))
        self.servers = [Server(f"s-{i}", "pool", 1.0, 1, float("inf")) for i in range(count)]
        for server in self.servers:
            self.at(0.0, ServerJoined(server))

    def job(self, now: float, kind: type[Job] = Job) -> list[Any]:
        self.jobs += 1
        return self.at(now, JobArrived(kind(self.jobs)))

    def sent(self, now: float, kind: type[Job] = Job) -> Dispatch:
        """A job that is dispatched at once."""
        said = [effect for effect in self.job(now, kind) if isinstance(effect, Dispatch)]
        assert len(said) == 1
        return said[0]

    def end(self, now: float, dispatch: Dispatch, outcome: str = "served", reason: str = "", **changes: Any) -> Any:
        end = End(dispatch.server, "r", dispatch.job, outcome, reason, now, 0.0, 0.0, False, None, None)  # type: ignore[arg-type]
        return self.at(now, end._replace(**changes))

    def fail(self, now: float, server: str, times: int) -> None:
        """Send jobs until so many went to that server; it fails them, the others serve theirs."""
        failed = 0
        while failed < times:
            dispatch = self.sent(now)
            if dispatch.server == server:
                failed += 1
                self.end(now, dispatch, "failed", "server")
            else:
                self.end(now, dispatch)

    @property
    def aside(self) -> list[str]:
        return list(self.core.members.aside)


def reported(story: Story, now: float, lengths: dict[str, int]) -> None:
    for server, length in lengths.items():
        story.at(now, Report(server, "r", length, story.core.servers[server].sent, None))
