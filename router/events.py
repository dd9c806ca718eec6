"""What `RouterCore` takes in and gives out, besides messages; and what it counts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from router.policy import Job, Policy, Server
from router.protocol.messages import Dispatch, End, Outcome, Probe, Pull, Report, Withdraw
from router.protocol.timer import StartTimer


class JobArrived(NamedTuple):
    """A job has reached this router."""

    job: Job


class ServerJoined(NamedTuple):
    """A link to a server is up; it may be chosen. A new incarnation is a new `Server`."""

    server: Server


class ServerDraining(NamedTuple):
    """The server finishes what it has and takes nothing new."""

    server: str


class ServerLeft(NamedTuple):
    """The link to the server is lost; its jobs in flight fail."""

    server: str


class ServerRated(NamedTuple):
    """The server says that its rate is another one from now on."""

    server: str
    rate: float


class PolicyChanged(NamedTuple):
    """From now on jobs are decided by another policy, made new.

    The driver tells all servers its needs, even if they are the same: each then reports afresh, if it is to report.
    """

    policy: Policy


class Draining(NamedTuple):
    """This router takes no further jobs; those in its system end as usual."""


class ProbesDue(NamedTuple):
    """Timer: the oldest job that waits for answers has waited long enough."""


RouterEvent = (
    JobArrived | Pull | Withdraw | Report | End | ServerJoined | ServerDraining | ServerLeft | ServerRated
    | PolicyChanged | Draining | ProbesDue
)  # fmt: skip


class EndJob(NamedTuple):
    """The job has its one end.

    Attributes:
        job: The job.
        outcome: How it ended.
        reason: Why, when it failed (`policy`: that raised instead of deciding); else empty.
        server: Where it was; `None`: it never went to a server.
        end: What the server said of it; `None`: the server did not end it.
        policy: The name of the policy that decided it; empty: none did.
        fallback: The policy chose at random for want of knowledge.
    """

    job: Job
    outcome: Outcome
    reason: str
    server: Server | None
    end: End | None
    policy: str
    fallback: bool


RouterEffect = Dispatch | Probe | EndJob | StartTimer


MOST_ENDS = 50
"""Kinds of end that are told apart."""


class Tally:
    """What one policy has done so far; plain counts, read at scrape time.

    Attributes:
        policy: Its name.
        arrivals: Jobs that arrived while it was in force.
        ends: Jobs ended, by `(outcome, reason)`.
        dispatches: Dispatches sent. `probes`: probes sent.
        fallbacks: Dispatches chosen at random for want of knowledge.
        stale: Dispatches whose pull-message or expected queue length was wrong on arrival.
        retries: Dispatches of jobs that had failed at another server, or with its link.
        undecided: Jobs whose probed servers all failed to answer, sent to a random server.
    """

    __slots__ = ("arrivals", "dispatches", "ends", "fallbacks", "policy", "probes", "retries", "stale", "undecided")

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.arrivals = 0
        self.ends: Counter[tuple[Outcome, str]] = Counter()
        self.dispatches = 0
        self.probes = 0
        self.fallbacks = 0
        self.retries = 0
        self.stale = 0
        self.undecided = 0

    def kind_of_end(self, outcome: Outcome, reason: str) -> tuple[Outcome, str]:
        """Under what an end is counted. Servers give the reason: with ever new ones there would be ever more kinds."""
        kind = outcome, reason
        return kind if kind in self.ends or len(self.ends) < MOST_ENDS else (outcome, "other")

    def undispatched(self, job: Job, outcome: Outcome, reason: str = "") -> EndJob:
        """Book the end of a job that is at no server."""
        self.ends[outcome, reason] += 1
        return EndJob(job, outcome, reason, None, None, self.policy, False)
