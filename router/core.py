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
    Tally,
)
from router.jobs import InFlight, Probing
from router.policy import Assign, Block, Job, Policy, Server
from router.protocol.errors import LocalProtocolError, RemoteProtocolError
from router.protocol.messages import Dispatch, End, Outcome, Probe, Pull, Report, Withdraw, build
from router.protocol.timer import StartTimer

__all__ = [
    "Draining", "EndJob", "JobArrived", "PolicyChanged", "ProbesDue", "RouterCore", "RouterEffect", "RouterEvent",
    "ServerDraining", "ServerJoined", "ServerLeft", "Tally",
]  # fmt: skip


def _raise(policy: Policy, error: Exception) -> None:
    raise error


class RouterCore:
    """One router: its servers, its policy, its jobs. Not thread-safe; one caller.

    Args:
        id: The router's name.
        policy: The policy in force at first.
        probe_timeout: The longest that a job waits for answers to its probes, in the clock's unit.
        retries: How often a job whose server was lost is dispatched anew.
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
        ceiling: int = 1_000_000,
        on_error: Callable[[Policy, Exception], None] = _raise,
    ) -> None:
        self.id = id
        self.servers: dict[str, Server] = {}
        self.draining: set[str] = set()
        self.in_flight: dict[int, InFlight] = {}
        self.orphaned = 0
        self.unheld_withdrawals = 0
        self.tallies: dict[str, Tally] = {}
        self._probe_timeout = probe_timeout
        self._retries = retries
        self._ceiling = ceiling
        self._on_error = on_error
        self._dispatches = 0
        self._probing: dict[int, Probing] = {}  # all wait equally long, so the first one is due first
        self._probe_timer = False
        self._closed = False
        self._handlers: dict[type, Callable[[Any, float], list[RouterEffect]]] = {
            JobArrived: self._job_arrived,
            Pull: self._pull,
            Withdraw: self._withdraw,
            Report: self._report,
            End: self._end,
            ServerJoined: self._server_joined,
            ServerDraining: self._server_draining,
            ServerLeft: self._server_left,
            PolicyChanged: self._policy_changed,
            Draining: self._draining,
            ProbesDue: self._probes_due,
        }
        self._use(policy)

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

    def chosen_from(self) -> list[Server]:
        """The servers that the policy may choose from, in order of joining."""
        return [server for server in self.servers.values() if server.id not in self.draining]

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
        return self._decide(job, now, 0)

    def _decide(self, job: Job, now: float, attempt: int) -> list[RouterEffect]:
        if len(self.servers) == len(self.draining):
            return [self._lost(job, "failed", "no_server", self.tally)]
        policy = self.policy
        try:
            decision = policy.on_arrival(job)
        except Exception as error:
            return [self._undecidable(job, policy, self.tally, error)]
        if type(decision) is Assign:
            dispatch = self._dispatch(job, decision, self.tally, attempt)
            if not decision.refresh:
                return [dispatch]
            self.tally.probes += len(decision.refresh)
            return [dispatch, *(Probe(server.id, self.id, job.id) for server in decision.refresh)]
        if type(decision) is decisions.Probe:
            return self._ask(job, decision.servers, now, attempt)
        return [self._not_dispatched(job, decision, policy, self.tally)]

    def _ask(self, job: Job, servers: Sequence[Server], now: float, attempt: int) -> list[RouterEffect]:
        due = now + self._probe_timeout
        probing = Probing(job, self.policy, self.tally, servers, due, attempt)
        self._probing[job.id] = probing
        self.tally.probes += len(servers)
        effects: list[RouterEffect] = []
        for server in servers:
            effects.append(build(Probe, (server.id, self.id, job.id)))  # noqa: PERF401  # a comprehension is a call
        if not self._probe_timer:
            self._probe_timer = True
            effects.append(StartTimer(due, ProbesDue()))
        return effects

    def _dispatch(self, job: Job, assign: Assign, tally: Tally, attempt: int) -> Dispatch:
        server, pull_number, expected, fallback, _ = assign
        self._dispatches = number = self._dispatches + 1
        self.in_flight[number] = build(InFlight, (job, server, tally, assign, attempt))
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
        error = LocalProtocolError(f"policy {policy.name} decides {decision!r:.80} for {job}: expected a decision")
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
        job, server, tally, assign, attempt = record
        if length is not None and seen is not None:
            if seen > server.sent:
                raise self._impossible(server, seen)
            server.view = length + server.sent - seen
        elif server.view and (outcome == "blocked" or outcome == "failed"):
            # The server turned it away, so what its dispatch added to the view never came about. A link keeps
            # order: no report before this end has counted that dispatch, and each later one replaces the view.
            server.view -= 1
        del self.in_flight[number]
        server.outstanding -= 1
        if stale:
            tally.stale += 1
        if self._on_job_ended is not None and server.id not in self.draining:
            try:
                self._on_job_ended(server)
            except Exception as error:
                self._on_error(self.policy, error)
        if outcome == "failed" and attempt < self._retries:
            return self._decide(job, now, attempt + 1)
        tally.ends[outcome, reason] += 1
        return [build(EndJob, (job, outcome, reason, server, event, tally.policy, assign.fallback))]

    def _impossible(self, server: Server, seen: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"router {self.id}: {server.id} has seen {seen} dispatches, of {server.sent} sent on this link"
        )

    # -- answers to probes --------------------------------------------------------------------

    def _report(self, event: Report, now: float) -> list[RouterEffect]:
        id, _, length, seen, job = event
        server = self.servers.get(id)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: report from {id}, which has not joined")
        if seen > server.sent:
            raise self._impossible(server, seen)
        view = server.view = length + server.sent - seen  # and what was on its way when the server told its length
        if self._on_report is not None and id not in self.draining:
            try:
                self._on_report(server)
            except Exception as error:
                self._on_error(self.policy, error)
        if job is None:
            return []
        probing = self._probing.get(job)
        if probing is None or server not in probing.silent:
            return []  # it was decided without this answer, when its time was over
        del probing.silent[server]
        probing.answers.append((server, view))
        return [] if probing.silent else [self._settle(probing)]

    def _settle(self, probing: Probing) -> RouterEffect:
        """Decide a job on the answers at hand; with none, uniformly."""
        job, policy = probing.job, probing.policy
        del self._probing[job.id]
        answers = probing.answers
        if self.draining:
            answers = [answer for answer in answers if answer[0].id not in self.draining]
        if answers:
            try:
                decision = policy.on_reports(job, answers)
            except Exception as error:
                return self._undecidable(job, policy, probing.tally, error)
            if type(decision) is Assign:
                return self._dispatch(job, decision, probing.tally, probing.attempt)
            return self._not_dispatched(job, decision, policy, probing.tally)
        servers = self.chosen_from()
        if not servers:
            return self._lost(job, "failed", "no_server", probing.tally)
        probing.tally.undecided += 1
        choice = servers[int(self.policy.rng.random() * len(servers))]
        return self._dispatch(job, Assign(choice, fallback=True), probing.tally, probing.attempt)

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

    # -- pull-messages ------------------------------------------------------------------------

    def _pull(self, event: Pull, now: float) -> list[RouterEffect]:
        server = self.servers.get(event.server)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: pull-message from {event.server}, which has not joined")
        if event.server not in self.draining:
            try:
                self.policy.on_pull(server, event.number)
            except Exception as error:
                self._on_error(self.policy, error)
        return []

    def _withdraw(self, event: Withdraw, now: float) -> list[RouterEffect]:
        server = self.servers.get(event.server)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: withdrawal from {event.server}, which has not joined")
        if not self._tell(self.policy, self.policy.on_withdraw, server, event.number):
            self.unheld_withdrawals += 1
        return []

    # -- membership and policy ----------------------------------------------------------------

    def _server_joined(self, event: ServerJoined, now: float) -> list[RouterEffect]:
        server = event.server
        if server.id in self.servers:
            raise LocalProtocolError(f"router {self.id}: {server.id} has joined already; it must leave first")
        self.servers[server.id] = server
        for policy in self._policies():
            self._tell(policy, policy.on_join, server)
        return []

    def _server_draining(self, event: ServerDraining, now: float) -> list[RouterEffect]:
        server = self.servers.get(event.server)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: {event.server} drains, but has not joined")
        if server.id not in self.draining:
            self.draining.add(server.id)
            self._forget(server)
        return []

    def _server_left(self, event: ServerLeft, now: float) -> list[RouterEffect]:
        server = self.servers.pop(event.server, None)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: {event.server} leaves, but has not joined")
        if server.id in self.draining:
            self.draining.discard(server.id)
        else:
            self._forget(server)
        effects: list[RouterEffect] = []
        for probing in list(self._probing.values()):
            probing.answers = [answer for answer in probing.answers if answer[0] is not server]
            if server in probing.silent:
                del probing.silent[server]
                if not probing.silent:
                    effects.append(self._settle(probing))
        lost = [number for number, record in self.in_flight.items() if record.server is server]
        for number in lost:
            effects.extend(self._link_lost(self.in_flight.pop(number), now))
        return effects

    def _link_lost(self, record: InFlight, now: float) -> list[RouterEffect]:
        record.server.outstanding -= 1
        if record.attempt < self._retries:
            return self._decide(record.job, now, record.attempt + 1)
        record.tally.ends["failed", "link_lost"] += 1
        return [EndJob(record.job, "failed", "link_lost", record.server, None, record.tally.policy,
                       record.assign.fallback)]  # fmt: skip

    def _policies(self) -> list[Policy]:
        """The policy in force, and those before it whose jobs still wait for answers: they must know who is there."""
        return list(dict.fromkeys([self.policy, *(probing.policy for probing in self._probing.values())]))

    def _forget(self, server: Server) -> None:
        for policy in self._policies():
            self._tell(policy, policy.on_leave, server)

    def _tell(self, policy: Policy, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook of a policy. Those that jobs and pull-messages meet are called in place, which is faster."""
        try:
            return hook(*arguments)
        except Exception as error:
            self._on_error(policy, error)
            return None

    def _policy_changed(self, event: PolicyChanged, now: float) -> list[RouterEffect]:
        policy = event.policy
        if policy in self._policies():
            raise LocalProtocolError(f"router {self.id}: this policy {policy.name} is in use; make a new one")
        views = {server: server.view for server in self.servers.values()}
        try:
            for server in views:
                server.view = None  # nobody keeps it up until the servers know the new needs, and report
            for server in self.chosen_from():
                policy.on_join(server)
            self._use(policy)
        except Exception:  # the old policy stays in force, and with it what it knows
            for server, view in views.items():
                server.view = view
            raise
        return []

    def _use(self, policy: Policy) -> None:
        """Put `policy` in force; hooks that it does not override are not called at all."""
        pull = policy.needs.pull  # first: a policy that cannot say what it needs is not put in force
        kind = type(policy)
        self.policy = policy
        self.tally = self.tallies.setdefault(policy.name, Tally(policy.name))
        self._tells_held = pull is not None and pull.placement == "shortest_of"
        self._on_sent = policy.on_sent if kind.on_sent is not Policy.on_sent else None
        self._on_report = policy.on_report if kind.on_report is not Policy.on_report else None
        self._on_job_ended = policy.on_job_ended if kind.on_job_ended is not Policy.on_job_ended else None

    def _draining(self, event: Draining, now: float) -> list[RouterEffect]:
        self._closed = True
        return []
