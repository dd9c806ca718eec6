"""A core whose timers are kept, so that a test can tell its story by hand."""

from __future__ import annotations

from typing import Any

from router.protocol.due import DueHeap
from router.protocol.timer import StartTimer


class CoreStory:
    """One core, driven as it must be: what is due comes first. What it says is kept apart from its timers."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.due: DueHeap[Any] = DueHeap()
        self.jobs = 0

    def at(self, now: float, event: Any = None) -> list[Any]:
        """What is said up to `now`, and to `event` then."""
        said = []
        for at, due in self.due.pop_due(now):
            said += self._handle(due, at)
        return said + ([] if event is None else self._handle(event, now))

    def _handle(self, event: Any, at: float) -> list[Any]:
        said = []
        for effect in self.core.handle(event, at):
            if isinstance(effect, StartTimer):
                self.due.push(effect.at, effect.event)
            else:
                said.append(effect)
        return said
