"""How old what a router believes of queue lengths may get, and what it is worth then: off unless it is asked for."""

from __future__ import annotations

from typing import Literal, NamedTuple

from router.members import Members
from router.policy import Server
from router.protocol.timer import StartTimer

Stale = Literal["ignore", "average", "full"]
"""What a stale view counts as; see `Freshness`."""

NO_JOB = (1 << 63) - 1
"""The number that a probe carries which no job waits for."""


class ViewsDue(NamedTuple):
    """Timer: look for views that are old."""


class Freshness:
    """Finds the servers whose views are stale, asks them, and says what their views count as until they answer.

    Rule: a view is stale when no report has renewed it for `after`. A server has nothing to report while nothing
    happens to it, so it is asked (a probe) when half of that time is over; only one that does not answer becomes
    stale, and is asked again until it answers. All is looked at twice in `after`, so a view may be half as old again
    before it is found out. A stale view counts as: `ignore`: what it was. `average`: the mean of those that are fresh,
    rounded. `full`: its server is set aside, unless all are stale. A view that was never reported is unknown, and
    becomes stale likewise.

    Units: instants and durations in the clock's unit.

    Args:
        after: When a view is stale.
        rule: What it then counts as.
        members: Where servers are set aside.

    Attributes:
        stale: The servers whose views are stale, in the order in which that was found.
    """

    def __init__(self, after: float, rule: Stale, members: Members) -> None:
        self.stale: dict[Server, None] = {}
        self._period = after / 2.0
        self._after = after
        self._rule = rule
        self._members = members
        self._renewed: dict[Server, float] = {}
        self._watching = False
        self._matters = True

    def joined(self, server: Server, now: float) -> list[StartTimer]:
        """A server, or a new incarnation of one: its age counts from now."""
        self._renewed[server] = now
        if self._watching:
            return []
        self._watching = True
        return [StartTimer(now + self._period, ViewsDue())]

    def leaves(self, server: Server, now: float) -> None:
        """Its link is lost."""
        del self._renewed[server]
        self.stale.pop(server, None)

    def begin_anew(self, matters: bool, now: float) -> None:
        """There is another policy, under which nothing is known yet: all ages count from now.

        Args:
            matters: Whether it asks for reports at all; what servers do not tell cannot become stale.
            now: The instant.
        """
        self._matters = matters
        for server in self._renewed:
            self.renewed(server, now)

    def renewed(self, server: Server, now: float) -> None:
        """A report of this server has come."""
        self._renewed[server] = now
        if server in self.stale:
            del self.stale[server]
            self._members.let_back(server, "stale")

    def look(self, now: float) -> tuple[list[Server], list[Server], list[StartTimer]]:
        """Look at all views.

        Returns:
            The servers to be asked; those whose views were changed, or which were set aside; the next timer.
        """
        draining = self._members.draining
        ages = self._renewed.items() if self._matters else ()
        old = [server for server, renewed in ages if now - renewed >= self._period and server.id not in draining]
        for server in old:
            if now - self._renewed[server] >= self._after:
                self.stale[server] = None
        changed = self._judge(draining)
        self._watching = bool(self._renewed)
        return old, changed, [StartTimer(now + self._period, ViewsDue())] if self._watching else []

    def _judge(self, draining: set[str]) -> list[Server]:
        fresh = [server for server in self._renewed if server not in self.stale and server.id not in draining]
        if self._rule == "full":
            if fresh:
                return [server for server in self.stale if self._members.set_aside(server, "stale")]
            for server in self.stale:
                self._members.let_back(server, "stale")
            return []
        known = [server.view for server in fresh if server.view is not None]
        if self._rule == "ignore" or not known:
            return []
        mean = round(sum(known) / len(known))
        for server in self.stale:
            server.view = mean
        return list(self.stale)
