"""Watches the cores of a simulated run: what must be true after every event is checked after every event.

It costs far more than the run itself, so it belongs in tests: `simulate(scenario, wrap=checks.watch)`, and
`checks.finish()` when the run is over.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from router.core import EndJob, JobArrived, RouterCore
from router.protocol.errors import InvariantViolation
from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw
from router.protocol.timer import StartTimer
from server.core import Open, ServerCore, ServiceEnded

MESSAGES = frozenset((Dispatch, End, Probe, Pull, Report, Withdraw))
STORY = 20
"""How many of the latest events a violation tells."""

Pair = tuple[str, str]
"""A server and a router, as messages name them."""


class Checks:
    """What all cores of one run must keep to, together.

    Rule: after every event, conservation at the core that took it in; at quiet points, when no message is under way,
    also what routers and servers must agree on. The counts are the watcher's own, kept from messages alone.

    Attributes:
        events: Events watched. `quiet_points`: how often nothing was under way after one of them.
    """

    def __init__(self) -> None:
        self.events = 0
        self.quiet_points = 0
        self.under_way = 0
        self.outbound: Counter[Pair] = Counter()
        self.inbound: Counter[Pair] = Counter()
        self.present: Counter[Pair] = Counter()
        self._routers: list[WatchedRouter] = []
        self._servers: list[WatchedServer] = []
        self._now = 0.0
        self._story: deque[str] = deque(maxlen=STORY)

    def watch(self, core: Any) -> WatchedCore:
        """Put a watcher around one core."""
        if isinstance(core, RouterCore):
            router = WatchedRouter(core, self)
            self._routers.append(router)
            return router
        server = WatchedServer(core, self)
        self._servers.append(server)
        return server

    def finish(self) -> None:
        """The run is over: no job is left anywhere; control messages may be under way."""
        jobs = sum(abs(number) for counts in (self.outbound, self.present, self.inbound) for number in counts.values())
        self.demand(jobs == 0, f"the run is over, but {jobs} jobs are on their way or at servers")
        for router in self._routers:
            self.demand(router.core.in_system == 0, f"the run is over, but jobs are left at {router.core.id}")
        for server in self._servers:
            self.demand(server.core.length == 0, f"the run is over, but jobs are left at {server.core.spec.id}")

    def demand(self, holds: bool, what: str) -> None:
        """Raise, with the story, unless it holds."""
        if not holds:
            raise InvariantViolation(
                f"{what}, at instant {self._now!r}, after event {self.events}. The latest events, which the same "
                "scenario, seed and replication repeat:",
                self._story,
            )

    def before(self, name: str, event: Any, now: float) -> None:
        """An event is about to be handled."""
        self.events += 1
        self._story.append(f"{now:.6f} {name}: {event}")
        self.demand(now >= self._now, "time runs backwards")
        self._now = now
        self.under_way -= type(event) in MESSAGES

    def after(self, effects: list[Any], now: float) -> None:
        """It was handled, and this came of it."""
        for effect in effects:
            self._story[-1] += f"\n      -> {effect}"
            if type(effect) is StartTimer:
                self.demand(effect.at >= now, f"a timer is set for the past, {effect.at!r}")
            self.under_way += type(effect) in MESSAGES
        if self.under_way == 0:
            self.quiet_points += 1
            for server in self._servers:
                self._agree(server.core)

    def _agree(self, server: ServerCore) -> None:
        """Nothing is under way: what routers know of a server is what it is."""
        id = server.spec.id
        held = 0
        for router in self._routers:
            known = router.core.servers.get(id)
            if known is None:
                return  # they are being introduced
            held += router.core.members.held(known)
            session = server.sessions.get(router.core.id)
            self.demand(
                session is None or known.sent == session.seen, f"{router.core.id} and {id} count dispatches differently"
            )
            reports = router.core.policy.needs.reports
            if reports is not None and reports.change and session is not None:
                self.demand(
                    known.view == server.length,
                    f"{router.core.id} believes in {known.view} jobs at {id}, which has {server.length}",
                )
        self.demand(
            held == server.pull_messages,
            f"routers hold {held} pull-messages of {id}, which has {server.pull_messages} out",
        )


class WatchedRouter:
    """A router's core, with the jobs that it must give back."""

    def __init__(self, core: RouterCore, checks: Checks) -> None:
        self.core = core
        self._checks = checks
        self._open: dict[int, None] = {}
        self._arrived = 0
        self._ended = 0

    def handle(self, event: Any, now: float) -> list[Any]:
        """Hand it on, and look at what comes of it."""
        core, checks = self.core, self._checks
        checks.before(core.id, event, now)
        if type(event) is JobArrived:
            checks.demand(event.job.id not in self._open, f"job {event.job.id} arrives twice")
            self._open[event.job.id] = None
            self._arrived += 1
        elif type(event) is End:
            checks.inbound[event.server, event.router] -= 1
        effects = core.handle(event, now)
        for effect in effects:
            if type(effect) is EndJob:
                checks.demand(effect.job.id in self._open, f"job {effect.job.id} ends, but is not in the system")
                del self._open[effect.job.id]
                self._ended += 1
            elif type(effect) is Dispatch:
                checks.outbound[effect.server, effect.router] += 1
        self._conserves()
        checks.after(effects, now)
        return effects

    def _conserves(self) -> None:
        core, checks = self.core, self._checks
        tallies = core.tallies.values()
        arrivals = sum(tally.arrivals for tally in tallies)
        ends = sum(sum(tally.ends.values()) for tally in tallies)
        checks.demand(
            arrivals == self._arrived and ends == self._ended and core.in_system == len(self._open) == arrivals - ends,
            f"{core.id} says {arrivals} arrivals, {ends} ends and {core.in_system} in its system; watched were "
            f"{self._arrived}, {self._ended} and {len(self._open)}",
        )
        checks.demand(core.orphaned == 0, f"{core.id} was told of an end that it knows nothing of")
        outstanding = 0
        for id, server in core.servers.items():
            pair = id, core.id
            truth = checks.outbound[pair] + checks.present[pair] + checks.inbound[pair]
            checks.demand(
                server.outstanding == truth,
                f"{core.id} counts {server.outstanding} own jobs at {id}, there are {truth}",
            )
            outstanding += truth
        checks.demand(
            outstanding + core.probing == core.in_system, f"{core.id} has jobs that are neither there nor probing"
        )
        pull = core.policy.needs.pull
        if pull is not None and pull.stale != "duplicate":
            twice = [server.id for server in core.servers.values() if core.members.held(server) > 1]
            checks.demand(not twice, f"{core.id} holds two pull-messages of {twice}")


class WatchedServer:
    """A server's core, with the line that its jobs stand in."""

    def __init__(self, core: ServerCore, checks: Checks) -> None:
        self.core = core
        self._checks = checks
        self._line: dict[tuple[str, int], None] = {}
        self._serving: dict[tuple[str, int], None] = {}
        self._arrived = 0
        self._ended = 0
        self._opened = False

    def handle(self, event: Any, now: float) -> list[Any]:
        """Hand it on, and look at what comes of it."""
        core, checks = self.core, self._checks
        checks.before(core.spec.id, event, now)
        if type(event) is Dispatch:
            pair = event.server, event.router
            checks.outbound[pair] -= 1
            checks.present[pair] += 1
            self._arrived += 1
            self._line[event.router, event.job] = None
        self._opened = self._opened or type(event) is Open
        effects = core.handle(event, now)
        # A job must leave before the next one can take its slot, whatever the order in which the core says so.
        for effect in effects:
            if type(effect) is End:
                self._left(effect, now)
        for effect in effects:
            if type(effect) is StartTimer and type(effect.event) is ServiceEnded:
                self._started(effect, now)
        self._conserves()
        checks.after(effects, now)
        return effects

    def _left(self, end: End, now: float) -> None:
        checks, job = self._checks, (end.router, end.job)
        checks.demand(job in self._line or job in self._serving, f"{end} is of a job that is not there")
        checks.demand(
            end.outcome != "served" or job in self._serving, f"job {end.job} is served, but its service never began"
        )
        left = end.arrived + end.waiting + end.service
        checks.demand(
            end.waiting >= 0.0 and end.service >= 0.0 and abs(left - now) <= 1e-9 * max(1.0, now),
            f"{end} does not end now",
        )
        self._line.pop(job, None)
        self._serving.pop(job, None)
        pair = end.server, end.router
        checks.present[pair] -= 1
        checks.inbound[pair] += 1
        self._ended += 1

    def _started(self, timer: StartTimer, now: float) -> None:
        checks, work = self._checks, timer.event.work
        job = work.session.router, work.job
        checks.demand(job in self._line, f"job {job} starts, but does not wait")
        first = next(iter(self._line))
        checks.demand(job == first, f"job {job} starts before {first}, which came earlier")
        lasts = work.size / self.core.spec.rate
        checks.demand(abs(timer.at - now - lasts) <= 1e-9 * max(1.0, timer.at), f"job {job} is not served {lasts!r}")
        del self._line[job]
        self._serving[job] = None

    def _conserves(self) -> None:
        core, checks = self.core, self._checks
        id, spec = core.spec.id, core.spec
        ends = sum(core.ends.values())
        here = len(self._line) + len(self._serving)
        checks.demand(
            core.arrivals == self._arrived and ends == self._ended and core.length == here == core.arrivals - ends,
            f"{id} says {core.arrivals} arrivals, {ends} ends and {core.length} jobs; watched were "
            f"{self._arrived}, {self._ended} and {here}",
        )
        checks.demand(core.length <= spec.capacity, f"{id} has {core.length} jobs, its capacity is {spec.capacity}")
        checks.demand(
            core.busy == len(self._serving) == min(core.length, spec.slots),
            f"{id} has {core.length} jobs and {core.busy} busy slots; watched were {len(self._serving)}",
        )
        if self._opened:
            rules = {session.needs.pull.stale for session in core.sessions.values() if session.needs.pull is not None}
            checks.demand("duplicate" in rules or core.pull_messages <= 1, f"{id} has two pull-messages out")
            asks = core.pull_messages > 0 or rules != {"withdraw"}
            checks.demand(asks or core.length > 0, f"{id} is idle, but asks nobody for a job")


WatchedCore = WatchedRouter | WatchedServer
