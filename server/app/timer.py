"""A timer that is precise to some ten microseconds and never early, for one asyncio loop.

The loops' own timers do not do: they are coarse to a millisecond, and uvloop's can fire up to a millisecond
early, which would falsify every short service. The kernel's `timerfd` is precise to the nanosecond, and a
loop wakes at once when the descriptor becomes readable.
"""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from math import ceil, inf
from typing import Literal, Protocol

Kind = Literal["auto", "timerfd", "loop"]

# An instant further away than this is armed as this one: the kernel's fields have limits, and waking up once
# in thirty years only to arm again costs nothing.
_FURTHEST_S = 1e9


class _Alarm(Protocol):
    """What wakes the loop. It may be early or false: PreciseTimer looks at the clock."""

    def set(self, at_s: float) -> None:
        """Wake at this instant instead of the one set before."""

    def close(self) -> None:
        """Never wake again, and free what is held."""


class PreciseTimer:
    """Calls back at or after an armed instant, never before it.

    One instant is armed at a time, the earliest that was asked for. The owner keeps its own heap of events:
    when it is called it takes out all that is due and arms the timer for the next one.

    Units: seconds of `time.monotonic()`, absolute.

    Args:
        loop: The loop that runs the callback.
        callback: Called without arguments, by the loop, never from within `arm`.
        kind: `timerfd`, `loop` (the loop's own timer: coarse, yet never early), or `auto`: the first of them
            that works here.

    Raises:
        OSError: `timerfd` was asked for and this system has none.
    """

    __slots__ = ("_alarm", "_armed_at_s", "_callback", "kind")

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], object], kind: Kind = "auto") -> None:
        self._callback = callback
        self._armed_at_s = inf
        self.kind: Kind = kind if kind != "auto" else "timerfd" if timerfd_available() else "loop"
        alarm_type = _TimerFd if self.kind == "timerfd" else _LoopAlarm
        self._alarm: _Alarm = alarm_type(loop, self._on_alarm)

    @property
    def armed_at_s(self) -> float:
        """The instant that is armed; infinity when none is."""
        return self._armed_at_s

    def arm(self, at_s: float) -> None:
        """Ask for a call at or soon after `at_s`; in the past means: as soon as the loop runs.

        An instant that is not earlier than the armed one changes nothing, so the earlier one is never lost.
        Infinity asks for nothing. After the call nothing is armed until the next `arm`.
        """
        if at_s >= self._armed_at_s:
            return
        self._alarm.set(at_s)
        self._armed_at_s = at_s

    def close(self) -> None:
        """Call no more. May be repeated; `arm` then does nothing."""
        self._armed_at_s = -inf
        self._alarm.close()

    def _on_alarm(self) -> None:
        at_s = self._armed_at_s
        if at_s == inf or at_s == -inf:  # a late wake-up of an alarm that has been answered or closed
            return
        if time.monotonic() < at_s:
            self._alarm.set(at_s)
            return
        self._armed_at_s = inf
        self._callback()


class _LoopAlarm:
    """The loop's own timer: for systems without timerfd."""

    __slots__ = ("_handle", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], object]) -> None:
        self._loop = loop
        self._wake = wake
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_s: float) -> None:
        self.close()
        # Not `call_at`: the loop's clock need not be time.monotonic(), and uvloop's is a cached millisecond.
        delay_s = min(max(at_s - time.monotonic(), 0.0), _FURTHEST_S)
        self._handle = self._loop.call_later(delay_s, self._wake)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _TimerFd:
    """The kernel's timer, CLOCK_MONOTONIC with absolute instants, seen by the loop as a readable file."""

    __slots__ = ("_fd", "_loop", "_settime", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], object]) -> None:
        create, self._settime = _timerfd_functions()
        self._loop = loop
        self._wake = wake
        self._fd = create()
        loop.add_reader(self._fd, self._on_readable)

    def set(self, at_s: float) -> None:
        # Rounded up, and at least 1, because 0 disarms. Setting also takes back a firing not yet read.
        self._settime(self._fd, max(1, ceil(min(at_s, _FURTHEST_S) * 1e9)))

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _on_readable(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # armed anew since the loop saw it fire
            return
        self._wake()


def timerfd_available() -> bool:
    """Tell whether this system and this Python can make a timerfd."""
    try:
        create, _ = _timerfd_functions()
        os.close(create())
    except OSError:
        return False
    return True


def _timerfd_functions() -> tuple[Callable[[], int], Callable[[int, int], object]]:
    """Find `create() -> descriptor` and `settime(descriptor, absolute nanoseconds)`.

    Raises:
        OSError: There is no timerfd here.
    """
    if not sys.platform.startswith("linux"):
        raise OSError(f'expected Linux for a timerfd, found {sys.platform}: use the timer kind "loop"')
    if sys.version_info >= (3, 13) and hasattr(os, "timerfd_create"):
        create = os.timerfd_create
        settime = os.timerfd_settime_ns
        create_flags, absolute = os.TFD_NONBLOCK | os.TFD_CLOEXEC, os.TFD_TIMER_ABSTIME
        return (
            lambda: create(time.CLOCK_MONOTONIC, flags=create_flags),
            lambda fd, at_ns: settime(fd, flags=absolute, initial=at_ns),
        )
    return _timerfd_by_ctypes()


class _Itimerspec(ctypes.Structure):
    """`struct itimerspec`: the interval (0: once), then the first instant."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


def _timerfd_by_ctypes() -> tuple[Callable[[], int], Callable[[int, int], object]]:
    """Reach the C library's own functions: Python has them from 3.13 on only."""
    absolute = 1  # TFD_TIMER_ABSTIME
    flags = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are defined as these
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        timerfd_create, timerfd_settime = libc.timerfd_create, libc.timerfd_settime
    except AttributeError:
        raise OSError('the C library has no timerfd_create: use the timer kind "loop"') from None
    spec = _Itimerspec()
    spec_pointer = ctypes.byref(spec)
    pointer = ctypes.POINTER(_Itimerspec)
    timerfd_create.argtypes = (ctypes.c_int, ctypes.c_int)
    timerfd_settime.argtypes = (ctypes.c_int, ctypes.c_int, pointer, pointer)

    def create() -> int:
        fd = int(timerfd_create(time.CLOCK_MONOTONIC, flags))
        if fd < 0:
            raise OSError(ctypes.get_errno(), f"timerfd_create: {os.strerror(ctypes.get_errno())}")
        return fd

    def settime(fd: int, at_ns: int) -> None:
        spec.at_s, spec.at_ns = divmod(at_ns, 1_000_000_000)
        if timerfd_settime(fd, absolute, spec_pointer, None) != 0:
            raise OSError(ctypes.get_errno(), f"timerfd_settime: {os.strerror(ctypes.get_errno())}")

    return create, settime
