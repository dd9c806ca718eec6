"""What the generator knows of its jobs: one entry for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


def lost_on_the_way(ledger: Ledger) -> list[int]:
    """The places of the reasons of which no router need know."""
    return [place for place, why in enumerate(ledger.reasons) if why in LOST_ON_THE_WAY]
