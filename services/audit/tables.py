"""All records of all logs as columns, with one number for each job and each dispatch of the whole system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from router.protocol.eventlog import UNNAMED, Kind
from services.audit.log import Log
from services.measure.records import Flags, Floats, Ints

SHIFT = 44
"""A key is the place of the router's log, then so many bits for the number that it gave."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Records of some kinds.

    Shape: (records,), each column.

    Attributes:
        log: The place of the log. `place`: in order of writing, within it.
        kind, outcome, marks, attempt: Of the code.
        at: The instant.
        server, word: Names, by their places in `Tables.names`.
        job, dispatch: Keys; -1: none, or of a router that has no log.
        tag, number: As written.
    """

    log: Ints
    place: Ints
    kind: Ints
    outcome: Ints
    marks: Ints
    at: Floats
    server: Ints
    word: Ints
    job: Ints
    tag: Ints
    dispatch: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.log)

    def where(self, rows: Flags | Ints) -> Rows:
        """Some of them."""
        return Rows(**{column.name: getattr(self, column.name)[rows] for column in fields(self)})

    @cached_property
    def by_job(self) -> Index:
        """Finds them by job."""
        return Index(self.job)

    @cached_property
    def by_dispatch(self) -> Index:
        """Finds them by dispatch."""
        return Index(self.dispatch)

    @cached_property
    def by_tag(self) -> Index:
        """Finds them by the generator's number."""
        return Index(self.tag)


class Index:
    """Finds rows by a key.

    Args:
        keys: Shape (rows,).
    """

    def __init__(self, keys: Ints) -> None:
        self._keys = keys
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def first(self, wanted: Ints) -> Ints:
        """The first row with each of these keys; -1: there is none."""
        at = np.searchsorted(self._sorted, wanted)
        inside = np.minimum(at, max(len(self._sorted) - 1, 0))
        if not len(self._sorted):
            return np.full(len(wanted), -1, np.int64)
        return np.where((at < len(self._sorted)) & (self._sorted[inside] == wanted), self._order[inside], -1)

    def count(self, wanted: Ints) -> Ints:
        """How many rows have each of these keys."""
        return np.searchsorted(self._sorted, wanted, "right") - np.searchsorted(self._sorted, wanted)

    def again(self) -> Ints:
        """The rows whose key an earlier one has, -1 apart."""
        same = np.flatnonzero((self._sorted[1:] == self._sorted[:-1]) & (self._sorted[1:] >= 0)) + 1
        return self._order[same]


class Tables:
    """The records of all logs.

    Args:
        logs: Of routers and servers.

    Attributes:
        logs: The same. `names`: all names, each once, the empty one first.
        since: Shape (logs,): after when each is complete. `closed`: whether its process ended in order.
        logs_of: The logs of each server, by its name: those of the processes that it lived in.
        strangers: Records of servers about routers that have no log.
    """

    def __init__(self, logs: Sequence[Log]) -> None:
        self.logs = list(logs)
        self.names: list[str] = [""]
        self._places: dict[str, int] = {"": 0}
        self.since = np.array([log.since for log in logs])
        self.closed = np.array([log.closed_at > 0.0 for log in logs], bool)
        self.strangers = 0
        self._of_router = {
            (self.place(log.about.id), log.about.epoch): place
            for place, log in enumerate(logs)
            if log.about.role == "router"
        }
        parts = [self._columns(place, log) for place, log in enumerate(logs)]
        self.all = Rows(
            **{
                column.name: np.concatenate([part[column.name] for part in parts] or [np.empty(0, np.int64)])
                for column in fields(Rows)
            }
        )
        self.logs_of: dict[str, list[int]] = {}
        for place, log in enumerate(logs):
            if log.about.role == "server":
                for name in dict.fromkeys(log.names[1:]):
                    self.logs_of.setdefault(name, []).append(place)

    def place(self, name: str) -> int:
        """The place of a name."""
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.names)
            self.names.append(name)
        return found

    def since_by(self, log: int, boot: str) -> float:
        """After when a log is complete, by the clock of that boot; infinite: by that clock nobody can say."""
        since = float(self.since[log])
        return since if since == -math.inf or boot == self.logs[log].about.boot else math.inf

    def of(self, *kinds: Kind) -> Rows:
        """The records of these kinds."""
        return self.all.where(np.isin(self.all.kind, kinds))

    def _columns(self, place: int, log: Log) -> dict[str, Any]:
        records, count = log.records, len(log.records)
        known = np.array([self.place(name) for name in log.names], np.int64)
        known = np.append(known, self.place("?"))

        def names(column: str) -> Ints:
            found = records[column].astype(np.int64)
            return known[np.where((found == UNNAMED) | (found >= len(known) - 1), len(known) - 1, found)]

        code = records["code"].astype(np.int64)
        dispatch, job = records["dispatch"], records["job"]
        if log.about.role == "router":
            router = np.full(count, place, np.int64)
        else:
            router = self._routers(names("router"), job)
            job = np.full(count, -1, np.int64)
        return {
            "log": np.full(count, place, np.int64),
            "place": np.arange(count),
            "kind": code & 255,
            "outcome": code >> 8 & 255,
            "marks": code >> 16 & 255,
            "at": records["at"],
            "server": names("server"),
            "word": names("word"),
            "job": _keys(router, job),
            "tag": records["tag"],
            "dispatch": _keys(router, dispatch),
            "number": records["number"],
        }

    def _routers(self, names: Ints, epochs: Ints) -> Ints:
        """The logs of the routers of these incarnations; -1: there is none."""
        pairs = np.stack([names, epochs], axis=1)
        different, inverse = np.unique(pairs, axis=0, return_inverse=True)
        found = np.array([self._of_router.get((name, epoch), -1) for name, epoch in different.tolist()], np.int64)
        rows = found[inverse.reshape(-1)] if len(found) else np.empty(0, np.int64)
        self.strangers += int(((rows < 0) & (epochs >= 0)).sum())
        return rows


def _keys(router: Ints, number: Ints) -> Ints:
    return np.where((router >= 0) & (number >= 0), (router << SHIFT) | number, -1)
