"""What is due, and when: a heap of future events in the order in which they must happen."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Generic, TypeVar

Item = TypeVar("Item")


class DueHeap(Generic[Item]):
    """Future events, taken out in the order of (instant, order of scheduling).

    Nothing is removed one by one: who cancels an event forgets it, and ignores it when it comes. Where such events
    may lie far ahead, `sweep` takes them out together.

    Rule: of two events with the same instant the one pushed first comes first. Items are never compared.
    Units: instants are floats on one clock of the owner's choice (seconds or time units); never NaN.
    """

    __slots__ = ("_heap", "_next_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._next_sequence = count().__next__

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_at(self) -> float:
        """The instant of the earliest event; infinity when there is none."""
        return self._heap[0][0] if self._heap else inf

    def push(self, at: float, item: Item) -> None:
        """Schedule `item` for the instant `at`, which may lie in the past."""
        heappush(self._heap, (at, self._next_sequence(), item))

    def pop(self) -> tuple[float, Item]:
        """Take out the earliest event, whatever the time is.

        Raises:
            IndexError: There is none.
        """
        at, _, item = heappop(self._heap)
        return at, item

    def sweep(self, is_void: Callable[[Item], bool]) -> None:
        """Take out all events that have lost their meaning; the order of the others stays."""
        self._heap[:] = [entry for entry in self._heap if not is_void(entry[2])]
        heapify(self._heap)

    def pop_due(self, now: float) -> Iterator[tuple[float, Item]]:
        """Take out, one by one, all events whose instants are at or before `now`.

        Events pushed meanwhile take part: one that is due by `now` comes in this same pass, in its turn.
        """
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, item = heappop(heap)
            yield at, item
