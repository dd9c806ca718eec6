"""All servers that are there, with their queue lengths, from the answers of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.console.journal import Place, number_in

MOST_MISSES = 3
"""So often in a row may a process not answer until its servers are taken for gone."""


@dataclass
class Fleet:
    """The servers in the order in which they are shown: pool after pool, and by number.

    Args:
        pools: The pools whose place is known; others follow.

    Attributes:
        version: Another one whenever servers have come, gone or drained. `places`: the servers.
        lengths: Their queue lengths, in the same order.
    """

    pools: Sequence[str]
    version: int = 0
    places: list[Place] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    _answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _misses: dict[str, int] = field(default_factory=dict)

    def see_servers(self, urls: Sequence[str], answers: Mapping[str, Any]) -> None:
        """Take what server processes answer to `GET /v1/servers`; one that misses a look is still believed in."""
        for url in urls:
            if url in answers:
                self._answers[url] = answers[url]["servers"]
                self._misses[url] = 0
            else:
                self._misses[url] = self._misses.get(url, 0) + 1
        self._answers = {url: a for url, a in self._answers.items() if url in urls and self._misses[url] < MOST_MISSES}
        seen: dict[Place, int] = {}
        for url, entries in self._answers.items():
            for entry in entries:
                seen[Place(entry["id"], entry["pool"], entry["state"], url)] = entry["queue_length"]
        self._take(seen)

    def see_routers(self, answers: Mapping[str, Any]) -> None:
        """Take what routers answer, where no server process can be asked.

        Rule: the queue length of a server is the sum of what routers have outstanding there, so jobs on their way
        count as well, and jobs of routers that are not known do not.
        """
        pools: dict[str, tuple[str, str]] = {}
        lengths: dict[str, int] = {}
        for answer in answers.values():
            for entry in answer["servers"]:
                name = entry["id"]
                pools.setdefault(name, (entry["pool"], entry["state"]))
                lengths[name] = lengths.get(name, 0) + entry["outstanding"]
        self._take({Place(name, pool, state, ""): lengths[name] for name, (pool, state) in pools.items()})

    def of_process(self, url: str) -> list[Place]:
        """The servers of one process."""
        return [place for place in self.places if place.process == url]

    def json(self) -> dict[str, Any]:
        """The servers, ready for JSON: name, pool, whether it drains, place of its process."""
        urls = list(dict.fromkeys(place.process for place in self.places))
        index = {url: place for place, url in enumerate(urls)}
        servers = [[p.id, p.pool, int(p.state == "draining"), index[p.process]] for p in self.places]
        return {"processes": urls, "servers": servers}

    def queues(self) -> dict[str, Any]:
        """The queue lengths, ready for JSON."""
        return {"q": self.lengths}

    def _take(self, seen: Mapping[Place, int]) -> None:
        if len(seen) != len(self.places) or any(place not in seen for place in self.places):
            self.places = sorted(seen, key=self._rank)
            self.version += 1
        self.lengths = [seen[place] for place in self.places]

    def _rank(self, place: Place) -> tuple[int, str, str, int]:
        known = place.pool in self.pools
        return (self.pools.index(place.pool) if known else len(self.pools), place.pool, *number_in(place.id))
