"""What a live run has left in memory when its processes have ended, also one that broke off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from services.lab.errors import RunInvalid
from services.loadgen.client.result import Generation
from services.measure.quantities import FAILED
from services.measure.records import Fleet, Records


@dataclass(frozen=True)
class Left:
    """What a run has left.

    Attributes:
        generation: What the generator says of itself.
        records: One row a job, with servers as places in the fleet; a job without an end has failed.
        fleet: The servers by the names that they have.
        processes: Who has begun an event log, as often as it was started.
        expositions: Everything that each process, by name, showed at the end; of those that run then.
        broken: Why the run broke off; empty: it did not.
    """

    generation: Generation
    records: Records
    fleet: Fleet
    processes: Mapping[str, int] = field(default_factory=dict)
    expositions: Mapping[str, str] = field(default_factory=dict)
    broken: str = ""


class RunBroken(RunInvalid):
    """A run that broke off when jobs were under way.

    Args:
        why: The error.
        left: What there is nevertheless.
    """

    def __init__(self, why: RunInvalid, left: Left) -> None:
        super().__init__(why.kind, str(why))
        self.left = left


def records_of(generation: Generation, fleet: Fleet) -> Records:
    """The generator's rows, as `Left` has them.

    Raises:
        RunInvalid: A job went to a server that is not in the fleet.
    """
    records = generation.records
    place_of = {name: place for place, name in enumerate(fleet.servers)}
    try:
        places = np.array([place_of[name] for name in generation.servers] + [-1], np.int64)
    except KeyError as error:
        raise RunInvalid("fleet", f"a job went to {error}, which the scenario does not know") from None
    outcome = np.where(records.outcome < 0, FAILED, records.outcome)
    return replace(records, server=places[records.server], outcome=outcome)
