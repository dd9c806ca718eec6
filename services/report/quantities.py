"""What each quantity is: a title and one line, by the name that it has everywhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    """A quantity in words.

    Attributes:
        title: What people call it.
        unit: In which it is given; empty: a pure number.
        text: One sentence.
    """

    title: str
    unit: str
    text: str


_TIME = "time units"
_SHARE = ""

GROUPS: dict[str, dict[str, Explained]] = {
    "What becomes of a job": {
        "wait_probability": Explained(
            "P(wait)", _SHARE, "The share of jobs that were admitted and found all slots of their server busy."
        ),
        "block_probability": Explained(
            "P(block)", _SHARE, "The share of jobs that were lost because their server had no vacancy."
        ),
        "abandon_probability": Explained(
            "P(abandon)", _SHARE, "The share of jobs that left by themselves when their patience was over."
        ),
        "failed_probability": Explained(
            "P(fail)", _SHARE, "The share of jobs that were lost for another reason: no server, a link that broke."
        ),
    },
    "The time of a job": {
        "sojourn_mean": Explained(
            "mean sojourn", _TIME, "From the instant at which a job was meant to arrive until its end; served jobs."
        ),
        "sojourn_p50": Explained("median sojourn", _TIME, "Half of the served jobs had a sojourn no longer than this."),
        "sojourn_p95": Explained("p95 of sojourn", _TIME, "Of the served jobs, 95% had a sojourn no longer than this."),
        "sojourn_p99": Explained("p99 of sojourn", _TIME, "Of the served jobs, 99% had a sojourn no longer than this."),
        "waiting_mean": Explained(
            "mean waiting", _TIME, "From arrival to the start of service; admitted jobs, those that did not wait too."
        ),
    },
    "Queues": {
        "jobs_in_system_mean": Explained(
            "jobs in the system", "jobs", "The jobs waiting and in service at all servers together, over time."
        ),
        "jobs_in_system_variance": Explained(
            "variance of jobs in the system", "jobs²", "How much the jobs at all servers together vary over time."
        ),
        "queue_length_mean": Explained(
            "queue length", "jobs", "The jobs waiting and in service at one server, over time and servers."
        ),
        "queue_length_variance": Explained(
            "variance of queue length", "jobs²", "How much the queue length varies over time and servers."
        ),
        "perpendicular_second_moment": Explained(
            "imbalance of queues", "jobs²",
            "The mean of the sum of squared deviations of queue lengths from their average at that instant: "
            "0 when all queues are equally long.",
        ),
        "queue_tail": Explained(
            "queue tail", _SHARE, "The share of servers with at least k jobs, over time; k stands in brackets."
        ),
    },
    "Pools": {
        "utilisation": Explained("utilisation", _SHARE, "The share of the pool's slots that is busy."),
        "job_share": Explained("share of jobs", _SHARE, "The share of all served jobs that this pool served."),
    },
    "Messages": {
        "messages.total": Explained(
            "control messages", "per job", "All control messages, of whatever kind: what the policy costs."
        ),
        "messages.pull": Explained(
            "pull-messages", "per job", "A server tells one router that it is idle, or has vacancy."
        ),
        "messages.withdraw": Explained("withdrawals", "per job", "A server takes a pull-message back."),
        "messages.probe": Explained("probes", "per job", "A router asks a server for its queue length."),
        "messages.report": Explained("reports", "per job", "A server gives its queue length, asked or not."),
        "dispatch.random": Explained(
            "fallback", "of dispatches", "The share of dispatches for which the policy used its fallback."
        ),
        "dispatch.stale": Explained(
            "stale", "of dispatches",
            "The share of dispatches made on a pull-message or view that was wrong when the job arrived at its server.",
        ),
    },
}  # fmt: skip

EXPLAINED = {name: explained for group in GROUPS.values() for name, explained in group.items()}

PRIMARY = ("sojourn_mean", "sojourn_p99", "wait_probability", "block_probability", "abandon_probability",
           "failed_probability", "messages.total")  # fmt: skip
"""What the top of a page shows."""


def family(name: str) -> str:
    """The explained name of a quantity: of a pool's, the part before the pool."""
    return name if name in EXPLAINED else name.split(".")[0]


def title(name: str) -> str:
    """The title of a quantity, with its pool."""
    base = family(name)
    pool = name.removeprefix(base).removeprefix(".")
    words = EXPLAINED[base].title if base in EXPLAINED else base
    return f"{words}, {pool}" if pool else words


def capital(text: str) -> str:
    """As a sentence begins."""
    return text[:1].upper() + text[1:]


def axis(name: str) -> str:
    """The title with its unit, as an axis is labelled."""
    explained = EXPLAINED.get(family(name))
    unit = explained.unit if explained is not None else ""
    if unit.startswith(("per ", "of ")):
        return f"{title(name)} {unit}"
    return f"{title(name)} ({unit})" if unit else title(name)


def group(name: str) -> str:
    """The heading under which a quantity stands."""
    base = family(name)
    if name != base and base in ("queue_length_mean", "queue_tail"):
        return "Pools"
    return next((heading for heading, members in GROUPS.items() if base in members), "Further quantities")
