"""The format of an event log: what a process writes down of each job, in records of fixed size.

A file has three parts: the head (who wrote it), the names (each text once, records refer to it by its place, from 1),
and the records, a ring: record number n, from 1, lies in slot (n − 1) mod slots. A record's number is its last
field and is written last, so a record that a killed process had begun is known: it lies where the oldest one did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple, Protocol

from router.protocol.errors import RemoteProtocolError

MAGIC = b"HERDLESS"
VERSION = 1

HEAD = Struct("<8sIIQdI")
"""Magic, version, bytes of the names, slots, instant of the orderly end (0: there was none), bytes of the JSON text."""
HEAD_BYTES = 4096
CLOSED_AT = 24
"""Where in the head the instant of the end stands; `SLOTS_AT`: the number of slots."""
SLOTS_AT = 16
NAMES_BYTES = 1 << 18
MOST_SLOTS = 1 << 56
"""No disk is that large: whoever says more is no event log."""
NAME = Struct("<H")
INSTANT = Struct("<d")

RECORD = Struct("<IIIIdqqqqQ")
"""Code, server, router, word (places of names), instant, job, tag, dispatch, number, number of the record."""
FIELDS = ("code", "server", "router", "word", "at", "job", "tag", "dispatch", "number", "sequence")

NOTHING = -1
"""In place of a number: there is none."""
UNNAMED = 2**32 - 1
"""In place of a name for which there was no room."""


class Kind(IntEnum):
    """What happened; the low byte of a code.

    Written by routers (`job` counts the jobs of this incarnation, `dispatch` its dispatches):

    ARRIVED: a job; `tag`: the generator's number of it. If `dispatch` is given, it was dispatched at once.
    DISPATCHED: later than it arrived, or anew; `number`: the pull-message that was used; `attempt` from 0.
    ENDED: the job, with its outcome; `word`: the reason; `dispatch`: the one that ended with it, if there was one.
    RETRIED: this dispatch has ended, and the job goes on.
    ORPHANED: an end of a dispatch that had ended already.
    PULLED: a pull-message of that number came.
    JOINED, DRAINING, LEFT: a server; DRAINING without a server is the process itself.
    POLICY: `word` is in force from now on.

    Written by servers (`job` is the epoch of the router, `dispatch` that router's number):

    RECEIVED: a dispatch. With the mark AT_ONCE its service started at the same instant.
    STARTED: its service.
    LEFT_SERVER: it has ended here, with its outcome; with the mark UNHEARD nobody was told, since the link was lost.
    LINKED, UNLINKED: the link to a router; `job` is its epoch.
    """

    ARRIVED = 1
    DISPATCHED = 2
    ENDED = 3
    RETRIED = 4
    ORPHANED = 5
    PULLED = 6
    JOINED = 8
    DRAINING = 9
    LEFT = 10
    POLICY = 11
    RECEIVED = 16
    STARTED = 17
    LEFT_SERVER = 18
    LINKED = 19
    UNLINKED = 20


AT_ONCE = 1
UNHEARD = 2
ENDS = {"served": 0, "blocked": 1, "abandoned": 2, "failed": 3}
"""Outcomes as codes have them."""
MOST_ATTEMPTS = 255


def code(kind: Kind, outcome: int = 0, marks: int = 0, attempt: int = 0) -> int:
    """One number for kind, outcome, marks and attempt, a byte each."""
    return kind | outcome << 8 | marks << 16 | min(attempt, MOST_ATTEMPTS) << 24


class Append(Protocol):
    """Writes one record down."""

    def __call__(
        self,
        code: int,
        server: int,
        router: int,
        word: int,
        at: float,
        job: int,
        tag: int,
        dispatch: int,
        number: int,
        /,
    ) -> None:
        """The arguments are the fields of a record, without its number."""  # fmt: skip


class LogWriter(Protocol):
    """Where a recorder writes."""

    @property
    def append(self) -> Append:
        """Writes one record down."""

    def name(self, text: str) -> int:
        """The place of a name; 0: it is empty."""


class Places(dict[str, int]):
    """The places of names that have been asked for once, at the cost of a look-up.

    Args:
        name: `LogWriter.name`.
    """

    def __init__(self, name: Callable[[str], int]) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, text: str) -> int:
        place = self[text] = self._name(text)
        return place


class About(NamedTuple):
    """Who wrote a log.

    Attributes:
        id: Name of the process. `role`: router or server. `epoch`: its incarnation.
        boot: Identifies the clock of its instants: equal ones may be compared.
    """

    id: str
    role: str
    epoch: int
    boot: str


class Head(NamedTuple):
    """The beginning of a file, read.

    Attributes:
        about: Who wrote it.
        names_bytes, slots: The sizes of the parts.
        closed_at: When the process ended in order; 0: it did not, or has not yet.
    """

    about: About
    names_bytes: int
    slots: int
    closed_at: float

    @property
    def records_at(self) -> int:
        """Where the records begin."""
        return HEAD_BYTES + self.names_bytes


def write_head(about: About, slots: int, names_bytes: int = NAMES_BYTES, closed_at: float = 0.0) -> bytes:
    """The head, not filled up to `HEAD_BYTES`."""
    text = json.dumps(about._asdict()).encode()
    return HEAD.pack(MAGIC, VERSION, names_bytes, slots, closed_at, len(text)) + text


def read_head(data: bytes) -> Head:
    """Read the beginning of a file.

    Raises:
        RemoteProtocolError: It is no event log, or of another version.
    """
    if len(data) < HEAD_BYTES or data[:8] != MAGIC:
        raise RemoteProtocolError("no event log: expected a file that begins with HERDLESS")
    _, version, names_bytes, slots, closed_at, length = HEAD.unpack_from(data)
    if version != VERSION:
        raise RemoteProtocolError(f"an event log of version {version}, expected {VERSION}: use the Herdless it is of")
    try:
        text: Mapping[str, Any] = json.loads(data[HEAD.size : HEAD.size + length])
        about = About(str(text["id"]), str(text["role"]), int(text["epoch"]), str(text["boot"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise RemoteProtocolError(f"an event log that does not say who wrote it ({error!r})") from None
    if not 0 < slots < MOST_SLOTS:
        raise RemoteProtocolError(f"an event log with room for {slots} records")
    return Head(about, names_bytes, slots, closed_at)


def read_names(data: bytes, head: Head) -> list[str]:
    """The names in order; the first one, that of place 0, is empty."""
    names, at, end = [""], HEAD_BYTES, min(head.records_at, len(data))
    while at + NAME.size <= end:
        (length,) = NAME.unpack_from(data, at)
        if not length:
            break
        at += NAME.size
        names.append(data[at : at + length].decode(errors="replace"))
        at += length
    return names
