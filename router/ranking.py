"""Servers ranked by how many jobs they have: the part that all policies of least load share."""

from __future__ import annotations

from random import Random
from typing import Literal

from router.choice import Entry, LeastLoaded, Rank
from router.policy import Server

Measure = Literal["queue", "joined", "present"]
Full = Literal["skip", "ignore"]
Ties = Literal["random", "fastest"]


class Ranks:
    """The rank of a server that has so many jobs.

    Rule: the lowest rank is best. `queue`: the number of jobs q. `joined`: (q + 1) / rate, the expected delay of a job
    that joins. `present`: q / rate, that of the jobs which are there. `rate` is that of one slot. With `skip_full`,
    whatever has q >= capacity comes after all that has vacancy. With `fastest`, equals are ordered by rate, highest
    first. Quotients are rounded to twelve digits, so that delays which are equal on paper are equal here.
    """

    def __init__(self, measure: Measure, skip_full: bool = False, fastest: bool = False) -> None:
        self._measure = measure
        self._skip_full = skip_full
        self._fastest = fastest
        self._tables: dict[tuple[float, float], RankTable] = {}

    def table(self, server: Server) -> RankTable:
        """The ranks of a server by its number of jobs; servers of a kind share it."""
        kind = (server.rate, server.capacity)
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = RankTable(self, *kind)
        return table

    def of(self, server: Server, length: int) -> Rank:
        """The rank of a server that has `length` jobs."""
        table = self._tables.get((server.rate, server.capacity)) or self.table(server)
        return table.of(length)

    def compute(self, rate: float, capacity: float, length: int) -> Rank:
        """The rule itself."""
        if self._measure == "queue":
            load: float = length
        else:
            jobs = length + 1 if self._measure == "joined" else length
            load = float(f"{jobs / rate:.12g}")
        order = (load, -rate) if self._fastest else (load,)
        if self._skip_full:
            return (length >= capacity, *order)
        return order if self._fastest else load


class RankTable:
    """Ranks by number of jobs, made when first asked for: a look-up is cheaper than a division and a tuple."""

    __slots__ = ("_capacity", "_known", "_rate", "_rule")

    def __init__(self, rule: Ranks, rate: float, capacity: float) -> None:
        self._rule = rule
        self._rate = rate
        self._capacity = capacity
        self._known: list[Rank] = []

    def of(self, length: int) -> Rank:
        """The rank at `length` jobs."""
        known = self._known
        while length >= len(known):
            known.append(self._rule.compute(self._rate, self._capacity, len(known)))
        return known[length]


class _Ranked(Entry):
    __slots__ = ("server", "table")

    def __init__(self, server: Server, table: RankTable) -> None:
        super().__init__()
        self.server = server
        self.table = table


class ServerIndex:
    """Finds a server of lowest rank among those whose number of jobs is known; ties uniform, cost O(1) or O(log)."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._entries: dict[Server, _Ranked] = {}
        self._index: LeastLoaded[_Ranked] = LeastLoaded()

    def join(self, server: Server, length: int | None) -> None:
        """Take in a server that has `length` jobs; `None`: nobody knows."""
        self._entries[server] = _Ranked(server, self._ranks.table(server))
        self.update(server, length)

    def leave(self, server: Server) -> None:
        """Forget a server."""
        entry = self._entries.pop(server)
        if entry.place >= 0:
            self._index.remove(entry)

    def rate(self, server: Server, length: int | None) -> None:
        """The server has another rate; it is ranked anew at `length` jobs."""
        self._entries[server].table = self._ranks.table(server)
        self.update(server, length)

    def update(self, server: Server, length: int | None) -> None:
        """The server now has `length` jobs."""
        entry = self._entries[server]
        if length is None:
            if entry.place >= 0:
                self._index.remove(entry)
        elif entry.place >= 0:
            self._index.move(entry, entry.table.of(length))
        else:
            self._index.insert(entry, entry.table.of(length))

    def choose(self, rng: Random) -> Server | None:
        """A server of lowest rank; `None`: nothing is known of any."""
        entry = self._index.choose(rng)
        return entry.server if entry is not None else None
