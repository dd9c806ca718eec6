"""What happened in a run, told when something is violated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from router.protocol.errors import InvariantViolation

LATEST = 30
"""How many events a story tells besides those of the job."""

MOST_EVENTS = 400_000


class Story:
    """Everything that happened, if it is to be told; else how much.

    Attributes:
        events: Handled so far.
        now: The instant.
        clock: What time it is while an event is handled as of an instant; the same, where no core is ever late.
    """

    def __init__(self, told: bool) -> None:
        self.events = 0
        self.now = 0.0
        self.clock: Callable[[float], float] = float
        self._told = told
        self._lines: list[str] = []

    def begins(self, name: str, event: Any, now: float) -> None:
        """An event is about to be handled, as of `now`."""
        self.events += 1
        was = self.clock(now)
        if was < self.now:
            self.fail(f"time runs backwards, to {was!r}")
        self.now = was
        if self.events > MOST_EVENTS:
            self.fail(f"more than {MOST_EVENTS} events: it does not end")
        if self._told:
            as_of = f" (as of {now:.4f})" if now != was else ""
            self._lines.append(f"{was:.4f} {name}{as_of}: {event}")

    def comes(self, effects: list[Any]) -> None:
        """Of which this came."""
        if self._told and effects:
            self._lines[-1] = "\n      -> ".join([self._lines[-1], *map(str, effects)])

    def says(self, text: str) -> None:
        """Something else happened."""
        if self._told:
            self._lines.append(f"{self.now:.4f} {text}")

    def about(self, what: str) -> list[str]:
        """The latest events, and those before that were about the job of a violation."""
        latest, before = self._lines[-LATEST:], self._lines[:-LATEST]
        job = re.search(r"job (\d+)", what)
        return [*([line for line in before if f"Job(id={job[1]}," in line] if job else []), *latest]

    def fail(self, what: str) -> NoReturn:
        """Raise, with the story."""
        raise InvariantViolation(f"{what}, at {self.now:.6g}, after event {self.events}", self.about(what))
