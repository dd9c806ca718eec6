"""Whatever happens to a server, in whatever order: it does what a queue of pencil and paper does, and says so."""

from __future__ import annotations

import heapq
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from router.protocol.errors import LocalProtocolError
from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from router.protocol.timer import StartTimer
from server.core import (
    Disturbed,
    Drain,
    NeedsChanged,
    Open,
    ReportDue,
    RouterJoined,
    RouterLeft,
    ServerCore,
    ServerSpec,
    ServiceEnded,
)
from tests.property.paper_queue import PaperQueue, Truth

ROUTERS = ["router-1", "router-2", "router-3"]

# Multiples of a quarter, so that all sums and differences of instants are exact.
quarters = st.integers(0, 12).map(lambda n: n / 4)


def state(core: ServerCore) -> Any:
    """All that can be seen of a server, to show that nothing has changed."""
    sessions = [(s.router, s.needs, s.seen, s.up, s.held, s.believed) for s in core.sessions.values()]
    outstanding = [(number, holder.router) for number, holder in core._announcer.outstanding.items()]
    counts = (core.length, core.busy, core.arrivals, core.started_at_once, core.stale, dict(core.ends))
    return sessions, outstanding, counts, list(core.time_at_length), core.draining, len(core._waiting), core.disturbance


class ServerMachine(RuleBasedStateMachine):
    """Drives a server core as a driver must, and a queue on paper beside it."""

    @initialize(
        slots=st.integers(1, 3),
        room=st.sampled_from([0, 1, 3, None]),
        rate=st.sampled_from([0.5, 1.0, 2.0]),
        unit=st.sampled_from([1.0, 2.0]),
        in_service=st.booleans(),
        stale=st.sampled_from(["withdraw", "keep", "duplicate"]),
        announce_at=st.sampled_from([0, 1, 5, "vacancy", None]),
        placement=st.sampled_from(["random", "shortest_of"]),
        reports=st.sampled_from(
            [
                None,
                ReportNeeds(change=True),
                ReportNeeds(departure=1.0, to="one"),
                ReportNeeds(idle=True, to="most_wrong"),
                ReportNeeds(departure=0.5, idle=True, to="all"),
                ReportNeeds(on_end=True),
                ReportNeeds(every=1.5),
            ]
        ),
        seed=st.integers(0, 99),
        routers=st.integers(0, 3),
        opened=st.booleans(),
    )
    def make(self, slots, room, rate, unit, in_service, stale, announce_at, placement, reports, seed, routers, opened):
        capacity = float("inf") if room is None else float(slots + room)
        self.spec = ServerSpec("slow-1", "slow", rate, slots, capacity)
        self.core = ServerCore(self.spec, Random(seed), time_unit=unit, abandons_in_service=in_service)
        self.paper = PaperQueue(slots, capacity, in_service)
        self.unit, self.stale_rule = unit, stale
        pull = None if announce_at is None else PullNeeds(announce_at=announce_at, stale=stale, placement=placement)
        self.needs = Needs(pull=pull, reports=reports)
        self.threshold = -1
        if announce_at is not None:
            wanted = slots - 1 if announce_at == "vacancy" else announce_at
            self.threshold = int(min(wanted, capacity - 1))  # a full server asks for nothing
        self.now = 0.0
        self.due: list[tuple[float, int, Any]] = []
        self.scheduled = 0
        self.jobs = 0
        self.opened = self.drained = False
        self.joined: dict[str, int] = {}  # router -> dispatches sent on this link
        self.incarnation: Counter[str] = Counter()
        self.link_of: dict[int, tuple[str, int]] = {}
        self.out: dict[int, str] = {}  # pull-messages by number, with the router that holds each
        self.highest = 0
        self.told: list[End] = []
        self.stales = 0
        for router in ROUTERS[:routers]:
            self.join(router)
        if opened:
            self.opens()

    # -- the driver ---------------------------------------------------------------------------

    def handle(self, event: Any, at: float) -> list[Any]:
        before = self.core.length
        effects = self.core.handle(event, at)
        hangs_no_more = isinstance(event, Disturbed)  # several jobs may end, one after the other
        lengths = range(self.core.length, before)
        reported: list[str] = []
        pulls = 0
        for effect in effects:
            if isinstance(effect, StartTimer):
                assert effect.at >= at
                self.scheduled += 1
                heapq.heappush(self.due, (effect.at, self.scheduled, effect.event))
                continue
            assert effect.server == "slow-1" and effect.router in self.joined
            if isinstance(effect, Pull):
                pulls += 1
                assert effect.number > self.highest, "numbers are used once"
                assert self.may_post
                self.highest = effect.number
                self.out[effect.number] = effect.router
            elif isinstance(effect, Withdraw):
                assert self.out.pop(effect.number) == effect.router, "only what is out can be taken back"
            elif isinstance(effect, Report):
                assert effect.length == self.core.length or (hangs_no_more and effect.length in lengths)
                assert effect.seen == self.joined[effect.router]
                reported.append(effect.router)
            else:
                assert isinstance(effect, End)
                self.told.append(effect)
                if self.needs.reports is not None and self.needs.reports.on_end:
                    assert effect.length == self.core.length or (hangs_no_more and effect.length in lengths)
                    assert effect.seen == self.joined[effect.router]
                else:
                    assert effect.length is None and effect.seen is None
        assert pulls <= 1
        if self.stale_rule == "duplicate" and self.may_post and self.core.length == self.threshold == before - 1:
            assert pulls == 1, "each fall to the threshold posts one"
        self.check_reports(event, before, reported)
        return effects

    def check_reports(self, event: Any, before: int, reported: list[str]) -> None:
        needs = self.needs.reports
        if isinstance(event, RouterJoined | NeedsChanged):
            assert reported == ([event.router] if needs is not None else [])
        elif isinstance(event, Probe):
            assert reported == [event.router]
        elif isinstance(event, ReportDue):
            assert reported in ([], [event.session.router])
        elif isinstance(event, Disturbed):
            falls = before - self.core.length
            if needs is not None and needs.change:
                assert sorted(reported) == sorted(list(self.joined) * falls)
            else:
                assert len(reported) <= falls * (len(self.joined) if needs is not None and needs.to == "all" else 1)
        elif needs is not None and needs.change:
            assert sorted(reported) == (sorted(self.joined) if self.core.length != before else [])
        elif needs is not None and self.core.length < before and self.joined:
            surely = needs.departure == 1.0 or (needs.idle and self.core.length == 0)
            never = needs.departure == 0.0 and not surely
            all_told = len(self.joined) if needs.to == "all" else 1
            assert len(reported) in ([all_told] if surely else [0] if never else [0, all_told])
        else:
            assert reported == []

    def advance(self) -> None:
        """Due ends first."""
        while self.due and self.due[0][0] <= self.now:
            at, _, event = heapq.heappop(self.due)
            self.handle(event, at)
        self.paper.advance(self.now)

    def happen(self, event: Any) -> list[Any]:
        self.advance()
        return self.handle(event, self.now)

    @property
    def may_post(self) -> bool:
        return self.opened and not self.drained and bool(self.joined) and self.threshold >= 0

    def link_is_up(self, job: int) -> bool:
        router, incarnation = self.link_of[job]
        return router in self.joined and incarnation == self.incarnation[router]

    # -- what happens -------------------------------------------------------------------------

    @rule(after=quarters)
    def time_passes(self, after):
        self.now += after
        self.advance()

    @precondition(lambda self: self.joined)
    @rule(data=st.data(), size=quarters, patience=st.none() | quarters, after=quarters)
    def job_comes(self, data, size, patience, after):
        self.now += after
        self.advance()
        router = data.draw(st.sampled_from(sorted(self.joined)))
        # A message that this router holds, one that was taken back while this dispatch was on its way, or none.
        usable = [number for number, holder in sorted(self.out.items()) if holder == router]
        usable += [number for number in range(1, self.highest + 1) if number not in self.out][-1:]
        number = data.draw(st.sampled_from([None, *usable]))
        expected = data.draw(st.none() | st.integers(0, 4)) if number is None else None
        length = self.core.length
        if number is not None:
            self.stales += length > self.threshold
            self.out.pop(number, None)
        else:
            self.stales += expected is not None and expected != length
        self.jobs += 1
        self.joined[router] += 1
        self.link_of[self.jobs] = (router, self.incarnation[router])
        self.paper.arrive(
            self.jobs, size * self.unit / self.spec.rate, None if patience is None else patience * self.unit
        )
        held = data.draw(st.integers(0, 3))
        self.handle(Dispatch("slow-1", router, self.jobs, size, patience, number, expected, held), self.now)

    @precondition(lambda self: self.joined)
    @rule(data=st.data())
    def probed(self, data):
        router = data.draw(st.sampled_from(sorted(self.joined)))
        [report] = self.happen(Probe("slow-1", router, 17))
        assert report.job == 17

    @precondition(lambda self: len(self.joined) < len(ROUTERS))
    @rule(data=st.data())
    def router_joins(self, data):
        self.join(data.draw(st.sampled_from([router for router in ROUTERS if router not in self.joined])))

    def join(self, router: str) -> None:
        self.advance()
        self.joined[router] = 0
        self.incarnation[router] += 1
        self.handle(RouterJoined(router, self.needs), self.now)

    @precondition(lambda self: self.joined)
    @rule(data=st.data())
    def policy_begins_anew(self, data):
        router = data.draw(st.sampled_from(sorted(self.joined)))
        self.advance()
        held = {number for number, holder in self.out.items() if holder == router}
        self.happen(NeedsChanged(router, self.needs))
        assert not held & set(self.out), "a new policy does not know the messages of the old one"

    @precondition(lambda self: self.joined)
    @rule(data=st.data())
    def router_is_lost(self, data):
        router = data.draw(st.sampled_from(sorted(self.joined)))
        self.advance()
        del self.joined[router]
        self.out = {number: holder for number, holder in self.out.items() if holder != router}
        self.handle(RouterLeft(router), self.now)

    @rule()
    def opens(self):
        self.advance()
        self.opened = True
        self.handle(Open(), self.now)

    @precondition(lambda self: self.jobs > 12)
    @rule()
    def drains(self):
        self.advance()
        self.drained = self.paper.closed = True
        self.handle(Drain(), self.now)
        assert self.out == {}

    @rule(slow=st.sampled_from([0.5, 1.0, 4.0]), failing=st.booleans(), hung=st.booleans())
    def misbehaves(self, slow, failing, hung):
        self.advance()
        self.paper.disturb(slow, failing, hung)
        self.handle(Disturbed(slow, failing, hung), self.now)

    @rule()
    def behaves_again(self):
        self.advance()
        self.paper.disturb(1.0, False, False)
        self.handle(Disturbed(), self.now)

    # -- what must not happen -----------------------------------------------------------------

    @rule(data=st.data())
    def the_impossible_is_refused(self, data):
        self.advance()
        stranger = next((router for router in ROUTERS if router not in self.joined), "router-9")
        events: list[Any] = [
            Dispatch("slow-1", stranger, 999, 1.0, None, None, None, 0),
            Probe("slow-1", stranger, 1),
            RouterLeft(stranger),
            NeedsChanged(stranger, self.needs),
            Disturbed(slow=0.0),
        ]
        events += [RouterJoined(router, self.needs) for router in self.joined]
        events += [ServiceEnded(work) for work in self.core._waiting if work.state == "waiting"]
        before = state(self.core)
        with pytest.raises(LocalProtocolError):
            self.core.handle(data.draw(st.sampled_from(events)), self.now)
        assert state(self.core) == before

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_and_nothing_overfull(self):
        self.advance()
        core = self.core
        assert core.arrivals == self.jobs == sum(core.ends.values()) + core.length
        assert core.busy == min(core.length, self.spec.slots)
        assert core.length <= self.spec.capacity
        assert core.stale == self.stales

    @invariant()
    def it_agrees_with_the_queue_on_paper(self):
        self.advance()
        core, paper = self.core, self.paper
        assert (core.length, core.busy) == (paper.length, len(paper.serving))
        told = [Truth(end.job, end.outcome, end.arrived, end.waiting, end.service) for end in self.told]
        assert set(told) <= set(paper.truths)
        # Those who still listen have heard of every end, once, and in order; the others of none after they left.
        assert [t for t in told if self.link_is_up(t.job)] == [t for t in paper.truths if self.link_is_up(t.job)]
        assert core.ends == Counter(truth.outcome for truth in paper.truths)
        spent = {length: time for length, time in enumerate(core.occupancy(self.now)) if time}
        assert spent == {length: time for length, time in paper.at_length.items() if time}

    @invariant()
    def pull_messages_are_as_many_as_the_rule_says(self):
        self.advance()
        assert self.core.pull_messages == len(self.out)
        if self.stale_rule != "duplicate":
            assert len(self.out) <= 1
        if self.may_post:
            wants = self.core.length <= self.threshold
            assert self.out or not wants
            assert wants or not self.out or self.stale_rule != "withdraw"

    @invariant()
    def each_router_has_one_period(self):
        if self.needs.reports is not None and self.needs.reports.every is not None:
            alive = Counter(
                event.session.router
                for _, _, event in self.due
                if isinstance(event, ReportDue)
                and event.session.up
                and event.needs_changes == event.session.needs_changes
            )
            assert alive == Counter(list(self.joined))


TestServerMachine = ServerMachine.TestCase
TestServerMachine.settings = settings(max_examples=200, stateful_step_count=40)
