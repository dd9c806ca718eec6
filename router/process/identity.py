"""Who this process is: its name, its incarnation, and the clock that it reads."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Identity(NamedTuple):
    """One incarnation of a process.

    Attributes:
        id: Its name.
        epoch: A number that no other incarnation of that name has.
        boot: Equal for processes whose monotonic clocks may be compared: one boot of one host.
    """

    id: str
    epoch: int
    boot: str


def make_identity(id: str) -> Identity:
    """The identity of this process, which has just started; where the host has no boot id, its clock is its own."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        boot = str(uuid.uuid4())
    return Identity(id, time.time_ns(), boot)
