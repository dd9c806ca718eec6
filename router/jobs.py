"""Where the jobs of a router are that have arrived and not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from router.events import Tally
from router.policy import Answer, Job, Policy, Server


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


class Probing:
    """A job that waits for answers, with the policy that asked.

    Attributes:
        silent: Those asked that have not answered yet.
        due: The instant at which it has waited long enough.
        answers: So far, in the order of coming.
    """

    __slots__ = ("answers", "due", "job", "policy", "silent", "tally")

    def __init__(self, job: Job, policy: Policy, tally: Tally, silent: Sequence[Server], due: float) -> None:
        self.job = job
        self.policy = policy
        self.tally = tally
        self.silent = dict.fromkeys(silent)
        self.due = due
        self.answers: list[Answer] = []
