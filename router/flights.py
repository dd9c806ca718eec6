"""The jobs that a router has at servers: how they are dispatched, how they end, and which of them try again."""

from __future__ import annotations

from router.events import EndJob, RouterEffect, Tally
from router.in_force import InForce
from router.jobs import InFlight, OnceJob
from router.members import Members
from router.memory import HARMLESS
from router.policy import Assign, Job, Server
from router.protocol.errors import RemoteProtocolError
from router.protocol.messages import Dispatch, End, build
from router.upkeep import Upkeep


class Flights:
    """The jobs in flight of one router: dispatched, and not ended.

    Args:
        members: The servers.
        in_force: The policy.
        upkeep: Told of ends, and of lengths that ride on them.
        in_flight: Filled here, by the numbers of the dispatches, in order.
        retries: How often a job that failed at a server, or with its link, is dispatched to another one, at random.

    Attributes:
        in_flight: As given.
        dispatches: The number of the latest dispatch.
        orphaned: Ends of what was not in flight at that server.
    """

    def __init__(
        self, members: Members, in_force: InForce, upkeep: Upkeep, in_flight: dict[int, InFlight], retries: int
    ) -> None:
        self.in_flight = in_flight
        self.dispatches = 0
        self.orphaned = 0
        self._members = members
        self._unchosen = members.unchosen
        self._in_force = in_force
        self._upkeep = upkeep
        self._memory = upkeep.memory
        self._freshness = upkeep.freshness
        self._retries = retries

    def send(self, job: Job, assign: Assign, tally: Tally, tried: tuple[str, ...] = ()) -> Dispatch | EndJob:
        """Dispatch a job as it was decided, for the policy of this tally."""
        in_force = self._in_force
        server, pull_number, expected, fallback, _ = assign
        if server.left:
            return in_force.not_dispatched(job, assign, in_force.policy, tally)
        self.dispatches = number = self.dispatches + 1
        self.in_flight[number] = build(InFlight, (job, server, tally, fallback, tried))
        tally.dispatches += 1
        if fallback:
            tally.fallbacks += 1
        server.sent += 1
        server.outstanding += 1
        if server.view is not None:
            server.view += 1
        if in_force.on_sent is not None:
            try:
                in_force.on_sent(server)
            except Exception as error:
                in_force.on_error(in_force.policy, error)
        held = in_force.policy.held_total if in_force.tells_held else 0
        _, size, patience = job
        return build(Dispatch, (server.id, self._members.router, number, size, patience, pull_number, expected, held))

    def end(self, event: End, now: float) -> list[RouterEffect]:
        """A server ends a job.

        Raises:
            RemoteProtocolError: It has seen more dispatches than were sent; nothing was changed.
        """
        from_server, _, number, outcome, reason, _, _, _, stale, length, seen = event
        record = self.in_flight.get(number)
        if record is None or record[1].id != from_server:
            self.orphaned += 1
            return []
        job, server, tally, fallback, _ = record
        if length is not None and seen is not None:
            if seen > server.sent:
                raise self.impossible(server, seen)
            view = server.view = length + server.sent - seen
            if server.outstanding > view + 1:
                unheard = self.reconcile(server, view + 1, but=number)
                return [*self.end(event, now), *unheard]
            if self._freshness is not None:
                self._freshness.renewed(server, now)
        elif server.view and (outcome == "blocked" or outcome == "failed"):
            # The server turned it away, so what its dispatch added to the view never came about. A link keeps
            # order: no report before this end has counted that dispatch, and each later one replaces the view.
            server.view -= 1
        del self.in_flight[number]
        server.outstanding -= 1
        if stale:
            tally.stale += 1
        in_force = self._in_force
        if in_force.on_job_ended is not None and server.id not in self._unchosen:
            try:
                in_force.on_job_ended(server)
            except Exception as error:
                in_force.on_error(in_force.policy, error)
        if self._memory is not None:
            timers = self._memory.ended(server, event, now)
            return [self._failed(record, event) if outcome == "failed" else record.over(event), *timers]
        if outcome == "failed":
            return [self._failed(record, event)]
        tally.ends[tally.kind_of_end(outcome, reason) if reason else (outcome, reason)] += 1
        return [build(EndJob, (job, outcome, reason, server, event, tally.policy, fallback))]

    def impossible(self, server: Server, seen: int) -> RemoteProtocolError:
        """The error of a server that has seen more dispatches than were sent."""
        return RemoteProtocolError(
            f"router {self._members.router}: {server.id} has seen {seen} dispatches, of {server.sent} sent on this link"
        )

    def reconcile(self, server: Server, most: int, but: int = 0) -> list[RouterEffect]:
        """A server cannot have more than `most` jobs of ours, but we count more: the oldest of them ended unheard."""
        ours = [number for number, record in self.in_flight.items() if record.server is server and number != but]
        effects: list[RouterEffect] = []
        for number in ours[: server.outstanding - most]:
            server.outstanding -= 1
            effects.append(self.in_flight.pop(number).over(None, "unaccounted"))
        self._members.let_back(server, "hung")  # what seemed to be there for so long was not
        in_force = self._in_force
        if in_force.on_job_ended is not None and server.id not in self._unchosen:
            in_force.tell(in_force.policy, in_force.on_job_ended, server)
        return effects

    # -- jobs that failed ---------------------------------------------------------------------

    def lose(self, server: Server) -> list[RouterEffect]:
        """The link to a server is lost, and with it all jobs that are there."""
        lost = [number for number, record in self.in_flight.items() if record.server is server]
        return [self._link_lost(self.in_flight.pop(number)) for number in lost]

    def _link_lost(self, record: InFlight) -> Dispatch | EndJob:
        record.server.outstanding -= 1
        return self._again(record, started=True) or record.over(None, "link_lost")

    def _failed(self, record: InFlight, end: End) -> Dispatch | EndJob:
        record.server.failed += end.reason not in HARMLESS
        return self._again(record, started=end.service > 0.0) or record.over(end)

    def _again(self, record: InFlight, *, started: bool) -> Dispatch | EndJob | None:
        """Dispatch a job to a random server that it has not been at; `None`: it may not be, or there is none.

        Args:
            record: Where it was.
            started: Whether its service began, or may have begun.
        """
        job, server, _, _, tried = record
        if len(tried) >= self._retries or (started and type(job) is OnceJob):
            return None
        tried = (*tried, server.id)
        in_force = self._in_force
        choice = self._members.draw(in_force.policy.rng, tried)
        if choice is None:
            return None
        in_force.tally.retries += 1
        return self.send(job, Assign(choice, fallback=True), in_force.tally, tried)
