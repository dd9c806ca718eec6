"""The policy in force: what it is told, what it has done, and what its errors come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.events import EndJob, Tally
from router.policy import Block, Job, Policy
from router.protocol.errors import LocalProtocolError
from router.questions import Questions

OnError = Callable[[Policy, Exception], None]
"""Told what a policy in force has raised."""


def raise_it(policy: Policy, error: Exception) -> None:
    """Let the error out."""
    raise error


class InForce:
    """The policy by which a router decides, and those before it that are still in use.

    Args:
        policy: The policy in force at first.
        questions: What policies have asked.
        on_error: Told what a policy has raised.

    Attributes:
        policy: The policy in force. `tally`: what it has done. `tallies`: those of all, by name.
        on_sent, on_report, on_job_ended: Its hooks; `None`: it does not care.
        tells_held: Whether servers are told how many pull-messages it holds.
        on_error: As given. What jobs meet is called in place, which is faster than `tell`.
    """

    def __init__(self, policy: Policy, questions: Questions, on_error: OnError) -> None:
        self.tallies: dict[str, Tally] = {}
        self.on_error = on_error
        self._questions = questions
        self.use(policy)

    def use(self, policy: Policy) -> None:
        """Put `policy` in force; hooks that it does not override are not called at all."""
        pull = policy.needs.pull  # first: a policy that cannot say what it needs is not put in force
        kind = type(policy)
        self.policy = policy
        self.tally = self.tallies.setdefault(policy.name, Tally(policy.name))
        self.tells_held = pull is not None and pull.placement == "shortest_of"
        self.on_sent = policy.on_sent if kind.on_sent is not Policy.on_sent else None
        self.on_report = policy.on_report if kind.on_report is not Policy.on_report else None
        self.on_job_ended = policy.on_job_ended if kind.on_job_ended is not Policy.on_job_ended else None

    def in_use(self) -> list[Policy]:
        """The policy in force, and those before it whose jobs still wait for answers: they must know who is there."""
        return list(dict.fromkeys([self.policy, *(probing.policy for probing in self._questions.waiting.values())]))

    def tell(self, policy: Policy, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook of a policy; `None` if it raises."""
        try:
            return hook(*arguments)
        except Exception as error:
            self.on_error(policy, error)
            return None

    def not_dispatched(self, job: Job, decision: object, policy: Policy, tally: Tally) -> EndJob:
        """The end of a job by a decision that names no server to which it could go."""
        if type(decision) is Block:
            return tally.undispatched(job, "blocked")
        error = LocalProtocolError(f"policy {policy.name} decides {decision!r:.80} for {job}: no server that is here")
        return self.undecidable(job, policy, tally, error)

    def undecidable(self, job: Job, policy: Policy, tally: Tally, error: Exception) -> EndJob:
        """The end of a job at whose decision a policy has raised."""
        self.on_error(policy, error)
        return tally.undispatched(job, "failed", "policy")
