"""The router's core against a model of the truth that is kept beside it, in any order of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from router.core import (
    EndJob,
    JobArrived,
    PolicyChanged,
    ProbesDue,
    RouterCore,
    ServerDraining,
    ServerJoined,
    ServerLeft,
    ServerRated,
)
from router.jobs import OnceJob
from router.memory import MemoryRule
from router.policy import Job, Server
from router.protocol.errors import HerdlessError, LocalProtocolError, RemoteProtocolError
from router.protocol.messages import Dispatch, End, Outcome, Probe, Pull, Report, Withdraw
from router.protocol.timer import StartTimer
from tests.property.router_truth import Truth, picture
from tests.property.variants import build, tables

TABLES = tables()
MEMORIES = [None, MemoryRule(failures=2, forgive=5.0, longest=10.0, hang=3.0)]
NAMES = [f"s-{i}" for i in range(5)]
PROBE_TIMEOUT = 1.0


class RouterMachine(RuleBasedStateMachine):
    """Events in any order that the protocol allows, and some that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.jobs = 0
        self.numbers = 0
        self.truth: dict[str, Truth] = {}
        self.open: set[int] = set()  # jobs that have not ended
        self.ended = 0
        self.asked: list[tuple[str, int]] = []  # probes without an answer
        self.void: list[End] = []  # ends that have been delivered, or whose link is lost
        self.timers: list[StartTimer] = []
        self.orphaned = 0
        self.tried: dict[int, list[str]] = {}  # the servers to which each open job was dispatched
        self.settled: set[int] = set()  # jobs for which a second service would be one too many
        self.unaccounted: set[int] = set()  # dispatches that the router gave up, by number

    @initialize(
        table=st.sampled_from(TABLES),
        retries=st.sampled_from([0, 0, 1, 2]),
        count=st.integers(0, 4),
        memory=st.sampled_from(MEMORIES),
        stale_after=st.sampled_from([None, 2.0]),
        stale=st.sampled_from(["ignore", "average", "full"]),
    )
    def start(self, table: dict[str, Any], retries: int, count: int, memory: Any, stale_after: Any, stale: Any) -> None:
        self.retries = retries
        self.core = RouterCore(
            "r", build(table), probe_timeout=PROBE_TIMEOUT, ceiling=12,
            retries=retries, memory=memory, stale_after=stale_after, stale=stale,
        )  # fmt: skip
        for name in NAMES[:count]:
            self.join(name, 3.0)

    # -- effects ---------------------------------------------------------------------------------

    def do(self, event: Any) -> list[Any]:
        known = dict(self.core.in_flight)
        effects = self.core.handle(event, self.now)
        gone = [number for number in known if number not in self.core.in_flight]
        for effect in effects:
            if isinstance(effect, EndJob):
                self.open.remove(effect.job.id)  # raises if it had ended
                self.ended += 1
                self.tried.pop(effect.job.id, None)
                if effect.reason == "unaccounted":
                    [number] = [number for number in gone if known[number].job.id == effect.job.id]
                    self.unaccounted.add(number)
            elif isinstance(effect, Dispatch):
                truth = self.truth[effect.server]
                assert not truth.draining and effect.server not in self.core.members.aside
                job = self.core.in_flight[effect.job].job
                tried = self.tried.setdefault(job.id, [])
                assert effect.server not in tried, "a job does not come back to a server"
                assert len(tried) <= self.retries
                assert not tried or type(job) is not OnceJob or job.id not in self.settled
                tried.append(effect.server)
                assert effect.number is None or effect.number in truth.pulls
                if effect.number is not None:
                    truth.pulls.remove(effect.number)
                truth.to_come.append(effect)
            elif isinstance(effect, Probe):
                assert not self.truth[effect.server].draining
                self.asked.append((effect.server, effect.job))
            else:
                assert isinstance(effect, StartTimer) and effect.at >= self.now
                self.timers.append(effect)
        return effects

    def pick(self, data: st.DataObject, names: list[str]) -> Truth:
        return self.truth[data.draw(st.sampled_from(sorted(names)))]

    # -- what may happen -------------------------------------------------------------------------

    @rule(size=st.floats(0.0, 10.0), kind=st.sampled_from([Job, OnceJob]))
    def arrive(self, size: float, kind: type[Job]) -> None:
        self.jobs += 1
        self.open.add(self.jobs)
        full = self.core.in_system >= 12
        effects = self.do(JobArrived(kind(self.jobs, size)))
        if full:
            assert [(e.outcome, e.reason) for e in effects] == [("failed", "ceiling")]
        elif all(truth.draining for truth in self.truth.values()):
            assert [(e.outcome, e.reason) for e in effects] == [("failed", "no_server")]
        else:
            assert effects, "a job is dispatched, lost, or waits for answers"

    @precondition(lambda self: len(self.truth) < len(NAMES))
    @rule(data=st.data(), capacity=st.sampled_from([1.0, 3.0, float("inf")]))
    def join_one(self, data: st.DataObject, capacity: float) -> None:
        self.join(data.draw(st.sampled_from([name for name in NAMES if name not in self.truth])), capacity)

    def join(self, name: str, capacity: float) -> None:
        server = Server(name, "pool", 1.0 + len(name) % 2, 1, capacity)
        self.truth[name] = Truth(server)
        self.do(ServerJoined(server))

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        truth = self.pick(data, list(self.truth))
        truth.draining = True
        self.do(ServerDraining(truth.server.id))

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        truth = self.pick(data, list(self.truth))
        name = truth.server.id
        del self.truth[name]
        self.asked = [probe for probe in self.asked if probe[0] != name]
        lost = self.counted(truth)
        self.settled |= {self.core.in_flight[dispatch.job].job.id for dispatch in lost}
        effects = self.do(ServerLeft(name))
        self.void += [self.end_of(dispatch, "served", truth) for dispatch in lost]
        assert all(effect.server != name for effect in effects if isinstance(effect, Dispatch | Probe))
        # Each job that was there fails or is dispatched anew, and nothing else ends but what waited for this server.
        told = [effect for effect in effects if isinstance(effect, EndJob) and effect.reason == "link_lost"]
        assert len(told) <= len(lost)

    @precondition(lambda self: any(truth.to_come for truth in self.truth.values()))
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        truth = self.pick(data, [name for name, truth in self.truth.items() if truth.to_come])
        truth.received.append(truth.to_come.pop(0))
        truth.seen += 1

    @precondition(lambda self: any(truth.received for truth in self.truth.values()))
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["served", "blocked", "abandoned", "failed"]),
        riding=st.booleans(),
        stale=st.booleans(),
        service=st.sampled_from([0.0, 1.0]),
    )
    def end(self, data: st.DataObject, outcome: Outcome, riding: bool, stale: bool, service: float) -> None:
        truth = self.pick(data, [name for name, truth in self.truth.items() if truth.received])
        place = data.draw(st.integers(0, len(truth.received) - 1))
        dispatch = truth.received.pop(place)
        end = self.end_of(dispatch, outcome, truth, stale)._replace(service=service)
        if riding:
            end = end._replace(length=len(truth.received), seen=truth.seen)
        if dispatch.job in self.unaccounted:
            assert self.do(end) == []  # the router has given it up
            self.orphaned += 1
            return
        if service or outcome == "served":
            self.settled.add(self.core.in_flight[dispatch.job].job.id)
        effects = self.do(end)
        self.void.append(end)
        assert outcome == "failed" or any(isinstance(effect, EndJob) and effect.end == end for effect in effects)
        if riding:
            assert truth.server.view == len(truth.received) + truth.server.sent - truth.seen

    def end_of(self, dispatch: Dispatch, outcome: Outcome, truth: Truth, stale: bool = False) -> End:
        reason = "draining" if outcome == "failed" else ""
        return End(dispatch.server, "r", dispatch.job, outcome, reason, 0.0, 0.0, 0.0, stale, None, None)

    @precondition(lambda self: any(truth.received for truth in self.truth.values()))
    @rule(data=st.data())
    def lose_an_end(self, data: st.DataObject) -> None:
        truth = self.pick(data, [name for name, truth in self.truth.items() if truth.received])
        truth.lost.append(truth.received.pop(data.draw(st.integers(0, len(truth.received) - 1))))

    def counted(self, truth: Truth) -> list[Dispatch]:
        """The dispatches that the router must count at a server."""
        all_of_them = truth.to_come + truth.received + truth.lost
        return [dispatch for dispatch in all_of_them if dispatch.job not in self.unaccounted]

    @precondition(lambda self: self.void)
    @rule(data=st.data())
    def end_twice(self, data: st.DataObject) -> None:
        before = picture(self.core)
        assert self.do(data.draw(st.sampled_from(self.void))) == []
        self.orphaned += 1
        assert picture(self.core) == before

    @precondition(lambda self: any(truth.received for truth in self.truth.values()))
    @rule(data=st.data())
    def end_from_the_wrong_server(self, data: st.DataObject) -> None:
        truth = self.pick(data, [name for name, truth in self.truth.items() if truth.received])
        others = [name for name in NAMES if name != truth.server.id]
        wrong = self.end_of(truth.received[0], "served", truth)._replace(server=data.draw(st.sampled_from(others)))
        before = picture(self.core)
        assert self.do(wrong) == []
        self.orphaned += 1
        assert picture(self.core) == before

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        truth = self.pick(data, list(self.truth))
        self.do(Report(truth.server.id, "r", len(truth.received), truth.seen, None))
        assert truth.server.outstanding <= len(truth.received) + len(truth.to_come), "what cannot be there is given up"
        assert truth.server.view == len(truth.received) + truth.server.sent - truth.seen

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        name, job = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        truth = self.truth[name]
        self.do(Report(name, "r", len(truth.received), truth.seen, job))

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def pull(self, data: st.DataObject) -> None:
        truth = self.pick(data, list(self.truth))
        self.numbers += 1
        truth.pulls.append(self.numbers)
        self.do(Pull(truth.server.id, "r", self.numbers))

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), known=st.booleans())
    def withdraw(self, data: st.DataObject, known: bool) -> None:
        truth = self.pick(data, list(self.truth))
        number = truth.pulls.pop() if known and truth.pulls else 10**6
        held, unheld = self.core.members.held(truth.server), self.core.unheld_withdrawals
        self.do(Withdraw(truth.server.id, "r", number))
        assert held - self.core.members.held(truth.server) == 1 - (self.core.unheld_withdrawals - unheld)

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), rate=st.sampled_from([0.5, 1.0, 4.0]))
    def rate(self, data: st.DataObject, rate: float) -> None:
        truth = self.pick(data, list(self.truth))
        held, view = self.core.members.held(truth.server), truth.server.view
        assert self.do(ServerRated(truth.server.id, rate)) == []
        assert (self.core.members.held(truth.server), truth.server.view) == (held, view)

    @rule(table=st.sampled_from(TABLES), seed=st.integers(0, 9))
    def switch(self, table: dict[str, Any], seed: int) -> None:
        self.do(PolicyChanged(build(table, seed)))
        for truth in self.truth.values():
            truth.pulls.clear()
        assert self.core.held_total == 0
        assert all(truth.server.view is None for truth in self.truth.values())

    @precondition(lambda self: self.timers)
    @rule()
    def time_is_over(self) -> None:
        self.timers.sort(key=lambda timer: timer.at)
        timer = self.timers.pop(0)
        self.now = max(self.now, timer.at)
        self.do(timer.event)
        waits = any(isinstance(timer.event, ProbesDue) for timer in self.timers)
        assert waits or not self.core.probing, "whoever waits has a timer that runs"

    # -- what is impossible ----------------------------------------------------------------------

    def refuse(self, event: Any, error: type[HerdlessError] = LocalProtocolError) -> None:
        before = picture(self.core)
        with pytest.raises(error):
            self.core.handle(event, self.now)
        assert picture(self.core) == before

    @rule(data=st.data())
    def strangers_speak(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["nobody", *[name for name in NAMES if name not in self.truth]]))
        event = data.draw(
            st.sampled_from(
                [
                    Pull(name, "r", 1),
                    Withdraw(name, "r", 1),
                    Report(name, "r", 0, 0, None),
                    ServerLeft(name),
                    ServerDraining(name),
                    ServerRated(name, 1.0),
                ]
            )
        )
        self.refuse(event)

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def the_same_twice(self, data: st.DataObject) -> None:
        truth = self.pick(data, list(self.truth))
        self.refuse(ServerJoined(Server(truth.server.id, "pool", 1.0, 1, 1.0)))
        self.refuse(PolicyChanged(self.core.policy))
        for job in list(self.core._probing):
            self.refuse(JobArrived(Job(job)))

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), more=st.integers(1, 2**62))
    def boast(self, data: st.DataObject, more: int) -> None:
        truth = self.pick(data, list(self.truth))
        seen = truth.server.sent + more
        self.refuse(Report(truth.server.id, "r", 0, seen, None), RemoteProtocolError)
        for dispatch in [one for one in truth.received if one.job not in self.unaccounted][:1]:
            end = self.end_of(dispatch, "served", truth)._replace(length=0, seen=seen)
            self.refuse(end, RemoteProtocolError)

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def conservation(self) -> None:
        if not hasattr(self, "core"):
            return
        core = self.core
        tallies = core.tallies.values()
        ends = sum((tally.ends for tally in tallies), Counter[tuple[Outcome, str]]())
        assert sum(tally.arrivals for tally in tallies) == self.jobs
        assert sum(ends.values()) == self.ended == self.jobs - len(self.open)
        assert core.in_system == len(self.open)
        assert core.orphaned == self.orphaned

    @invariant()
    def counts_are_those_of_the_truth(self) -> None:
        for name, truth in self.truth.items():
            server = self.core.servers[name]
            assert server is truth.server
            assert server.outstanding == len(self.counted(truth))
            assert server.sent == truth.seen + len(truth.to_come)
            assert server.view is None or server.view >= 0
            assert 0 <= self.core.members.held(server) <= len(truth.pulls)
        assert set(self.core.servers) == set(self.truth)
        if hasattr(self, "core"):
            self.check_members()

    def check_members(self) -> None:
        """Whoever is not to be chosen drains, or is set aside while there is another."""
        members = self.core.members
        draining = {name for name, truth in self.truth.items() if truth.draining}
        assert self.core.draining == draining and not draining & set(members.aside)
        assert members.unchosen == draining | set(members.aside)
        assert set(members.chosen.items) == {truth.server for truth in self.truth.values()} - {
            truth.server for name, truth in self.truth.items() if name in members.unchosen
        }
        assert len(members.chosen) or not members.aside, "when nobody else is left all come back"
        assert all(aside.whys for aside in members.aside.values())
        assert self.core.held_total == sum(members.held(truth.server) for truth in self.truth.values())
        assert not members.just_aside
        in_flight = sorted(record.job.id for record in self.core.in_flight.values())
        assert len(in_flight) == len(set(in_flight)) and set(in_flight) <= self.open

    def teardown(self) -> None:
        """Everybody leaves: no job stays behind."""
        if not hasattr(self, "core"):
            return
        for name in list(self.truth):
            del self.truth[name]
            self.do(ServerLeft(name))
        assert self.core.in_system == 0 and not self.open
        assert self.core.held_total == 0 and not self.core.members.aside
        for _ in range(len(self.timers)):
            self.timers.sort(key=lambda timer: timer.at)
            timer = self.timers.pop(0)
            self.now = max(self.now, timer.at)
            self.do(timer.event)
        assert not self.timers, "with nobody there, nothing is looked at"


TestRouterCore = RouterMachine.TestCase
TestRouterCore.settings = settings(
    max_examples=150, stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow], deadline=None
)
