"""The server processes of a scenario, with their names: one a pool, or several, and those that are added in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from router.protocol.notices import MAX_SERVERS
from server.core import ServerSpec
from services.scenario_parts import Pool


class ServersProcess(NamedTuple):
    """A server process.

    Units: `added_at` in time units from the start of the run.

    Attributes:
        name: `servers-POOL`; of several of a pool `servers-POOL-1`, `servers-POOL-2`, …
        place: The place of its pool in the scenario. `pool`: the pool.
        first: The number of its first server. `servers`: how many it has.
        added_at: When it is started; `None`: with the run.
    """

    name: str
    place: int
    pool: Pool
    first: int
    servers: int
    added_at: float | None = None

    def specs(self) -> list[ServerSpec]:
        """Its servers, in order."""
        pool = self.pool
        return [
            ServerSpec(f"{pool.name}-{number}", pool.name, pool.rate, pool.slots, pool.capacity, self.place)
            for number in range(self.first, self.first + self.servers)
        ]


def first_processes(pools: Sequence[Pool]) -> list[ServersProcess]:
    """The processes that a run starts with, pool after pool; parts of a pool differ by one server at most."""
    found = []
    for place, pool in enumerate(pools):
        parts = _parts(pool)
        first = 1
        for part in range(parts):
            servers = pool.servers // parts + (part < pool.servers % parts)
            found.append(ServersProcess(_name(pool, part, parts), place, pool, first, servers))
            first += servers
    return found


def with_added(pools: Sequence[Pool], additions: Sequence[tuple[float, str, int]]) -> list[ServersProcess]:
    """All processes of a run: those it starts with, then those that are added, whose numbers count on.

    Args:
        pools: The pools.
        additions: `(at, pool, servers)` of each process, in order of instants.
    """
    found = first_processes(pools)
    for at, name, servers in additions:
        before = [process for process in found if process.pool.name == name]
        last = before[-1]
        process = f"servers-{name}-{len(before) + 1}"
        found.append(ServersProcess(process, last.place, last.pool, last.first + last.servers, servers, at))
    return found


def _parts(pool: Pool) -> int:
    return max(pool.processes, -(-pool.servers // MAX_SERVERS))


def _name(pool: Pool, part: int, parts: int) -> str:
    return f"servers-{pool.name}" + (f"-{part + 1}" if parts > 1 else "")
