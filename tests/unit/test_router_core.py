"""Single stories of the router's core; `tests/property/test_router_core.py` tries what nobody thought of."""

from __future__ import annotations

from random import Random
from typing import Any

from router.core import (
    Draining,
    EndJob,
    JobArrived,
    PolicyChanged,
    ProbesDue,
    RouterCore,
    ServerJoined,
    ServerLeft,
)
from router.policy import Job, Policy, Server
from router.protocol.messages import Dispatch, End, Probe, Report
from router.protocol.timer import StartTimer
from tests.property.variants import build


def core_of(table: dict[str, Any], count: int, **options: Any) -> tuple[RouterCore, list[Server]]:
    core = RouterCore("r", build(table), **options)
    servers = [Server(f"s-{i}", "pool", 1.0, 1, 9.0) for i in range(count)]
    for server in servers:
        core.handle(ServerJoined(server), 0.0)
    return core, servers


def test_a_job_whose_probed_servers_say_nothing_goes_anywhere_when_its_time_is_over() -> None:
    core, _ = core_of({"name": "power_of_d"}, 4, probe_timeout=2.0)
    effects = core.handle(JobArrived(Job(1)), 10.0)
    assert [type(effect) for effect in effects] == [Probe, Probe, StartTimer]
    assert effects[-1] == StartTimer(12.0, ProbesDue())
    later = core.handle(JobArrived(Job(2)), 11.0)
    assert [type(effect) for effect in later] == [Probe, Probe]  # one timer serves all
    first = core.handle(ProbesDue(), 12.0)
    assert [type(effect) for effect in first] == [Dispatch, StartTimer]
    assert first[-1] == StartTimer(13.0, ProbesDue())
    assert [type(effect) for effect in core.handle(ProbesDue(), 13.0)] == [Dispatch]
    assert core.tally.undecided == core.tally.fallbacks == 2 and core.probing == 0


def test_a_late_answer_is_used_as_a_view_and_decides_nothing() -> None:
    core, servers = core_of({"name": "power_of_d"}, 2)
    core.handle(JobArrived(Job(1)), 0.0)
    core.handle(Report("s-0", "r", 5, 0, 1), 0.5)
    (dispatch,) = core.handle(ProbesDue(), 1.0)
    assert isinstance(dispatch, Dispatch) and (dispatch.server, dispatch.expected) == ("s-0", 5)
    assert core.handle(Report("s-1", "r", 3, 0, 1), 1.5) == []
    assert servers[1].view == 3 and core.tally.undecided == 0


def test_an_answer_counts_the_dispatches_that_were_on_their_way() -> None:
    core, servers = core_of({"name": "power_of_d"}, 1)
    core.handle(JobArrived(Job(1)), 0.0)
    core.handle(Report("s-0", "r", 2, 0, 1), 0.0)  # dispatches job 1
    core.handle(JobArrived(Job(2)), 0.0)
    (second,) = core.handle(Report("s-0", "r", 2, 0, 2), 0.0)  # sent before job 1 came
    assert isinstance(second, Dispatch) and second.expected == 3 and servers[0].view == 4


def test_a_policy_that_was_replaced_forgets_who_leaves() -> None:
    core, _ = core_of({"name": "power_of_d", "memory": 2}, 3)
    lengths = {"s-0": 0, "s-1": 4, "s-2": 4}
    for job in range(20):  # until it remembers s-0
        for probe in core.handle(JobArrived(Job(job)), 0.0):
            if isinstance(probe, Probe):
                core.handle(Report(probe.server, "r", lengths[probe.server], core.servers[probe.server].sent, job), 0.0)
    waiting = [e for e in core.handle(JobArrived(Job(99)), 0.0) if isinstance(e, Probe)]
    core.handle(PolicyChanged(build({"name": "random"})), 0.0)
    effects: list[Any] = core.handle(ServerLeft("s-0"), 0.0)
    for probe in waiting:
        if probe.server != "s-0":
            effects += core.handle(Report(probe.server, "r", 4, core.servers[probe.server].sent, 99), 0.0)
    sent = [effect for effect in effects if isinstance(effect, Dispatch)]
    assert len(sent) == 1 and sent[0].server in ("s-1", "s-2")


def test_a_lost_job_is_dispatched_anew_as_often_as_allowed() -> None:
    core, _ = core_of({"name": "random"}, 3, retries=1)
    (first,) = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(first, Dispatch)
    (second,) = core.handle(ServerLeft(first.server), 0.0)
    assert isinstance(second, Dispatch) and second.server != first.server and second.job != first.job
    (end,) = core.handle(ServerLeft(second.server), 0.0)
    assert isinstance(end, EndJob) and (end.outcome, end.reason) == ("failed", "link_lost")


def test_a_draining_router_fails_new_jobs_and_ends_old_ones() -> None:
    core, _ = core_of({"name": "random"}, 1)
    (dispatch,) = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(dispatch, Dispatch)
    core.handle(Draining(), 0.0)
    (refused,) = core.handle(JobArrived(Job(2)), 0.0)
    assert isinstance(refused, EndJob) and (refused.outcome, refused.reason) == ("failed", "draining")
    (end,) = core.handle(End("s-0", "r", dispatch.job, "served", "", 0.0, 0.0, 1.0, False, None, None), 1.0)
    assert isinstance(end, EndJob) and end.outcome == "served" and core.in_system == 0


def test_a_job_that_was_turned_away_leaves_no_trace_in_the_view() -> None:
    core, servers = core_of({"name": "jsq"}, 1)
    core.handle(Report("s-0", "r", 9, 0, None), 0.0)
    (dispatch,) = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(dispatch, Dispatch) and servers[0].view == 10
    core.handle(End("s-0", "r", dispatch.job, "blocked", "", 0.0, 0.0, 0.0, False, None, None), 0.0)
    assert servers[0].view == 9


def test_doubled_and_lost_ends_never_make_a_count_negative() -> None:
    # 1% of the ends are delivered twice and 1% never: the counts stay those of the jobs that have not ended.
    core, servers = core_of({"name": "least_requests"}, 4)
    rng = Random(5)
    in_flight: list[Dispatch] = []
    lost = doubled = 0
    for job in range(5000):
        (dispatch,) = core.handle(JobArrived(Job(job)), 0.0)
        assert isinstance(dispatch, Dispatch)
        in_flight.append(dispatch)
        if len(in_flight) > 8:
            done = in_flight.pop(rng.randrange(8))
            end = End(done.server, "r", done.job, "served", "", 0.0, 0.0, 0.0, False, None, None)
            if rng.random() < 0.01:
                lost += 1
                continue
            core.handle(end, 0.0)
            if rng.random() < 0.01:
                doubled += 1
                core.handle(end, 0.0)
        assert all(server.outstanding >= 0 for server in servers)
    assert core.orphaned == doubled > 0
    assert sum(server.outstanding for server in servers) == len(in_flight) + lost


def test_the_end_of_an_earlier_incarnation_is_ignored() -> None:
    core, _ = core_of({"name": "random"}, 1)
    (dispatch,) = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(dispatch, Dispatch)
    core.handle(ServerLeft("s-0"), 0.0)
    again = Server("s-0", "pool", 1.0, 1, 9.0)
    core.handle(ServerJoined(again), 0.0)
    late = End("s-0", "r", dispatch.job, "served", "", 0.0, 0.0, 1.0, False, None, None)
    assert core.handle(late, 0.0) == []
    assert (again.outstanding, core.orphaned, core.in_system) == (0, 1, 0)


def test_jobs_are_labelled_with_the_policy_that_decided_them() -> None:
    core, _ = core_of({"name": "random"}, 1)
    (first,) = core.handle(JobArrived(Job(1)), 0.0)
    policy: Policy = build({"name": "round_robin"})
    core.handle(PolicyChanged(policy), 0.0)
    (second,) = core.handle(JobArrived(Job(2)), 0.0)
    for dispatch, name in ((first, "random"), (second, "round_robin")):
        assert isinstance(dispatch, Dispatch)
        (end,) = core.handle(End("s-0", "r", dispatch.job, "served", "", 0.0, 0.0, 1.0, True, None, None), 0.0)
        assert isinstance(end, EndJob) and end.policy == name
        assert core.tallies[name].ends == {("served", ""): 1} and core.tallies[name].stale == 1
