"""The log of events: what was switched, who came and who went, in words."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from router.registry import make_parameters

KEPT = 200
Kind = Literal["policy", "load", "joined", "left", "drained", "lost", "asked", "problem", "model", "fault"]


class Place(NamedTuple):
    """One server as it is shown.

    Attributes:
        id: Its name. `pool`: its pool. `state`: `live` or `draining`.
        process: The URL of its process.
    """

    id: str
    pool: str
    state: str
    process: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One event.

    Attributes:
        number: Counts up from 1. `at_s`: seconds since 1970.
        kind: One word for it. `text`: what happened.
    """

    number: int
    at_s: float
    kind: Kind
    text: str

    def json(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return {"n": self.number, "at_s": round(self.at_s, 3), "kind": self.kind, "text": self.text}


class Journal:
    """The latest entries.

    Args:
        clock: Seconds since 1970.
        tell: Called with each new entry.
    """

    def __init__(self, clock: Callable[[], float], tell: Callable[[Entry], object]) -> None:
        self.entries: deque[Entry] = deque(maxlen=KEPT)
        self._clock = clock
        self._tell = tell
        self._number = 0

    def add(self, kind: Kind, text: str) -> None:
        """Note what happened now."""
        self._number += 1
        entry = Entry(self._number, self._clock(), kind, text)
        self.entries.append(entry)
        self._tell(entry)

    def add_all(self, events: Iterable[tuple[Kind, str]]) -> None:
        """Note several events, in order."""
        for kind, text in events:
            self.add(kind, text)


def fleet_changes(before: Sequence[Place], now: Sequence[Place]) -> list[tuple[Kind, str]]:
    """What has happened to the servers between two looks."""
    old, new = {place.id: place for place in before}, {place.id: place for place in now}
    events: list[tuple[Kind, str]] = []
    events += [("joined", f"{who} joined") for who in _by_pool(new[id] for id in new.keys() - old.keys())]
    events += [("left", f"{who} left") for who in _by_pool(old[id] for id in old.keys() - new.keys())]
    drained = (new[id] for id in new.keys() & old.keys() if new[id].state == "draining" != old[id].state)
    events += [("drained", f"{who} drained: nothing new is taken") for who in _by_pool(drained)]
    return events


def policy_changes(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[tuple[Kind, str]]:
    """What has happened to the policy in force; `None`: the routers' policies differ, or are not known."""
    if now is None or before == now:
        return []
    if before is None:
        return [("policy", f"the policy in force is {policy_words(now)}")]
    if before["name"] != now["name"]:
        return [("policy", f"policy {before['name']} → {policy_words(now)}")]
    changed = [f"{key} {before[key]} → {value}" for key, value in now.items() if before[key] != value]
    return [("policy", f"policy {now['name']}: {', '.join(changed)}")]


def policy_words(table: Mapping[str, Any]) -> str:
    """A policy with those of its parameters that are not the default."""
    _, given = make_parameters(table)
    parameters = ", ".join(f"{key} = {value}" for key, value in given.model_dump(exclude_defaults=True).items())
    return f"{table['name']} ({parameters})" if parameters else str(table["name"])


def router_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[Kind, str]]:
    """Which routers, URL to name, came and went."""
    came: list[tuple[Kind, str]] = [("joined", f"{now[url]} joined") for url in now.keys() - before.keys()]
    went: list[tuple[Kind, str]] = [("left", f"{before[url]} left") for url in before.keys() - now.keys()]
    return sorted(came) + sorted(went)


def number_in(name: str) -> tuple[str, int]:
    """A name cut before the number that it ends with, so that `slow-9` comes before `slow-10`."""
    found = re.fullmatch(r"(.*?)(\d{1,18})?", name, re.DOTALL)
    assert found is not None
    return found[1], int(found[2] or -1)


def _by_pool(places: Iterable[Place]) -> list[str]:
    pools: dict[str, list[str]] = {}
    for place in places:
        pools.setdefault(place.pool, []).append(place.id)
    words = []
    for pool, names in sorted(pools.items()):
        names.sort(key=number_in)
        if len(names) == 1:
            words.append(names[0])
        else:
            words.append(f"{len(names)} servers of pool {pool} ({names[0]} to {names[-1]})")
    return words
