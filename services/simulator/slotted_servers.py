"""The servers in slotted time, with the server's half of pull-messages and reports as it is in continuous time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from router.protocol.messages import Pull, Report, Withdraw
from server.announcer import Announcer
from server.core import ServerSpec
from server.reporter import Reporter
from server.session import Session
from services.simulator.slotted_router import Placed, SlottedRouter


class SlottedServer:
    """One server: whose jobs wait there, in order, and what it tells the routers.

    Rule: messages of a slot reach routers before the next slot begins. A server reports at most once in a slot, its
    length at the end; a slot in which it completes something and ends empty is one in which it has become idle. It
    looks after its pull-messages when all jobs of the slot have come, and again when jobs have been served.
    """

    def __init__(self, spec: ServerSpec, place: int, routers: Sequence[SlottedRouter], rng: Random) -> None:
        self.length = 0
        self._place = place
        self._routers = routers
        self._by_name = {router.name: router for router in routers}
        self._owners: deque[int] = deque()
        self._sessions = [Session(router.name, router.policy.needs) for router in routers]
        self._announcer = Announcer(spec.id, spec.slots, spec.capacity, rng)
        self._reporter = Reporter(spec.id, rng)
        self._announcer.set_takers(self._sessions)
        self._reporter.set_listeners(self._sessions)
        self._rides = [session.needs.reports is not None and session.needs.reports.on_end for session in self._sessions]
        self._tells_held = any(
            session.needs.pull is not None and session.needs.pull.placement == "shortest_of"
            for session in self._sessions
        )
        self._pulls: list[Pull | Withdraw] = []

    def open(self) -> None:
        """Post the first pull-message."""
        self._pulls += self._announcer.open(0)

    def dispatched(self, router: int, placed: Placed) -> bool:
        """A job of this slot has come; whether it was sent on a pull-message that was wrong."""
        session = self._sessions[router]
        session.seen += 1
        session.believed += 1
        announcer = self._announcer
        stale = False
        if placed.assign.number is not None:
            announcer.outstanding.pop(placed.assign.number, None)
            stale = self.length > announcer.last_threshold
        if self._tells_held:
            session.held = self._routers[router].policy.held_total
        self._owners.append(router)
        self.length += 1
        return stale

    def batches_over(self, before: int) -> None:
        """All jobs of this slot have come, to a queue of length `before`; messages that they used are off the book."""
        for length in range(before + 1, self.length + 1):
            self._pulls += self._announcer.risen(length)

    def served(self, number: int) -> list[Report]:
        """So many jobs have been served in this slot, at least one; what it reports of that."""
        length = self.length - number
        if self._announcer.threshold >= 0:
            for left in range(self.length - 1, length - 1, -1):
                self._pulls += self._announcer.fallen(left)
        self.length = length
        place = self._place
        for _ in range(number):
            owner = self._owners.popleft()
            if self._rides[owner]:
                self._sessions[owner].believed = length
                self._routers[owner].ended(place, length)
            else:
                self._routers[owner].ended(place, None)
        return self._reporter.departed(length) if self._reporter.on_departure else []

    def deliver(self, reports: Sequence[Report]) -> None:
        """Bring reports to their routers: at the end of a slot no job is on its way."""
        for report in reports:
            self._by_name[report.router].told(self._place, report.length)

    def report_to_all(self) -> list[Report]:
        """Periodic reports."""
        return [self._reporter.report(session, self.length) for session in self._sessions]

    def deliver_pulls(self) -> tuple[int, int]:
        """Bring pull-messages and withdrawals to their routers; return how many of each there were."""
        pulls = 0
        for message in self._pulls:
            router = self._by_name[message.router]
            server = router.servers[self._place]
            if type(message) is Pull:
                pulls += 1
                router.policy.on_pull(server, message.number)
            else:
                router.policy.on_withdraw(server, message.number)
        withdrawals = len(self._pulls) - pulls
        self._pulls = []
        return pulls, withdrawals
