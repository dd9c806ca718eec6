"""The router as a pure state machine: events in, effects out; see `docs/architecture.md` for its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from router.freshness import Stale
from router.jobs import InFlight, OnceJob, Probing
from router.memory import MemoryRule
from router.policy import Assign, Block, Job, Policy, Server
from router.protocol.errors import LocalProtocolError, RemoteProtocolError
from router.protocol.messages import Dispatch, End, Outcome, Probe, Pull, Report, Withdraw, build
from router.protocol.timer import StartTimer
from router.roster import OnError, Roster, raise_it
from router.upkeep import Upkeep

__all__ = [
    "Draining", "EndJob", "JobArrived", "PolicyChanged", "ProbesDue", "RouterCore", "RouterEffect", "RouterEvent",
    "ServerDraining", "ServerJoined", "ServerLeft", "ServerRated", "Tally",
]  # fmt: skip


class RouterCore(Roster):
    """One router: its servers, its policy, its jobs. Not thread-safe; one caller.

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
        self._probing: dict[int, Probing] = {}  # all wait equally long, so the first one is due first
        super().__init__(id, policy, on_error)
        self.in_flight: dict[int, InFlight] = {}
        self.orphaned = 0
        self._probe_timeout = probe_timeout
        self._retries = retries
        self._ceiling = ceiling
        self._dispatches = 0
        self._probe_timer = False
        self._closed = False
        self.upkeep = Upkeep(self, memory, stale_after, stale, time_unit)
        self.upkeep.begin_anew(policy.needs, 0.0)
        self._memory = self.upkeep.memory
        self._freshness = self.upkeep.freshness
        self._handlers: dict[type, Callable[[Any, float], list[RouterEffect]]] = {
            JobArrived: self._job_arrived,
            Pull: self._pull,
            Withdraw: self._withdraw,
            Report: self._report,
            End: self._end,
            ServerJoined: self._server_joined,
            ServerDraining: self._server_draining,
            ServerLeft: self._server_left,
            ServerRated: self._server_rated,
            PolicyChanged: self._policy_changed,
            Draining: self._draining,
            ProbesDue: self._probes_due,
            **self.upkeep.handlers(),
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
        return self._dispatches

    # -- jobs ---------------------------------------------------------------------------------

    def _job_arrived(self, event: JobArrived, now: float) -> list[RouterEffect]:
        job = event.job
        if job.id in self._probing:
            raise LocalProtocolError(f"router {self.id}: job {job.id} arrives, but a job of that id is here already")
        self.tally.arrivals += 1
        if self._closed:
            return [self._lost(job, "failed", "draining", self.tally)]
        if len(self.in_flight) + len(self._probing) >= self._ceiling:
            return [self._lost(job, "failed", "ceiling", self.tally)]
        return self._decide(job, now)

    def _decide(self, job: Job, now: float) -> list[RouterEffect]:
        if len(self.servers) == len(self._unchosen):
            return [self._lost(job, "failed", "no_server", self.tally)]
        policy = self.policy
        try:
            decision = policy.on_arrival(job)
        except Exception as error:
            return [self._undecidable(job, policy, self.tally, error)]
        if type(decision) is Assign:
            dispatch = self._dispatch(job, decision, self.tally)
            if not decision.refresh:
                return [dispatch]
            self.tally.probes += len(decision.refresh)
            return [dispatch, *(Probe(server.id, self.id, job.id) for server in decision.refresh)]
        if type(decision) is decisions.Probe:
            return self._ask(job, decision.servers, now)
        return [self._not_dispatched(job, decision, policy, self.tally)]

    def _ask(self, job: Job, servers: Sequence[Server], now: float) -> list[RouterEffect]:
        due = now + self._probe_timeout
        probing = Probing(job, self.policy, self.tally, servers, due)
        self._probing[job.id] = probing
        self.tally.probes += len(servers)
        effects: list[RouterEffect] = []
        for server in servers:
            effects.append(build(Probe, (server.id, self.id, job.id)))  # noqa: PERF401  # a comprehension is a call
        if not self._probe_timer:
            self._probe_timer = True
            effects.append(StartTimer(due, ProbesDue()))
        return effects

    def _dispatch(self, job: Job, assign: Assign, tally: Tally, tried: tuple[str, ...] = ()) -> Dispatch | EndJob:
        server, pull_number, expected, fallback, _ = assign
        if server.left:
            return self._not_dispatched(job, assign, self.policy, tally)
        self._dispatches = number = self._dispatches + 1
        self.in_flight[number] = build(InFlight, (job, server, tally, fallback, tried))
        tally.dispatches += 1
        if fallback:
            tally.fallbacks += 1
        server.sent += 1
        server.outstanding += 1
        if server.view is not None:
            server.view += 1
        if self._on_sent is not None:
            try:
                self._on_sent(server)
            except Exception as error:
                self._on_error(self.policy, error)
        held = self.policy.held_total if self._tells_held else 0
        _, size, patience = job
        return build(Dispatch, (server.id, self.id, number, size, patience, pull_number, expected, held))

    def _not_dispatched(self, job: Job, decision: object, policy: Policy, tally: Tally) -> EndJob:
        if type(decision) is Block:
            return self._lost(job, "blocked", "", tally)
        error = LocalProtocolError(f"policy {policy.name} decides {decision!r:.80} for {job}: no server that is here")
        return self._undecidable(job, policy, tally, error)

    def _undecidable(self, job: Job, policy: Policy, tally: Tally, error: Exception) -> EndJob:
        self._on_error(policy, error)
        return self._lost(job, "failed", "policy", tally)

    def _lost(self, job: Job, outcome: Outcome, reason: str, tally: Tally) -> EndJob:
        tally.ends[outcome, reason] += 1
        return EndJob(job, outcome, reason, None, None, tally.policy, False)

    def _end(self, event: End, now: float) -> list[RouterEffect]:
        from_server, _, number, outcome, reason, _, _, _, stale, length, seen = event
        record = self.in_flight.get(number)
        if record is None or record[1].id != from_server:
            self.orphaned += 1
            return []
        job, server, tally, fallback, _ = record
        if length is not None and seen is not None:
            if seen > server.sent:
                raise self._impossible(server, seen)
            view = server.view = length + server.sent - seen
            if server.outstanding > view + 1:
                unheard = self._reconcile(server, view + 1, but=number)
                return [*self._end(event, now), *unheard]
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
        if self._on_job_ended is not None and server.id not in self._unchosen:
            try:
                self._on_job_ended(server)
            except Exception as error:
                self._on_error(self.policy, error)
        if self._memory is not None:
            effects = self.upkeep.ended(server, event, now)
            return [self._failed(record, event) if outcome == "failed" else self._gone(record, event), *effects]
        if outcome == "failed":
            return [self._failed(record, event)]
        tally.ends[tally.kind_of_end(outcome, reason) if reason else (outcome, reason)] += 1
        return [build(EndJob, (job, outcome, reason, server, event, tally.policy, fallback))]

    def _impossible(self, server: Server, seen: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"router {self.id}: {server.id} has seen {seen} dispatches, of {server.sent} sent on this link"
        )

    # -- jobs that failed ---------------------------------------------------------------------

    def _gone(self, record: InFlight, end: End | None, reason: str = "") -> EndJob:
        """A job that was at a server has its end; without `end`, the server did not say so."""
        job, server, tally, fallback, _ = record
        outcome: Outcome = "failed"
        if end is not None:
            outcome, reason = end.outcome, end.reason
        tally.ends[tally.kind_of_end(outcome, reason)] += 1
        return EndJob(job, outcome, reason, server, end, tally.policy, fallback)

    def _failed(self, record: InFlight, end: End) -> Dispatch | EndJob:
        record.server.failed += 1
        return self._again(record, started=end.service > 0.0) or self._gone(record, end)

    def _link_lost(self, record: InFlight) -> Dispatch | EndJob:
        record.server.outstanding -= 1
        return self._again(record, started=True) or self._gone(record, None, "link_lost")

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
        choice = self.members.draw(self.policy.rng, tried)
        if choice is None:
            return None
        self.tally.retries += 1
        return self._dispatch(job, Assign(choice, fallback=True), self.tally, tried)

    def _reconcile(self, server: Server, most: int, but: int = 0) -> list[RouterEffect]:
        """A server cannot have more than `most` jobs of ours, but we count more: the oldest of them ended unheard."""
        ours = [number for number, record in self.in_flight.items() if record.server is server and number != but]
        effects: list[RouterEffect] = []
        for number in ours[: server.outstanding - most]:
            server.outstanding -= 1
            effects.append(self._gone(self.in_flight.pop(number), None, "unaccounted"))
        self.members.let_back(server, "hung")  # what seemed to be there for so long was not
        if self._on_job_ended is not None and server.id not in self._unchosen:
            self._tell(self.policy, self._on_job_ended, server)
        return effects

    # -- answers to probes --------------------------------------------------------------------

    def _report(self, event: Report, now: float) -> list[RouterEffect]:
        id, _, length, seen, job = event
        server = self.servers.get(id)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: report from {id}, which has not joined")
        if seen > server.sent:
            raise self._impossible(server, seen)
        view = server.view = length + server.sent - seen  # and what was on its way when the server told its length
        effects = self._reconcile(server, view) if server.outstanding > view else []
        if self._freshness is not None:
            self._freshness.renewed(server, now)
        if self._on_report is not None and id not in self._unchosen:
            try:
                self._on_report(server)
            except Exception as error:
                self._on_error(self.policy, error)
        if job is None:
            return effects
        probing = self._probing.get(job)
        if probing is None or server not in probing.silent:
            return effects  # it was decided without this answer, when its time was over
        del probing.silent[server]
        probing.answers.append((server, view))
        if not probing.silent:
            effects.append(self._settle(probing))
        return effects

    def _settle(self, probing: Probing) -> RouterEffect:
        """Decide a job on the answers at hand; with none, uniformly."""
        job, policy = probing.job, probing.policy
        del self._probing[job.id]
        answers = probing.answers
        if self._unchosen:
            answers = [answer for answer in answers if answer[0].id not in self._unchosen]
        if answers:
            try:
                decision = policy.on_reports(job, answers)
            except Exception as error:
                return self._undecidable(job, policy, probing.tally, error)
            if type(decision) is Assign:
                return self._dispatch(job, decision, probing.tally)
            return self._not_dispatched(job, decision, policy, probing.tally)
        choice = self.members.draw(self.policy.rng)
        if choice is None:
            return self._lost(job, "failed", "no_server", probing.tally)
        probing.tally.undecided += 1
        return self._dispatch(job, Assign(choice, fallback=True), probing.tally)

    def _probes_due(self, event: ProbesDue, now: float) -> list[RouterEffect]:
        """One timer serves all jobs that wait."""
        due: list[Probing] = []
        for probing in self._probing.values():
            if probing.due > now:
                break
            due.append(probing)
        effects = [self._settle(probing) for probing in due]
        self._probe_timer = bool(self._probing)
        if self._probe_timer:
            effects.append(StartTimer(next(iter(self._probing.values())).due, ProbesDue()))
        return effects

    def unask(self, server: Server) -> list[RouterEffect]:
        """Jobs wait no longer for what this server answers, nor count on what it has answered."""
        effects: list[RouterEffect] = []
        for probing in list(self._probing.values()):
            probing.answers = [answer for answer in probing.answers if answer[0] is not server]
            if server in probing.silent:
                del probing.silent[server]
                if not probing.silent:
                    effects.append(self._settle(probing))
        return effects

    # -- the end of a link, and of this router -------------------------------------------------

    def _server_left(self, event: ServerLeft, now: float) -> list[RouterEffect]:
        server = self._known(event.server, "a server leaves")
        self.members.leave(server)
        self.upkeep.left(server)
        effects = self.unask(server)
        lost = [number for number, record in self.in_flight.items() if record.server is server]
        return effects + [self._link_lost(self.in_flight.pop(number)) for number in lost]

    def _waiting(self) -> Iterable[Policy]:
        return (probing.policy for probing in self._probing.values())

    def _draining(self, event: Draining, now: float) -> list[RouterEffect]:
        self._closed = True
        return []
