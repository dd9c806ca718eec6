"""What a server is: what stays the same whatever happens to it, its rate apart."""

from __future__ import annotations

from typing import NamedTuple


class ServerSpec(NamedTuple):
    """What a server is.

    Attributes:
        id: Its name, unique in the system.
        pool: The name of its pool.
        rate: Service rate of one slot, jobs of unit size per time unit.
        slots: Jobs that it serves at the same time.
        capacity: The most jobs that it holds, service included; `inf` allowed.
        pool_index: The place of its pool in the scenario, from 0.
    """

    id: str
    pool: str
    rate: float = 1.0
    slots: int = 1
    capacity: float = float("inf")
    pool_index: int = 0
