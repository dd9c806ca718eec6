"""What a policy needs servers to send it; a router announces it on each link."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
# More than that does not go on the wire.
_MOST = (1 << 63) - 1
Count = Annotated[int, Field(ge=0, le=_MOST)]
CountFrom1 = Annotated[int, Field(ge=1, le=_MOST)]

# A router that asks for reports more often than this would drown itself and every server.
SHORTEST_PERIOD_S = 1e-3


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PullNeeds(_Frozen):
    """When a server posts a pull-message, at which router, and what happens to a wrong one.

    Attributes:
        announce_at: Post when at most that many jobs are left; `"vacancy"`: when a slot is free.
        stale: What a server does when a job that did not use its pull-message takes it above
            `announce_at`. `withdraw`: it takes the message back. `keep`: the message stays, and
            no second one is posted while it is out. `duplicate`: it stays, and each fall to
            `announce_at` posts a further one.
        placement: `random`: one uniformly random router of those that want pull-messages.
            `shortest_of`: of `k` such routers, the one that last said it holds fewest.
        k: Routers looked at by `shortest_of`.
    """

    announce_at: Count | Literal["vacancy"] = 0
    stale: Literal["withdraw", "keep", "duplicate"] = "withdraw"
    placement: Literal["random", "shortest_of"] = "random"
    k: CountFrom1 = 2


class ReportNeeds(_Frozen):
    """When a server reports its queue length, and to whom.

    Attributes:
        change: On each change, an arrival or a departure.
        departure: At a departure, with this probability.
        idle: Surely at a departure that leaves the server idle.
        every: Each that many time units, whatever happened.
        on_end: Riding on each `end`, to the router whose job ended; no message of its own.
        to: `all` routers that want reports, `one` uniformly random one, or the one whose
            view is `most_wrong`. Periodic reports and those on change go to all.
    """

    change: bool = False
    departure: Probability = 0.0
    idle: bool = False
    every: Positive | None = None
    on_end: bool = False
    to: Literal["all", "one", "most_wrong"] = "all"


class Needs(_Frozen):
    """All that a policy asks of the servers; `None` and `False` cost no message."""

    pull: PullNeeds | None = None
    reports: ReportNeeds | None = None
    probes: bool = False


def too_often(needs: Needs, time_unit_s: float) -> str:
    """What is wrong with the period of the reports, if they are asked for too often; else nothing."""
    every = None if needs.reports is None else needs.reports.every
    if every is None or every * time_unit_s >= SHORTEST_PERIOD_S:
        return ""
    return (
        f"reports every {every:g} time units of {time_unit_s:g} s: "
        f"at least {SHORTEST_PERIOD_S:g} s must lie between them"
    )
