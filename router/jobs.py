"""Jobs of a router that need more than their number: those that are at servers, and those served at most once."""

from __future__ import annotations

from typing import NamedTuple

from router.events import EndJob, Tally
from router.policy import Job, Server
from router.protocol.messages import End, Outcome


class OnceJob(Job):
    """A job that is served at most once: it is dispatched anew only if its service certainly never began."""

    __slots__ = ()


class InFlight(NamedTuple):
    """A dispatch that has no end yet; `tried`: the servers at which the job was before."""

    job: Job
    server: Server
    tally: Tally
    fallback: bool
    tried: tuple[str, ...]

    @property
    def attempt(self) -> int:
        """How often it was dispatched before."""
        return len(self.tried)

    def over(self, end: End | None, reason: str = "") -> EndJob:
        """Book the end of the job; without `end` it has failed, but the server did not say so."""
        job, server, tally, fallback, _ = self
        outcome: Outcome = "failed"
        if end is not None:
            outcome, reason = end.outcome, end.reason
        tally.ends[tally.kind_of_end(outcome, reason)] += 1
        return EndJob(job, outcome, reason, server, end, tally.policy, fallback)
