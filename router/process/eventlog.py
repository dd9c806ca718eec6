"""An event log in a file that is mapped into memory: a record costs no call of the system, and outlives a kill.

The pages belong to the kernel as soon as they are written, so nothing is lost with the process, whatever ends it. On
a file system in memory no disk is waited for either; on a disk the kernel may hold a process up that writes to a
page which it is just saving, so whoever cannot wait puts the file into memory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

from router.process.identity import Identity
from router.protocol.errors import SettingsError
from router.protocol.eventlog import (
    CLOSED_AT,
    HEAD_BYTES,
    INSTANT,
    NAME,
    NAMES_BYTES,
    RECORD,
    SLOTS_AT,
    UNNAMED,
    About,
    Append,
    write_head,
)

MIB = 1 << 20
MOST_GROWTH = 64 * MIB
MOST_INCARNATIONS = 1000


class LogSettings(Protocol):
    """What the settings of a process say of its event log."""

    @property
    def events(self) -> str:
        """The file; empty: there is none."""

    @property
    def events_mib(self) -> int:
        """How much of it is kept, in MiB."""

    @property
    def events_grow(self) -> bool:
        """Whether all is kept."""


class EventLog:
    """The log of one incarnation of a process.

    Rule: a file that is there belongs to an earlier incarnation and is left alone: this one takes the same name with
    `.2`, `.3`, … behind it.

    Args:
        path: The file.
        about: Who writes.
        size_bytes: Of the records; when they are full the oldest are overwritten.
        grows: Instead of overwriting, make the file larger for as long as there is room.

    Attributes:
        path: The file that was taken.
        append: Writes one record.

    Raises:
        SettingsError: The file cannot be made, or there is no room for it.
    """

    append: Append

    def __init__(self, path: str | Path, about: About, *, size_bytes: int = 8 * MIB, grows: bool = False) -> None:
        self._slots = max(size_bytes // RECORD.size, 1)
        self._grows = grows
        size = HEAD_BYTES + NAMES_BYTES + self._slots * RECORD.size
        taken: Path | None = None
        try:
            self.path, self._file = _create(Path(path))
            taken = self.path
            # Room is taken now: where it ran out later, writing to memory would end the process.
            os.posix_fallocate(self._file, 0, size)
            self._map = mmap.mmap(self._file, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        except OSError as error:
            if taken is not None:  # else the next incarnation would leave it alone
                os.close(self._file)
                taken.unlink()
            raise SettingsError(f"--events {path}: cannot be written: {error.strerror}") from None
        head = write_head(about, self._slots)
        self._map[: len(head)] = head
        self._names: dict[str, int] = {"": 0}
        self._names_end = HEAD_BYTES
        self.append = self._make_append()

    def name(self, text: str) -> int:
        """The place of a name, which is written down when it is new; where there is no room, `UNNAMED`."""
        place = self._names.get(text)
        return self._new_name(text) if place is None else place

    def close(self, at: float) -> None:
        """Note that the process ends in order at this instant; what is appended after it is not kept for sure."""
        INSTANT.pack_into(self._map, CLOSED_AT, at)
        self._grows = False
        os.close(self._file)

    def _new_name(self, text: str) -> int:
        data = text.encode()
        at, end = self._names_end, self._names_end + NAME.size + len(data)
        if end > HEAD_BYTES + NAMES_BYTES:
            return UNNAMED
        self._map[at + NAME.size : end] = data
        NAME.pack_into(self._map, at, len(data))  # last: a name is there when its length is
        self._names_end = end
        place = self._names[text] = len(self._names)
        return place

    def _make_append(self) -> Append:
        # A closure: its variables cost half of what attributes do.
        pack, ring, next_slot, next_number = RECORD.pack_into, self._map, self._offsets().__next__, count(1).__next__

        def append(
            code: int, server: int, router: int, word: int, at: float,
            job: int, tag: int, dispatch: int, number: int, /,
        ) -> None:  # fmt: skip
            pack(ring, next_slot(), code, server, router, word, at, job, tag, dispatch, number, next_number())

        return append

    def _offsets(self) -> Iterator[int]:
        """Where each next record goes."""
        begin = at = HEAD_BYTES + NAMES_BYTES
        while True:
            end = begin + self._slots * RECORD.size
            yield from range(at, end, RECORD.size)
            at = end if self._grows and self._grow() else begin

    def _grow(self) -> bool:
        """Make room for as many records again; False: there is none, and from now on the oldest are overwritten."""
        old = len(self._map)
        more = min(self._slots * RECORD.size, MOST_GROWTH) // RECORD.size * RECORD.size
        try:
            os.posix_fallocate(self._file, old, more)
            self._map.resize(old + more)
        except (OSError, SystemError):
            self._grows = False
            return False
        self._slots += more // RECORD.size
        self._map[SLOTS_AT : SLOTS_AT + 8] = self._slots.to_bytes(8, "little")
        return True


def _create(path: Path) -> tuple[Path, int]:
    for number in range(1, MOST_INCARNATIONS):
        taken = path if number == 1 else path.with_name(f"{path.name}.{number}")
        try:
            return taken, os.open(taken, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(17, "too many logs of earlier incarnations are there: move them away")


def open_log(settings: LogSettings, identity: Identity, role: str) -> EventLog | None:
    """The log that the settings of a process ask for; `None`: none.

    Raises:
        SettingsError: As `EventLog`.
    """
    if not settings.events:
        return None
    about = About(identity.id, role, identity.epoch, identity.boot)
    return EventLog(settings.events, about, size_bytes=settings.events_mib * MIB, grows=settings.events_grow)
