"""How long to wait until a router is dialled again."""

from __future__ import annotations

from random import Random


class Backoff:
    """Pauses that double from the first to the longest, each shortened at random by up to a half.

    Rule: they begin anew after a link that lasted longer than the longest of them. A router that drops the link as
    soon as it is up must not be dialled ever faster; and without the random part all servers that lost a router would
    come back to it at the same instant.

    Units: those of the clock of whoever waits.
    """

    def __init__(self, first: float, longest: float, rng: Random) -> None:
        self._first = first
        self._longest = longest
        self._rng = rng
        self._next = first

    def pause(self, lasted: float) -> float:
        """The next pause, after an attempt or a link that lasted so long."""
        if lasted > self._longest:
            self._next = self._first
        pause = min(self._next, self._longest)
        self._next = 2.0 * pause
        return pause * (1.0 - 0.5 * self._rng.random())
