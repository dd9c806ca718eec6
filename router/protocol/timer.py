"""The one effect that both cores share besides messages."""

from __future__ import annotations

from typing import Any, NamedTuple


class StartTimer(NamedTuple):
    """Hand `event` back to the core that returned this, with `now` set to `at` and not later.

    Drivers hand over all timers due at or before `now`, in order of their instants, before any other
    event at `now`. Timers are never cancelled: a core ignores one that has lost its meaning, which
    costs less than to look for it.
    """

    at: float
    event: Any
