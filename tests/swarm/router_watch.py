"""Watches a router's core: after every event its books must be those that messages tell."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from router.core import (
    Draining,
    EndJob,
    JobArrived,
    PolicyChanged,
    ServerDraining,
    ServerJoined,
    ServerLeft,
)
from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw
from router.protocol.timer import StartTimer
from tests.swarm.cases import DELAYS
from tests.swarm.fairness import Fairness
from tests.swarm.freshness_watch import FreshnessWatch
from tests.swarm.memory_watch import MemoryWatch
from tests.swarm.watch import Pair, Watched, job_of

if TYPE_CHECKING:
    from tests.swarm.watchers import Watchers


class RouterWatch(Watched):
    """A router's core, with the jobs that it must give back and the messages that it must hold."""

    def __init__(self, core: Any, watchers: Watchers) -> None:
        super().__init__(core, core.id, watchers)
        self.pairs: dict[str, Pair] = {}
        self.needs = core.policy.needs
        self.closed = False
        self._open: dict[int, list[str]] = {}  # by job: the servers that it was sent to
        self._flying: dict[int, int] = {}  # by dispatch: the job
        self._aloft: dict[int, None] = {}  # the jobs that are in flight
        self._outstanding: dict[str, int] = {}
        self._draining: dict[str, None] = {}
        self._held = 0
        self._arrived = self._ended = self._unheld = 0
        self._orphaned = 0  # ends that have come twice
        self._fairness = Fairness(self)
        options = watchers.options
        self._ceiling = options.get("ceiling", inf)
        self._upkeep: list[MemoryWatch | FreshnessWatch] = []
        if options["memory"] is not None:
            self._upkeep.append(MemoryWatch(self, options["memory"]))
        if options["stale_after"] is not None:
            self._upkeep.append(FreshnessWatch(self, options["stale_after"], options["stale"]))

    def handle(self, event: Any, now: float) -> list[Any]:
        """Hand it on, and look at what comes of it."""
        self.begins(event, now)
        inside = len(self._open)
        for watch in self._upkeep:
            watch.before(event)
        touched = self._before(event)  # the pairs that this event is about
        effects: list[Any] = self.core.handle(event, now)
        self.story.comes(effects)
        self._after(event)
        for effect in effects:
            kind = type(effect)
            if kind is Dispatch:
                self._dispatched(effect)
                touched.append(self.pairs[effect.server])
            elif kind is EndJob:
                self._job_ended(effect)
            elif kind is Probe:
                if effect.server not in self.pairs:
                    self.fail(f"{effect} goes to a server that is not there")
                self.pairs[effect.server].other += 1
            elif kind is StartTimer and not effect.at >= now:
                self.fail(f"a timer is set for the past, {effect.at!r}")
        self._conserves()
        if type(event) is JobArrived:
            self._admits(effects, inside)
        for watch in self._upkeep:
            watch.look(event, effects, now)
        self._fairness.look(event, effects)
        for pair in touched:
            if pair.router is self:
                self._agrees(pair)
        return effects

    # -- before and after ---------------------------------------------------------------------

    def _before(self, event: Any) -> list[Pair]:
        kind = type(event)
        if kind is JobArrived:
            if event.job.id in self._open:
                self.fail(f"job {event.job.id} arrives twice")
            self._open[event.job.id] = []
            self._arrived += 1
            return []
        if kind is End:
            pair = self._pair(event)
            pair.back -= 1
            if event.job in self._flying:
                del self._aloft[self._flying.pop(event.job)]
                self._outstanding[event.server] -= 1
            return [pair]
        if kind is Pull or kind is Withdraw or kind is Report:
            pair = self._pair(event)
            pair.other -= 1
            if kind is Pull:
                self._holds(pair, event.number)
            elif kind is Withdraw:
                self._unheld += not self._drops(pair, event.number)
            return [pair]
        if kind is ServerDraining or kind is ServerLeft:
            self._draining[event.server] = None
            self._drops_all(self.pairs[event.server])
            if kind is ServerLeft:
                self._left(event.server)
        elif kind is ServerJoined:
            self._joined(event.server)
        return []

    def _after(self, event: Any) -> None:
        if type(event) is PolicyChanged or type(event) is Draining:
            for pair in self.pairs.values():
                pair.news += 1
            self.closed = self.closed or type(event) is Draining
        if type(event) is PolicyChanged:
            self.needs = self.core.policy.needs
            for pair in self.pairs.values():
                self._drops_all(pair)
            self._fairness = Fairness(self)
        elif type(event) is ServerJoined:
            server = self.core.servers[event.server.id]
            if not (server.view is None and server.sent == server.outstanding == 0):
                self.fail(f"{server} joins with something of a former incarnation")

    def _pair(self, event: Any) -> Pair:
        pair = self.pairs.get(event.server)
        if not (pair is not None and pair.router is self):
            self.fail(f"{event} comes by a link that is lost")
        assert pair is not None
        return pair

    def _joined(self, server: Any) -> None:
        if server.id in self.pairs:
            self.fail(f"{server.id} joins twice")
        pair = self.watchers.pair_at_router(self.core.id, server.id)
        pair.router = self
        self.pairs[server.id] = pair
        self._outstanding[server.id] = 0

    def _left(self, server: str) -> None:
        self.pairs.pop(server).router = None
        del self._outstanding[server], self._draining[server]
        for number in [n for n in self._flying if self.core.in_flight[n].server.id == server]:
            del self._aloft[self._flying.pop(number)]

    # -- pull-messages ------------------------------------------------------------------------

    def _holds(self, pair: Pair, number: int) -> None:
        if self.needs.pull is not None and pair.id not in self._draining and number not in pair.held:
            pair.held[number] = None
            self._held += 1

    def _drops(self, pair: Pair, number: int) -> bool:
        if number not in pair.held:
            return False
        del pair.held[number]
        self._held -= 1
        return True

    def _drops_all(self, pair: Pair) -> None:
        self._held -= len(pair.held)
        pair.held.clear()

    # -- effects ------------------------------------------------------------------------------

    def _dispatched(self, effect: Dispatch) -> None:
        pair = self.pairs.get(effect.server)
        there = pair is not None and effect.server not in self.core.members.unchosen
        if not there:
            self.fail(f"{effect} goes to a server that must not be chosen")
        assert pair is not None
        served = job_of(self.core, effect)
        pair.jobs[effect.job] = served
        job = served.id
        if job not in self._open:
            self.fail(f"{effect} is of job {job}, which is not in the system")
        if job in self._aloft:
            self.fail(f"job {job} is dispatched, but is in flight already")
        visited = self._open[job]
        if not len(visited) <= self.watchers.retries:
            self.fail(f"job {job} is dispatched more often than {self.watchers.retries} + 1 times")
        if effect.server in visited:
            self.fail(f"job {job} comes to {effect.server} for the second time")
        visited.append(effect.server)
        self._flying[effect.job] = job
        self._aloft[job] = None
        self._outstanding[effect.server] += 1
        pair.there += 1
        if effect.number is not None:
            if not self._drops(pair, effect.number):
                self.fail(f"{effect} uses a pull-message that is not held")
            used = (id(pair.origin), effect.number)
            if used in self.watchers.used:
                self.fail(f"{effect} uses a pull-message for the second time")
            self.watchers.used[used] = None

    def _job_ended(self, effect: EndJob) -> None:
        job = effect.job.id
        if job not in self._open:
            self.fail(f"job {job} ends, but is not in the system")
        if job in self._aloft:
            self.fail(f"job {job} ends, but is in flight")
        if effect.reason == "unaccounted":
            self.fail(f"job {job} is given up, though no end was lost")
        del self._open[job]
        self._ended += 1

    # -- what must hold -----------------------------------------------------------------------

    def _admits(self, effects: list[Any], inside: int) -> None:
        """A job that finds so many in the system is refused, and no other one is."""
        refused = any(type(effect) is EndJob and effect.reason == "ceiling" for effect in effects)
        if refused != (inside >= self._ceiling and not self.closed) or len(self._open) > self._ceiling:
            self.fail(f"{self.core.id} has {inside} of {self._ceiling} jobs in its system; it "
                        f"{'refuses' if refused else 'takes'} another one")  # fmt: skip

    def _conserves(self) -> None:
        core = self.core
        arrivals = ends = 0
        for tally in core.tallies.values():
            arrivals += tally.arrivals
            ends += sum(tally.ends.values())
        inside = len(self._open)
        if not (arrivals == self._arrived and ends == self._ended and core.in_system == inside == arrivals - ends):
            self.fail(f"{core.id} says {arrivals} arrivals, {ends} ends and {core.in_system} in its system; "
                        f"watched were {self._arrived}, {self._ended} and {inside}")  # fmt: skip
        flying = len(self._flying)
        if flying + core.probing != inside:
            self.fail(f"{core.id} has {inside} jobs, of which {flying} fly and {core.probing} wait "
                        "for answers")  # fmt: skip
        outstanding = 0
        for server in core.servers.values():
            outstanding += server.outstanding
        if outstanding != flying:
            self.fail(f"{core.id} counts {outstanding} own jobs at all servers, {flying} fly")
        if core.orphaned != self._orphaned:
            self.fail(f"{core.id} counts {core.orphaned} orphaned ends, there were {self._orphaned}")
        if core.unheld_withdrawals != self._unheld:
            self.fail(f"{core.id} counts {core.unheld_withdrawals} withdrawals of what it does not hold, "
                        f"there were {self._unheld}")  # fmt: skip
        if core.held_total != self._held:
            self.fail(f"{core.id} holds {core.held_total} pull-messages, it was sent {self._held}")

    def _agrees(self, pair: Pair) -> None:
        """What the router counts of a server, against what there is."""
        known = self.core.servers[pair.id]
        mine = self._outstanding[pair.id]
        if known.outstanding != mine or mine < 0:
            self.fail(f"{self.core.id} counts {known.outstanding} own jobs at {pair.id}, there are {mine}")
        if not (known.view is None or known.view >= 0):
            self.fail(f"{self.core.id} believes in {known.view} jobs at {pair.id}")
        if self.core.members.held(known) != len(pair.held):
            self.fail(f"{self.core.id} holds {self.core.members.held(known)} pull-messages of {pair.id}, "
                        f"it was sent {list(pair.held)}")  # fmt: skip
        pull = self.needs.pull
        if len(pair.held) > 1 and pull is not None and pull.stale != "duplicate" and not self.watchers.switched:
            self.fail(f"{self.core.id} holds two pull-messages of {pair.id}: {list(pair.held)}")
        if pair.there < 0 or pair.present < 0 or pair.back < 0 or pair.other < 0:
            self.fail(f"{self.core.id} has heard of {pair.id} what was never sent on this link")
        if pair.server is not None:
            truth = pair.there + pair.present + pair.back
            if mine != truth:
                self.fail(f"{self.core.id} has {mine} jobs at {pair.id}; {pair.there} are on their way, "
                            f"{pair.present} there, {pair.back} on their way back")  # fmt: skip
            if not (pair.there or pair.back or pair.other):
                pair.server.agrees()

    def finish(self) -> None:
        """The run is over and no job is left."""
        core = self.core
        if not (not self._open and core.in_system == 0):
            self.fail(f"{core.id} still has {core.in_system} jobs")
        for pair in self.pairs.values():
            self._agrees(pair)
            if self._outstanding[pair.id] != 0:
                self.fail(f"{core.id} still counts jobs at {pair.id}")
            told = self.story.now - pair.since > 2.0 * max(DELAYS)
            rate = core.servers[pair.id].rate
            if told and pair.server is not None and rate != pair.server.core.spec.rate:
                self.fail(f"{core.id} believes in rate {rate} of {pair.id}")

    def forgives(self) -> None:
        """That has been so for long."""
        for id, aside in self.core.members.aside.items():
            if "failed" in aside.whys or "hung" in aside.whys:
                self.fail(f"{id} is set aside for ever: {list(aside.whys)}")
