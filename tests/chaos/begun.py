"""Which processes a test has begun are alive, however they were started and by whom: each inherits a mark from it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_VARIABLE = "HERDLESS_CHAOS_STAGE"


class Begun:
    """All processes that are begun from now on, and those that they begin, until it is closed."""

    def __init__(self) -> None:
        self._mark = f"{_VARIABLE}={uuid4()}".encode()
        os.environb[_VARIABLE.encode()] = self._mark.partition(b"=")[2]

    def close(self) -> None:
        """What is begun later is no concern of ours."""
        del os.environ[_VARIABLE]

    def alive(self) -> dict[int, str]:
        """The command lines of those that are alive, by their pids."""
        found: dict[int, str] = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended, or is not ours to look at
                if self._mark in (place / "environ").read_bytes().split(b"\0"):
                    words = (place / "cmdline").read_bytes().split(b"\0")
                    found[int(place.name)] = b" ".join(words).decode(errors="replace").strip()
        return found
