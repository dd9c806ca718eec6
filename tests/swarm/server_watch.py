"""Watches a server's core: first come, first served; one end a job; no more jobs than fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from router.jobs import OnceJob
from router.policy import Job
from router.protocol.messages import Dispatch, End, Probe
from router.protocol.timer import StartTimer
from server.core import Open, PatienceEnded, RouterJoined, RouterLeft, ServiceEnded
from tests.swarm.watch import Pair, Watched

if TYPE_CHECKING:
    from tests.swarm.watchers import Watchers

SLACK = 1e-9

Key = tuple[Any, int]
"""The session and the number of a job here."""


class Waiting:
    """What is known of a job at this server."""

    __slots__ = ("arrived", "deadline", "job", "size")

    def __init__(self, job: Job, arrived: float, size: float, patience: float | None) -> None:
        self.job = job
        self.arrived = arrived
        self.size = size
        self.deadline = float("inf") if patience is None else arrived + patience


class ServerWatch(Watched):
    """A server's core, with the line that its jobs stand in.

    Attributes:
        quiet_points: How often no message was under way between it and any router.
    """

    def __init__(self, core: Any, watchers: Watchers) -> None:
        super().__init__(core, core.spec.id, watchers)
        self._pairs: dict[str, Pair] = {}
        self._line: dict[Key, Waiting] = {}
        self._serving: dict[Key, Waiting] = {}
        self._works: dict[Key, Any] = {}
        self._arrived = self._ended = 0
        self._opened = False
        self._longest = 0
        self.quiet_points = 0

    def handle(self, event: Any, now: float) -> list[Any]:
        """Hand it on, and look at what comes of it."""
        core = self.core
        self.begins(event, now)
        kind = type(event)
        left: list[Key] = []
        if kind is Dispatch:
            self._comes(event, now)
        elif kind is Probe:
            self._pairs[event.router].other -= 1
        elif kind is RouterLeft:
            self._pairs.pop(event.router).server = None
        elif kind is Open:
            self._opened = True
        length = core.length
        self._longest = max(self._longest, length + 1)
        effects: list[Any] = core.handle(event, now)
        self.story.comes(effects)
        if kind is RouterJoined:
            self._joined(event.router)
        ends = self._effects(effects, now)
        if kind is Dispatch:
            key = (core.sessions[event.router], event.job)
            if ends:
                self._turned_away(key, ends[0], length)
                left = [key]
            else:
                job = self._pairs[event.router].jobs.pop(event.job)
                self._line[key] = Waiting(job, now, event.size, event.patience)
        elif kind is ServiceEnded or kind is PatienceEnded:
            left = self._gone(event)
        elif self._works and not left:
            left = [key for key, work in self._works.items() if work.state is work.GONE and key in self._serving]
        self._leave(left, ends, now)
        self._starts(effects, now)
        self._conserves()
        if effects or core.length != length:
            self.agrees()
        return effects

    # -- what happens -------------------------------------------------------------------------

    def _comes(self, event: Dispatch, now: float) -> None:
        pair = self._pairs.get(event.router)
        if not pair is not None:
            self.fail(f"{event} comes by a link that is lost")
        assert pair is not None
        pair.there -= 1
        pair.present += 1
        self._arrived += 1

    def _joined(self, router: str) -> None:
        if router in self._pairs:
            self.fail(f"{router} joins {self.core.spec.id} twice")
        pair = self.watchers.pair_at_server(self.core.spec.id, router)
        pair.server = pair.origin = self
        pair.since = self.story.now
        self._pairs[router] = pair

    def _effects(self, effects: list[Any], now: float) -> list[End]:
        ends = []
        for effect in effects:
            kind = type(effect)
            if kind is End:
                ends.append(effect)
                pair = self._pairs[effect.router]
                pair.present -= 1
                pair.back += 1
            elif kind is StartTimer:
                if not effect.at >= now:
                    self.fail(f"a timer is set for the past, {effect.at!r}")
            else:
                self._pairs[effect.router].other += 1
        return ends

    def _turned_away(self, key: Key, end: End, length: int) -> None:
        core, id = self.core, self.core.spec.id
        if end.job != key[1]:
            self.fail(f"{end} is of another job than the one that came")
        if end.outcome == "blocked":
            if not length >= core.spec.capacity:
                self.fail(f"{id} blocks with {length} jobs of {core.spec.capacity}")
        else:
            why = "draining" if core.draining else "server" if core.disturbance.failing else "nothing"
            found = (end.outcome, end.reason)
            if found != ("failed", why):
                self.fail(f"{id} turns a job away as {found}, for {why}")

    def _gone(self, event: Any) -> list[Key]:
        work = event.work
        key = (work.session, work.job)
        known = key in self._line or key in self._serving
        if not (known or work.state is work.GONE):
            self.fail(f"{event} is of a job that is not here")
        return [key] if known and work.state is work.GONE else []

    def _leave(self, left: list[Key], ends: list[End], now: float) -> None:
        heard = {(end.router, end.job): end for end in ends}
        if len(heard) != len(ends):
            self.fail(f"a job ends twice: {ends}")
        for key in left:
            session, job = key
            waiting = self._line.pop(key, None)
            serving = self._serving.pop(key, None)
            self._works.pop(key, None)
            self._ended += 1
            end = heard.pop((session.router, job), None) if session.up else None
            if session.up != (end is not None):
                self.fail(f"job {job} leaves, and {session.router} is told {end}")
            if end is None or (waiting is None and serving is None):
                continue
            served = end.outcome == "served"
            if not (served == (serving is not None) or (end.outcome == "abandoned" and self.watchers.in_service)):
                self.fail(f"{end}, but it was {'in service' if serving is not None else 'waiting'}")
            gone = end.arrived + end.waiting + end.service
            exact = end.waiting >= 0.0 and end.service >= 0.0 and abs(gone - now) <= SLACK * max(1.0, now)
            if not exact:
                self.fail(f"{end} does not end at {now!r}")
            since = serving or waiting
            assert since is not None
            if end.arrived != since.arrived:
                self.fail(f"{end} arrived at {since.arrived!r}")
            patient = not served or not self.watchers.in_service or now <= since.deadline * (1.0 + SLACK)
            if not patient:
                self.fail(f"{end} is served after its patience, which ended at {since.deadline!r}")
        if heard:
            self.fail(f"{list(heard.values())} are of jobs that do not leave")

    def _starts(self, effects: list[Any], now: float) -> None:
        for effect in effects:
            if type(effect) is not StartTimer:
                continue
            event = effect.event
            if type(event) is PatienceEnded:
                self._works[event.work.session, event.work.job] = event.work
            if type(event) is not ServiceEnded:
                continue
            work = event.work
            key = (work.session, work.job)
            if key not in self._line:
                self.fail(f"job {work.job} starts, but does not wait")
            first = next(iter(self._line))
            if key != first:
                self.fail(f"job {key[1]} of {key[0].router} starts before {first[1]} of {first[0].router}")
            known = self._line.pop(key)
            if not now <= known.deadline * (1.0 + SLACK):
                self.fail(f"job {work.job} starts after its patience is over")
            lasts = known.size / self._rate() * self.core.disturbance.slow
            exact = abs(effect.at - now - lasts) <= SLACK * max(1.0, effect.at)
            if not exact:
                self.fail(f"job {work.job} is served until {effect.at!r}, not {lasts!r} from {now!r}")
            self._begins(known)
            self._serving[key] = known
            self._works[key] = work

    def _begins(self, known: Waiting) -> None:
        """A service begins; of some jobs it may do so only once, wherever."""
        job = known.job
        if type(job) is OnceJob:
            if job.id in self.watchers.begun:
                self.fail(f"the service of job {job.id} begins for the second time")
            self.watchers.begun[job.id] = None

    def _rate(self) -> float:
        return float(self.core.spec.rate)

    # -- what must hold -----------------------------------------------------------------------

    def _conserves(self) -> None:
        core = self.core
        spec, length = core.spec, core.length
        ends = sum(core.ends.values())
        here = len(self._line) + len(self._serving)
        if not (core.arrivals == self._arrived and ends == self._ended and length == here == core.arrivals - ends):
            self.fail(f"{spec.id} says {core.arrivals} arrivals, {ends} ends and {length} jobs; watched were "
                        f"{self._arrived}, {self._ended} and {here}")  # fmt: skip
        if not length <= spec.capacity:
            self.fail(f"{spec.id} has {length} jobs, its capacity is {spec.capacity}")
        if not core.busy == len(self._serving) == min(length, spec.slots):
            self.fail(f"{spec.id} has {length} jobs and {core.busy} busy slots; watched were "
                        f"{len(self._serving)}")  # fmt: skip
        if self._opened and not core.draining:
            self._asks()

    def _asks(self) -> None:
        core, length = self.core, self.core.length
        takers = [session.needs.pull for session in core.sessions.values() if session.needs.pull is not None]
        out = core.pull_messages
        if not takers and out:
            self.fail(f"{core.spec.id} has {out} pull-messages out, which nobody wants")
        if not takers or (self.watchers.switched and len(set(map(repr, takers))) > 1):
            return
        if length == 0 and not out:
            self.fail(f"{core.spec.id} is idle, but asks nobody for a job")
        needs = takers[-1]
        if needs.stale == "duplicate" or self.watchers.switched:
            return
        threshold = core.spec.slots - 1 if needs.announce_at == "vacancy" else needs.announce_at
        threshold = min(threshold, core.spec.capacity - 1)
        wanted = length <= threshold
        if out > 1 or (wanted and not out) or (out and not wanted and needs.stale == "withdraw"):
            self.fail(f"{core.spec.id} has {length} jobs and {out} pull-messages out; it asks at {threshold}")

    def agrees(self) -> None:
        """Between this server and some routers nothing is under way: what those know of it is what is."""
        held, settled = 0, True
        for pair in self._pairs.values():
            if pair.router is None or pair.there or pair.back or pair.other:
                settled = False
            else:
                settled = self.agrees_with(pair.router, pair) and settled
                held += len(pair.held)
        self.quiet_points += settled
        if settled and held != self.core.pull_messages:
            self.fail(f"routers hold {held} pull-messages of {self.core.spec.id}, "
                        f"which has {self.core.pull_messages} out")  # fmt: skip

    def agrees_with(self, router: Any, pair: Pair) -> bool:
        """What one router knows; whether this server knows what that needs, too."""
        core, id, other = self.core, pair.id, router.core
        known, session = other.servers[id], core.sessions[other.id]
        if known.sent != session.seen or known.outstanding != pair.present:
            self.fail(
                f"{other.id} has sent {known.sent} and has {known.outstanding} at {id}, "
                f"which has seen {session.seen} and has {pair.present}"
            )
        if session.needs_changes != pair.news or router.closed:
            return False  # news of another policy is under way, or the router drains and wants nothing any more
        if known.view != core.length:
            reports = router.needs.reports
            if reports is not None and reports.change and id not in other.draining:
                self.fail(f"{other.id} believes in {known.view} jobs at {id}, which has {core.length}")
        return True

    def finish(self) -> None:
        """The run is over and no job is left."""
        core, id = self.core, self.core.spec.id
        if core.length != 0:
            self.fail(f"{id} still has {core.length} jobs")
        if len(core.time_at_length) > self._longest + 1:
            self.fail(f"{id} keeps times at {len(core.time_at_length)} lengths, it never had {self._longest} jobs")
        self.agrees()
