"""Which processes a test has begun are alive, however they were started and by whom: each inherits a mark from it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

VARIABLE = "HERDLESS_TEST_MARK"


class Mark:
    """A mark of its own; whoever is started with `environment` has it, and so have those that they start."""

    def __init__(self) -> None:
        self.environment = {VARIABLE: str(uuid4())}

    def alive(self) -> dict[int, list[str]]:
        """The command lines of those that are alive, by their pids; the environment of a zombie is empty."""
        marked = f"{VARIABLE}={self.environment[VARIABLE]}".encode()
        found: dict[int, list[str]] = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended, or is not ours to look at
                if marked in (place / "environ").read_bytes().split(b"\0"):
                    words = (place / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                    found[int(place.name)] = [word.decode(errors="replace") for word in words]
        return found

    def kill_all(self) -> list[str]:
        """Kill those that are alive; return their command lines."""
        left = self.alive()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [" ".join(words) for words in left.values()]
