"""Where the jobs of a router are that have arrived and not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from router.events import Tally
from router.policy import Answer, Assign, Job, Policy, Server


class InFlight(NamedTuple):
    """A dispatch that has no end yet."""

    job: Job
    server: Server
    tally: Tally
    assign: Assign
    attempt: int


class Probing:
    """A job that waits for answers, with the policy that asked.

    Attributes:
        silent: Those asked that have not answered yet.
        due: The instant at which it has waited long enough.
        answers: So far, in the order of coming.
    """

    __slots__ = ("answers", "attempt", "due", "job", "policy", "silent", "tally")

    def __init__(
        self, job: Job, policy: Policy, tally: Tally, silent: Sequence[Server], due: float, attempt: int
    ) -> None:
        self.job = job
        self.policy = policy
        self.tally = tally
        self.silent = dict.fromkeys(silent)
        self.due = due
        self.attempt = attempt
        self.answers: list[Answer] = []
