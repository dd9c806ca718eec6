"""What a run leaves behind, the same for a live run and a simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from router.memory import HARMLESS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOT_ITS_DOING = HARMLESS | {"", "link_lost", "unaccounted"}
"""Reasons of jobs at a server that it has not failed: it turned them away, or its router did not hear of their ends."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The servers of a run, in order: pool after pool.

    Attributes:
        servers: Their names. `pool_of`: shape (servers,), the place of each one's pool.
        pools: The names of the pools. `rates`, `slots`, `capacities`: shape (pools,).
        routers: The names of the routers.
    """

    servers: list[str]
    pool_of: Ints
    pools: list[str]
    rates: Floats
    slots: Ints
    capacities: Floats
    routers: list[str]


@dataclass(frozen=True, slots=True)
class Records:
    """One row a job, in order of intended instants; instants and durations in time units from the schedule's start.

    Attributes:
        intended: When the schedule wanted it sent. `sent`: when it was.
        arrived: When it reached its server. `ended`: when its end was known to the generator.
        waiting: From `arrived` to the start of service. `service`: from the start to the end.
        size: Service requirement, unit mean. `patience`: nan for ever.
        router, server: Places in the fleet; server -1: it never went to one.
        outcome: Place in `OUTCOMES`. `faulted`: its server failed it, and did not just turn it away or lose its link.
        fallback, stale: As `dispatch.random` and `dispatch.stale` count them.

    Shape: (jobs,), each. `arrived`, `waiting`, `service` are nan where server is -1.
    """

    intended: Floats
    sent: Floats
    arrived: Floats
    ended: Floats
    waiting: Floats
    service: Floats
    size: Floats
    patience: Floats
    router: Ints
    server: Ints
    outcome: Ints
    faulted: Flags
    fallback: Flags
    stale: Flags


def select(records: Records, rows: Flags) -> Records:
    """The rows where the flag is set."""
    return Records(**{column.name: getattr(records, column.name)[rows] for column in fields(Records)})


@dataclass(frozen=True, slots=True)
class MessageLog:
    """Counters read now and then.

    Attributes:
        instants: Shape (readings,), time units from the schedule's start, rising.
        jobs: Shape (readings,): jobs that had arrived at routers by then.
        counts: By kind of message, shape (readings,): those sent by then.
    """

    instants: Floats
    jobs: Ints
    counts: dict[str, Ints]


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that quantities are computed from.

    Attributes:
        fleet: The servers. `records`: the jobs. `messages`: the counters of messages.
        failed: By server, the jobs that it failed, also those that were tried again elsewhere: as the routers that
            were there at the end knew it. Those that it turned away do not count.
    """

    fleet: Fleet
    records: Records
    messages: MessageLog
    failed: Mapping[str, int] = field(default_factory=dict)
