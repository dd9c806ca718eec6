"""What the generator knows of its jobs: one entry for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from router.protocol.eventlog import Kind
from services.audit.log import Log
from services.measure.records import Floats, Ints

LOST_ON_THE_WAY = ("link_lost", "no_answer", "no_router")
"""Why a job fails by the generator's own word: what a router says of it is not known."""

VIRTUAL = "virtual"
"""In place of a boot: the time of a simulation."""


@dataclass(frozen=True, eq=False)
class Ledger:
    """The generator's jobs, by number from 0.

    Shape: (jobs,), each column.

    Units: instants in seconds of the host's monotonic clock.

    Attributes:
        intended: When the schedule wanted it sent. `sent`: when it was; nan: never. `ended`: when its end was known.
        router: Place in `routers`. `server`: place in `servers`; -1: it never went to one.
        outcome: Place in `OUTCOMES`; -1: it has no end.
        reason: Place in `reasons`, of which the first is empty.
        doubled: Jobs that had a second end.
        tagged: Whether routers were told the numbers of the jobs.
        time_unit_s: Seconds in a time unit. `boot`: identifies the clock.
        processes: Who has begun an event log, as often as it was started. `metrics`: who has shown final metrics.
        broken: Why the run broke off; empty: it did not.
        kept: Whether the generator has left anything; if not, all of this is what routers say.
    """

    intended: Floats
    sent: Floats
    ended: Floats
    router: Ints
    server: Ints
    outcome: Ints
    reason: Ints
    routers: Sequence[str]
    servers: Sequence[str]
    reasons: Sequence[str]
    doubled: Sequence[int]
    tagged: bool
    time_unit_s: float
    boot: str = ""
    processes: Mapping[str, int] = field(default_factory=dict)
    metrics: Sequence[str] = ()
    broken: str = ""
    kept: bool = True


def unkept_ledger(logs: Sequence[Log], job: int | None = None) -> Ledger:
    """What stands for the ledger where a generator has left none.

    Args:
        logs: All there are, one at least.
        job: The one that is asked for, intended for the instant of its first arrival; left out: it has no jobs.

    Raises:
        LookupError: No router has this job on record.
    """
    routers = [log for log in logs if log.about.role == "router"]
    arrived: list[tuple[float, int]] = []
    for router, log in enumerate(routers):
        mine = (log.records["code"] & 255 == Kind.ARRIVED) & (log.records["tag"] == job)
        arrived += [(at, router) for at in log.records["at"][mine].tolist()]
    if job is not None and (job < 0 or not arrived):
        raise LookupError(job)
    at, place = min(arrived, default=(0.0, 0))

    def all_of(value: float) -> Any:
        return np.broadcast_to(np.array(value), (0 if job is None else job + 1,))

    return Ledger(
        intended=all_of(at), sent=all_of(np.nan), ended=all_of(np.nan), router=all_of(place), server=all_of(-1),
        outcome=all_of(-1), reason=all_of(0),
        routers=[log.about.id for log in routers], servers=[], reasons=[""], doubled=[], tagged=False, time_unit_s=1.0,
        boot=logs[0].about.boot, kept=False,
    )  # fmt: skip


def lost_on_the_way(ledger: Ledger) -> list[int]:
    """The places of the reasons of which no router need know."""
    return [place for place, why in enumerate(ledger.reasons) if why in LOST_ON_THE_WAY]
