"""An event log, read: its records in order, and what it cannot know any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.protocol.errors import RemoteProtocolError
from router.protocol.eventlog import ENDS, FIELDS, RECORD, UNNAMED, About, Head, Kind, read_head, read_names
from services.measure.records import Ints

_TYPES = {"I": "<u4", "d": "<f8", "q": "<i8", "Q": "<u8"}
DTYPE = np.dtype(list(zip(FIELDS, (_TYPES[letter] for letter in RECORD.format[1:]), strict=True)))

Records = NDArray[np.void]


@dataclass(frozen=True, eq=False)
class Log:
    """One incarnation of a process.

    Attributes:
        about: Who it was.
        names: The texts that records refer to.
        records: Shape (records,), of `DTYPE`, in order of writing.
        overwritten: How many came before them and are lost.
        closed_at: When it ended in order, on its clock; 0: it did not: it was killed, or is running.
        holes: The first and the last number of records that are missing though nothing has overwritten them: the file
            is damaged.
    """

    about: About
    names: list[str]
    records: Records
    overwritten: int
    closed_at: float
    holes: Sequence[tuple[int, int]] = ()

    @property
    def since(self) -> float:
        """The instant after which nothing is missing."""
        if not self.overwritten:
            return -math.inf
        return float(self.records["at"][0]) if len(self.records) else math.inf

    def text(self, place: int) -> str:
        """A name by its place."""
        return "?" if place == UNNAMED or place >= len(self.names) else self.names[place]

    def described(self) -> dict[str, Any]:
        """What there is of it, as JSON has it."""
        return {"process": self.about.id, "epoch": self.about.epoch, "records": len(self.records),
                "overwritten": self.overwritten, "missing": sum(last - first + 1 for first, last in self.holes),
                "ended_in_order": self.closed_at > 0.0}  # fmt: skip


def read_log(data: bytes) -> Log:
    """Read a file, whole or trimmed.

    Rule: of a ring whose writer was killed, the record after the newest one may have been half written over; it is
    taken as overwritten. Nothing else can be torn: whatever else is not there, or not in its place, is a hole.

    Raises:
        RemoteProtocolError: It is no event log, or has records of unknown kinds.
    """
    head = read_head(data)
    found = _records(data, head)
    sequence = found["sequence"].astype(np.int64)
    in_place = (sequence - 1) % head.slots == np.arange(len(found))
    newest = int(sequence[in_place].max(initial=0))
    oldest = max(1, newest - head.slots + 1)
    if newest >= head.slots and not head.closed_at:
        oldest += 1
    kept = found[in_place & (sequence >= oldest) & (found["code"] > 0)]
    kept = kept[np.argsort(kept["sequence"])]
    if not (np.isin(kept["code"] & 255, list(Kind)) & (kept["code"] >> 8 & 255 < len(ENDS))).all():
        raise RemoteProtocolError("an event log with records of unknown kinds or outcomes")
    holes = _holes(kept["sequence"].astype(np.int64), oldest, newest)
    return Log(head.about, read_names(data, head), kept, oldest - 1, head.closed_at, holes)


def _holes(there: Ints, oldest: int, newest: int) -> list[tuple[int, int]]:
    """The first and the last number of each gap between the oldest record and the newest one."""
    numbers = np.concatenate([[oldest - 1], there, [newest + 1]])
    before = np.flatnonzero(np.diff(numbers) > 1)
    return [(int(numbers[place]) + 1, int(numbers[place + 1]) - 1) for place in before]


def used_bytes(data: bytes) -> int:
    """How much of a file is in use: what comes after is empty slots.

    Raises:
        RemoteProtocolError: It is no event log.
    """
    head = read_head(data)
    newest = int(_records(data, head)["sequence"].max(initial=0))
    return head.records_at + min(newest, head.slots) * DTYPE.itemsize


def _records(data: bytes, head: Head) -> Records:
    there = max(0, len(data) - head.records_at) // DTYPE.itemsize
    return np.frombuffer(data, DTYPE, min(there, head.slots), min(head.records_at, len(data)))
