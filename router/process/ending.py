"""The very end of a process: signals that come then."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable
from types import FrameType


def stop_at_once(code: int) -> None:
    """From now on this process is about to end, and a signal that tells it to ends it at once, with this exit code.

    Something may still have to be waited for, such as a thread that solves a model. When that is over signals are
    ignored: Python takes its handlers back before the process is gone, and a signal would then be its exit status.
    """
    on_signal(lambda number, frame: os._exit(code))
    atexit.register(on_signal, signal.SIG_IGN)


def on_signal(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Have SIGTERM and SIGINT handled so."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
