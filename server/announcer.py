"""The server's half of pull-messages: when to post one, where, and when to take it back."""

from __future__ import annotations

from random import Random

from router.protocol.messages import Pull, Withdraw, build
from server.session import Session

MOST_OUTSTANDING = 1000
"""Messages that one server has out: under `duplicate` those at a router that gets no jobs would pile up."""


class Announcer:
    """Keeps the pull-messages of one server.

    Rule: a server wants a job while at most `threshold` are there. Under `withdraw` and `keep` it then
    has exactly one message out; under `duplicate` each fall to the threshold posts a further one.
    Each message has a number of its own, so that a withdrawal which crosses the dispatch on the wire
    harms nothing.

    Attributes:
        outstanding: The messages that are out, by number, with the session that holds each.
        threshold: Post at that many jobs and fewer, never when full; -1: no router wants pull-messages.
        last_threshold: The threshold by which a message that is used is stale or not: the last one that was
            not -1, since a dispatch may cross the news that no router wants pull-messages any more.
    """

    __slots__ = (
        "_capacity",
        "_closed",
        "_k",
        "_number",
        "_opened",
        "_rng",
        "_server",
        "_slots",
        "_stale",
        "_takers",
        "last_threshold",
        "outstanding",
        "threshold",
    )

    def __init__(self, server: str, slots: int, capacity: float, rng: Random) -> None:
        self.outstanding: dict[int, Session] = {}
        self.threshold = -1
        self.last_threshold = 0
        self._server = server
        self._slots = slots
        self._capacity = capacity
        self._rng = rng
        self._takers: list[Session] = []
        self._stale = "withdraw"
        self._k = 0  # routers compared by list length; 0: placed at random
        self._number = 0
        self._opened = False
        self._closed = False

    def set_takers(self, sessions: list[Session]) -> None:
        """Only these want pull-messages; the last one to say what it needs sets the rule."""
        self._takers = [session for session in sessions if session.needs.pull is not None]
        needs = self._takers[-1].needs.pull if self._takers else None
        self.threshold = -1
        if needs is not None and not self._closed:
            wanted = self._slots - 1 if needs.announce_at == "vacancy" else needs.announce_at
            self.threshold = wanted if wanted < self._capacity else int(self._capacity) - 1
            self.last_threshold = self.threshold
            self._stale = needs.stale
            self._k = needs.k if needs.placement == "shortest_of" else 0

    def open(self, length: int) -> list[Pull]:
        """The links to the routers known at start are up: post the first message."""
        self._opened = True
        return self.settle(length)

    def close(self) -> list[Withdraw]:
        """Take all messages back and post none any more."""
        self._closed = True
        self.threshold = -1
        return self._take_back(list(self.outstanding))

    def lost(self, session: Session) -> None:
        """The router that holds messages is gone, and they with it."""
        self.outstanding = {number: holder for number, holder in self.outstanding.items() if holder is not session}

    def recall(self, session: Session) -> list[Withdraw]:
        """The router has another policy, which does not know the messages that its last one held.

        A message that crosses the news on the wire does reach the new policy, so each is withdrawn by
        number; the router counts and ignores the withdrawals of those that it dropped.
        """
        return self._take_back([number for number, holder in self.outstanding.items() if holder is session])

    def settle(self, length: int) -> list[Pull]:
        """Routers or needs have changed: post the message that is wanted and not out."""
        if length > self.threshold or self.outstanding or not self._opened:
            return []
        return [self._post()]

    def fallen(self, length: int) -> list[Pull]:
        """A job has left `length` others behind."""
        if self._stale == "duplicate" and length == self.threshold and self._opened:
            return [self._post()] if len(self.outstanding) < MOST_OUTSTANDING else []
        return self.settle(length)

    def risen(self, length: int) -> list[Pull | Withdraw]:
        """A job was admitted and makes it `length`; if it used a message, that was taken off first."""
        if length > self.threshold:
            if self.outstanding and self._stale == "withdraw":
                return list(self._take_back(list(self.outstanding)))
            return []
        return list(self.settle(length))

    def _post(self) -> Pull:
        self._number += 1
        session = self._draw()
        self.outstanding[self._number] = session
        return build(Pull, (self._server, session.router, self._number))

    def _draw(self) -> Session:
        takers = self._takers
        if len(takers) == 1:
            return takers[0]
        if self._k == 0:
            return takers[int(self._rng.random() * len(takers))]
        # A sample in random order: its first minimum is a uniformly random one among equals.
        sample = self._rng.sample(takers, min(self._k, len(takers)))
        return min(sample, key=lambda session: session.held)

    def _take_back(self, numbers: list[int]) -> list[Withdraw]:
        return [Withdraw(self._server, self.outstanding.pop(number).router, number) for number in numbers]
