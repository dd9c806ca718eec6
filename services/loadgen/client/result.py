"""What a generator writes down, as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from services.lab.errors import writing
from services.measure.records import Ints, Records


@dataclass(frozen=True, slots=True)
class Generation:
    """What became of the jobs of one schedule.

    Attributes:
        records: One row a job; `server` is a place in `servers`, `outcome` -1 for a job without an answer.
        servers: The servers that were named in answers. `pools`: the pool of each.
        reasons: Failed jobs by reason.
        why: Shape (jobs,): the reason of each, a place in `whys`, of which the first is empty.
        doubled: Ends of jobs that had one already. `twice`: the first such jobs.
        start_s: The instant of the schedule's 0 on this host's monotonic clock.
        one_clock: Whether servers' instants are on this host's clock; else `arrived` is estimated: the network's
            share of a sojourn is taken to be the same out and back.
        router_generator_units: Mean one-way delay of answers, nan when there is no common clock.
        lateness_p99_units: 99th percentile of sent − intended.
        cpu_share: Cores used while sending.

    Units: time units, except `start_s`.
    """

    records: Records
    servers: list[str]
    pools: list[str]
    reasons: dict[str, int]
    why: Ints
    whys: list[str]
    doubled: int
    twice: list[int]
    start_s: float
    one_clock: bool
    router_generator_units: float
    lateness_p99_units: float
    cpu_share: float


_COLUMNS = [column.name for column in fields(Records)]
_REST = [field.name for field in fields(Generation) if field.name not in ("records", "why")]


def save(path: Path, generation: Generation) -> None:
    """Write everything to one file, `.npz`, which is whole if it is there.

    Raises:
        RunInvalid: It cannot be written.
    """
    rest = json.dumps({name: getattr(generation, name) for name in _REST})
    columns: dict[str, Any] = {name: getattr(generation.records, name) for name in _COLUMNS}
    part = path.with_name(f"{path.name}.part")
    with writing(path):
        try:
            with part.open("wb") as file:
                np.savez(file, rest=np.array(rest), why=generation.why, **columns)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def load(path: Path) -> Generation:
    """Read what `save` has written."""
    with np.load(path) as archive:
        rest: Mapping[str, Any] = json.loads(str(archive["rest"]))
        records = Records(**{name: archive[name] for name in _COLUMNS})
        why = archive["why"]
    return Generation(records=records, why=why, **{name: rest[name] for name in _REST})
