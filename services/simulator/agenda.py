"""What happens when: the heap of a world in which messages, processes and links may come and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

Act = Callable[[Any, float], object]
"""What is called, with something and the instant."""


class Agenda:
    """Calls in order of `(instant, sequence of scheduling)`.

    Rule: as in `World`: what is to be done at once is done before anything else happens, in the order of asking, and
    what is due at an instant comes before the job that arrives at it.

    Units: time units.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Act, Any]] = []
        self._sequence = count()
        self._at_hand: deque[tuple[Act, Any]] = deque()

    @property
    def next_at(self) -> float:
        """The instant of what is due next; infinity: nothing is."""
        return self._heap[0][0] if self._heap else inf

    def at(self, instant: float, act: Act, what: Any) -> None:
        """Call `act` at an instant that is not over."""
        heappush(self._heap, (instant, next(self._sequence), act, what))

    def soon(self, act: Act, what: Any) -> None:
        """Call `act` at this instant, after what else is to be done at once."""
        self._at_hand.append((act, what))

    def run(self, arrivals: Iterable[tuple[float, Act, Any]]) -> None:
        """Make each of these calls at its instant, and before it all that are due by then; in order of instants."""
        heap = self._heap
        for at, act, what in arrivals:
            while heap and heap[0][0] <= at:
                now, _, due, about = heappop(heap)
                self._do(due, about, now)
            self._do(act, what, at)

    def run_until(self, instant: float) -> None:
        """Make all calls that are due by then."""
        self.run([(instant, _nothing, None)])

    def run_next(self) -> bool:
        """Make the next call; false: there is none."""
        if not self._heap:
            return False
        now, _, act, what = heappop(self._heap)
        self._do(act, what, now)
        return True

    def _do(self, act: Act, what: Any, now: float) -> None:
        self.now = now
        act(what, now)
        at_hand = self._at_hand
        while at_hand:
            act, what = at_hand.popleft()
            act(what, now)


def _nothing(what: None, now: float) -> None:
    pass
