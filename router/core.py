"""The router as a pure state machine: events in, effects out; see `docs/architecture.md` for its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from router import policy as decisions
from router.events import (
    Draining,
    EndJob,
    JobArrived,
    PolicyChanged,
    ProbesDue,
    RouterEffect,
    RouterEvent,
    ServerDraining,
    ServerJoined,
    ServerLeft,
    ServerRated,
    Tally,
)
from router.flights import Flights
from router.freshness import Stale
from router.in_force import InForce, OnError, raise_it
from router.jobs import InFlight
from router.members import Members
from router.memory import MemoryRule
from router.policy import Assign, Job, Policy, Server
from router.protocol.errors import LocalProtocolError
from router.protocol.messages import End, Probe, Pull, Report, Withdraw, build
from router.questions import Probing, Questions
from router.upkeep import Upkeep

__all__ = [
    "Draining", "EndJob", "JobArrived", "PolicyChanged", "ProbesDue", "RouterCore", "RouterEffect", "RouterEvent",
    "ServerDraining", "ServerJoined", "ServerLeft", "ServerRated", "Tally",
]  # fmt: skip


Handler = Callable[[Any, float], list[RouterEffect]]


class RouterCore:
    """One router: its servers, its policy, its jobs. Not thread-safe; one caller.

    Decides where jobs go; its parts keep the servers (`Members`), the policy (`InForce`), the jobs that wait for
    answers (`Questions`) and those at servers (`Flights`), and see to servers that fail or fall silent (`Upkeep`).

    Args:
        id: The router's name.
        policy: The policy in force at first.
        probe_timeout: The longest that a job waits for answers to its probes, in the clock's unit.
        retries: How often a job that failed at a server, or with its link, is dispatched to another one, at random.
        memory: When servers that fail or hang are set aside; `None`: never.
        stale_after: Views that are older are stale; `None`: no view is. `stale`: what they count as.
        time_unit: Clock units in a time unit, in which the three before are.
        ceiling: The most jobs in this router's system; beyond, they fail with reason `ceiling`.
        on_error: Told what a policy in force has raised. By default that is raised on; if this returns, the error
            costs no more than the job that was to be decided, which fails with reason `policy`.

    Attributes:
        members: The servers. `servers`, `draining`: as there.
        tallies: What each policy has done, by name.
        in_flight: Jobs that are at servers, by the numbers of their dispatches, in order.
        upkeep: What is done about servers that fail or fall silent.
    """

    def __init__(
        self,
        id: str,
        policy: Policy,
        *,
        probe_timeout: float = 1.0,
        retries: int = 0,
        memory: MemoryRule | None = None,
        stale_after: float | None = None,
        stale: Stale = "ignore",
        time_unit: float = 1.0,
        ceiling: int = 1_000_000,
        on_error: OnError = raise_it,
    ) -> None:
        self.id = id
        self._questions = Questions(probe_timeout)
        self._probing = self._questions.waiting
        self._in_force = InForce(policy, self._questions, on_error)
        self.tallies = self._in_force.tallies
        self.members = Members(id, self._in_force)
        self.servers = self.members.servers
        self.draining = self.members.draining
        self._unchosen = self.members.unchosen
        self.in_flight: dict[int, InFlight] = {}
        self.upkeep = Upkeep(self.members, self._in_force, self.in_flight, memory, stale_after, stale, time_unit)
        self._freshness = self.upkeep.freshness
        self._flights = Flights(self.members, self._in_force, self.upkeep, self.in_flight, retries)
        self._dispatch = self._flights.send
        self._ceiling = ceiling
        self._closed = False
        self._handlers: dict[type, Handler] = {
            JobArrived: self._job_arrived,
            Pull: self.members.pull,
            Withdraw: self.members.withdraw,
            Report: self._report,
            End: self._flights.end if memory is None else self._and_unask(self._flights.end),
            ServerJoined: self._and_unask(self._server_joined),  # it may come back to be set aside
            ServerDraining: self._server_draining,
            ServerLeft: self._server_left,
            ServerRated: self._server_rated,
            PolicyChanged: self._policy_changed,
            Draining: self._draining,
            ProbesDue: self._probes_due,
            **{kind: self._and_unask(handler) for kind, handler in self.upkeep.handlers().items()},
        }

    def handle(self, event: RouterEvent, now: float) -> list[RouterEffect]:
        """Take one event in, at instant `now`; return what is to be done, in order.

        Raises:
            LocalProtocolError: The event is impossible in this state; nothing was changed.
            RemoteProtocolError: A server says what cannot be; nothing was changed. Close the link to it.
        """
        return self._handlers[type(event)](event, now)

    def entrance(self, kind: type) -> Callable[[Any, float], list[RouterEffect]]:
        """`handle` for events of this kind, without the look-up: for a loop that knows the kind."""
        return self._handlers[kind]

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._in_force.policy

    @property
    def tally(self) -> Tally:
        """What it has done."""
        return self._in_force.tally

    @property
    def in_system(self) -> int:
        """Jobs that have arrived and not ended."""
        return len(self.in_flight) + len(self._probing)

    @property
    def probing(self) -> int:
        """Jobs that wait for answers to their probes."""
        return len(self._probing)

    @property
    def dispatches(self) -> int:
        """The number of the latest dispatch."""
        return self._flights.dispatches

    @property
    def orphaned(self) -> int:
        """Ends of what was not in flight at that server."""
        return self._flights.orphaned

    @property
    def held_total(self) -> int:
        """Pull-messages that are held, by the policy in force or for servers that are set aside."""
        return self.members.held_total

    @property
    def unheld_withdrawals(self) -> int:
        """Withdrawals of pull-messages that were not held."""
        return self.members.unheld_withdrawals

    # -- jobs ---------------------------------------------------------------------------------

    def _job_arrived(self, event: JobArrived, now: float) -> list[RouterEffect]:
        job = event.job
        if job.id in self._probing:
            raise LocalProtocolError(f"router {self.id}: job {job.id} arrives, but a job of that id is here already")
        in_force = self._in_force
        policy, tally = in_force.policy, in_force.tally
        tally.arrivals += 1
        if self._closed:
            return [tally.undispatched(job, "failed", "draining")]
        if len(self.in_flight) + len(self._probing) >= self._ceiling:
            return [tally.undispatched(job, "failed", "ceiling")]
        if len(self.servers) == len(self._unchosen):
            return [tally.undispatched(job, "failed", "no_server")]
        try:
            decision = policy.on_arrival(job)
        except Exception as error:
            return [in_force.undecidable(job, policy, tally, error)]
        if type(decision) is Assign:
            dispatch = self._dispatch(job, decision, tally)
            if not decision.refresh:
                return [dispatch]
            tally.probes += len(decision.refresh)
            return [dispatch, *(Probe(server.id, self.id, job.id) for server in decision.refresh)]
        if type(decision) is decisions.Probe:
            return self._ask(job, decision.servers, now)
        return [in_force.not_dispatched(job, decision, policy, tally)]

    def _ask(self, job: Job, servers: Sequence[Server], now: float) -> list[RouterEffect]:
        policy, tally = self._in_force.policy, self._in_force.tally
        tally.probes += len(servers)
        effects: list[RouterEffect] = []
        for server in servers:
            effects.append(build(Probe, (server.id, self.id, job.id)))  # noqa: PERF401  # a comprehension is a call
        timer = self._questions.ask(job, policy, tally, servers, now)
        if timer is not None:
            effects.append(timer)
        return effects

    def _report(self, event: Report, now: float) -> list[RouterEffect]:
        id, _, length, seen, job = event
        server = self.servers.get(id) or self.members.known(id, "report from it")
        if seen > server.sent:
            raise self._flights.impossible(server, seen)
        view = server.view = length + server.sent - seen  # and what was on its way when the server told its length
        effects = self._flights.reconcile(server, view) if server.outstanding > view else []
        if self._freshness is not None:
            self._freshness.renewed(server, now)
        in_force = self._in_force
        if in_force.on_report is not None and id not in self._unchosen:
            try:
                in_force.on_report(server)
            except Exception as error:
                in_force.on_error(in_force.policy, error)
        if job is not None:
            probing = self._questions.answered(job, server, view)
            if probing is not None:
                effects.append(self._settle(probing))
        return effects

    def _settle(self, probing: Probing) -> RouterEffect:
        """Decide a job on the answers at hand; with none, uniformly."""
        job, policy, tally, answers = probing.job, probing.policy, probing.tally, probing.answers
        in_force = self._in_force
        if self._unchosen:
            answers = [answer for answer in answers if answer[0].id not in self._unchosen]
        if answers:
            try:
                decision = policy.on_reports(job, answers)
            except Exception as error:
                return in_force.undecidable(job, policy, tally, error)
            if type(decision) is Assign:
                return self._dispatch(job, decision, tally)
            return in_force.not_dispatched(job, decision, policy, tally)
        choice = self.members.draw(in_force.policy.rng)
        if choice is None:
            return tally.undispatched(job, "failed", "no_server")
        tally.undecided += 1
        return self._dispatch(job, Assign(choice, fallback=True), tally)

    def _probes_due(self, event: ProbesDue, now: float) -> list[RouterEffect]:
        """One timer serves all jobs that wait."""
        effects = [self._settle(probing) for probing in self._questions.due(now)]
        return effects + self._questions.next_timer()

    def _and_unask(self, handler: Handler) -> Handler:
        """The same handler; and whomever it sets aside is not waited for any more."""
        just_aside = self.members.just_aside

        def handle(event: Any, now: float) -> list[RouterEffect]:
            effects = handler(event, now)
            while just_aside:
                effects += [self._settle(probing) for probing in self._questions.unask(just_aside.pop())]
            return effects

        return handle

    # -- servers, policies, and the end of this router ----------------------------------------

    def _server_joined(self, event: ServerJoined, now: float) -> list[RouterEffect]:
        self.members.join(event.server)
        return self.upkeep.joined(event.server, now)

    def _server_draining(self, event: ServerDraining, now: float) -> list[RouterEffect]:
        server = self.members.known(event.server, "a server drains")
        self.upkeep.drains(server, now)
        self.members.drain(server)
        return []

    def _server_rated(self, event: ServerRated, now: float) -> list[RouterEffect]:
        self.members.rate(self.members.known(event.server, "a server has another rate"), event.rate)
        return []

    def _server_left(self, event: ServerLeft, now: float) -> list[RouterEffect]:
        server = self.members.known(event.server, "a server leaves")
        self.upkeep.leaves(server, now)
        self.members.leave(server)
        effects = [self._settle(probing) for probing in self._questions.unask(server)]
        return effects + self._flights.lose(server)

    def _policy_changed(self, event: PolicyChanged, now: float) -> list[RouterEffect]:
        self.members.move_to(event.policy)
        self.upkeep.begin_anew(now)
        return []

    def _draining(self, event: Draining, now: float) -> list[RouterEffect]:
        self._closed = True
        return []
