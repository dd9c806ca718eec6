"""A server's queue and its end: stories, each worked out by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from router.protocol.errors import LocalProtocolError
from router.protocol.messages import Dispatch, Probe, Report, Withdraw
from router.protocol.timer import StartTimer
from server.core import (
    Disturbed,
    Drain,
    PatienceEnded,
    RouterJoined,
    RouterLeft,
    ServerCore,
    ServerSpec,
    ServiceEnded,
)
from tests.unit.server_story import NOTHING, PULL, ends, kinds, opened

# -- the queue --------------------------------------------------------------------------------


def test_jobs_are_served_in_order_and_times_are_those_of_the_schedule() -> None:
    # Rate 2, time unit 0.5 s: a job of size 1 takes 0.25 s. Arrivals at 0, 0.125, 0.125; the second ends at 0.5 and
    # the third at 0.75, having waited 0.125 s and 0.375 s, although the next look at the clock is at 10 s.
    story = opened(NOTHING, ServerSpec("fast-1", "fast", rate=2.0), time_unit=0.5)
    said = story.job(0.0) + story.job(0.125) + story.job(0.125) + story.at(10.0)
    assert ends(said) == [(1, "served", 0.0, 0.25), (2, "served", 0.125, 0.25), (3, "served", 0.375, 0.25)]
    assert [end.arrived for end in said] == [0.0, 0.125, 0.125]
    assert story.core.started_at_once == 1


def test_slots_serve_together_and_what_exceeds_the_capacity_is_blocked() -> None:
    # Two slots, three places. At 0: two start, one waits, one is lost. The short one frees its slot at 1.
    story = opened(NOTHING, ServerSpec("slow-1", "slow", slots=2, capacity=3.0))
    said = story.job(0.0, 1.0) + story.job(0.0, 4.0) + story.job(0.0, 1.0)
    assert (story.core.length, story.core.busy) == (3, 2)
    assert ends(said + story.job(0.0)) == [(4, "blocked", 0.0, 0.0)]
    assert ends(story.at(9.0)) == [(1, "served", 0.0, 1.0), (3, "served", 1.0, 1.0), (2, "served", 0.0, 4.0)]
    assert story.core.ends == {"served": 3, "blocked": 1}


def test_a_job_leaves_from_inside_the_queue() -> None:
    # Job 1 serves 0–4. Job 2 gives up at 2, before job 3, which then starts at 4 as the next in line.
    story = opened(NOTHING)
    story.job(0.0, 4.0)
    story.job(0.0, 1.0, patience=2.0)
    story.job(1.0, 1.0)
    assert ends(story.at(3.0)) == [(2, "abandoned", 2.0, 0.0)]
    assert story.core.length == 2
    assert ends(story.at(9.0)) == [(1, "served", 0.0, 4.0), (3, "served", 3.0, 1.0)]


def test_patience_that_ends_as_the_slot_falls_free_comes_second() -> None:
    # Both at 2; the end of service was scheduled first, so the job starts, and a job in service does not give up.
    story = opened(NOTHING)
    story.job(0.0, 2.0)
    story.job(1.0, 1.0, patience=1.0)
    assert ends(story.at(9.0)) == [(1, "served", 0.0, 2.0), (2, "served", 1.0, 1.0)]


def test_a_job_in_service_gives_up_only_where_the_scenario_says_so() -> None:
    patient = opened(NOTHING)
    patient.job(0.0, 3.0, patience=1.0)
    assert ends(patient.at(9.0)) == [(1, "served", 0.0, 3.0)]
    # Here it leaves at 1, in the middle of its service, and the next one starts at that instant.
    leaving = opened(NOTHING, abandons_in_service=True)
    leaving.job(0.0, 3.0, patience=1.0)
    leaving.job(0.5, 0.25)
    assert ends(leaving.at(9.0)) == [(1, "abandoned", 0.0, 1.0), (2, "served", 0.5, 0.25)]


def test_places_of_those_who_left_do_not_pile_up_behind_a_stuck_slot() -> None:
    story = opened(NOTHING)
    story.job(0.0, 1e12)
    for second in range(1, 1001):
        story.job(float(second), 1.0, patience=0.5)
    # One serves and one waits at any time; the queue may hold some tens of empty places, not a thousand.
    assert story.core.length == 2
    assert len(story.core._waiting) < 100


def test_a_queue_without_capacity_has_a_ceiling() -> None:
    story = opened(NOTHING, ceiling=2)
    said = story.job(0.0) + story.job(0.0) + story.job(0.0)
    assert [(end.job, end.outcome, end.reason) for end in said] == [(3, "failed", "ceiling")]


def test_time_at_each_length() -> None:
    # Arrivals at 1 (size 2, ends at 3) and 2 (size 1, starts at 3, ends at 4):
    # empty during 0–1 and 4–6, one job during 1–2 and 3–4, two during 2–3.
    story = opened(NOTHING)
    story.job(1.0, 2.0)
    story.job(2.0, 1.0)
    story.at(6.0)
    assert story.core.occupancy(6.0) == [3.0, 2.0, 1.0]
    assert story.core.time_at_length == [1.0, 2.0, 1.0]  # up to the last change, at 4


# -- the end ----------------------------------------------------------------------------------


def test_a_draining_server_finishes_what_it_has_and_takes_nothing_new() -> None:
    story = opened(PULL)
    story.job(0.0, number=1)
    story.job(0.0)
    assert story.at(0.5, Drain()) == []
    [end] = story.job(0.6)
    assert (end.outcome, end.reason, end.waiting, end.service) == ("failed", "draining", 0.0, 0.0)
    assert ends(story.at(9.0)) == [(1, "served", 0.0, 1.0), (2, "served", 1.0, 1.0)]
    assert story.at(9.0, RouterJoined("router-2", PULL)) == []
    idle = opened(PULL)
    assert idle.at(0.0, Drain()) == [Withdraw("slow-1", "router-1", 1)]


def test_jobs_of_a_lost_router_go_on_unheard() -> None:
    story = opened(NOTHING, routers=2)
    story.job(0.0)
    story.job(0.0, router="router-2")
    story.at(0.5, RouterLeft("router-1"))
    assert ends(story.at(9.0)) == [(2, "served", 1.0, 1.0)]
    assert story.core.ends == {"served": 2}
    # A new link counts what it has seen from nothing.
    story.at(9.0, RouterJoined("router-1", NOTHING))
    assert story.at(9.0, Probe("slow-1", "router-1", 1)) == [Report("slow-1", "router-1", 0, 0, 1)]


def test_what_was_expected_decides_what_is_stale() -> None:
    story = opened(NOTHING)
    story.job(0.0, expected=0)
    story.job(0.0, expected=1)
    assert story.core.stale == 0
    story.job(0.0, expected=1)
    assert story.core.stale == 1
    assert [end.stale for end in story.at(9.0)] == [False, False, True]


@pytest.mark.parametrize("event", [ServiceEnded, PatienceEnded])
def test_a_timer_of_a_job_that_is_gone(event: Any) -> None:
    core = ServerCore(ServerSpec("slow-1", "slow"), Random(1))
    core.handle(RouterJoined("router-1", NOTHING), 0.0)
    [timer] = core.handle(Dispatch("slow-1", "router-1", 1, 1.0, None, None, None, 0), 0.0)
    assert isinstance(timer, StartTimer)
    core.handle(timer.event, timer.at)
    if event is PatienceEnded:
        assert core.handle(PatienceEnded(timer.event.work), 2.0) == []
    else:
        with pytest.raises(LocalProtocolError, match=r"slow-1: service of job 1 ended while it was gone"):
            core.handle(ServiceEnded(timer.event.work), 2.0)
    assert core.ends == {"served": 1}


# -- misbehaviour -----------------------------------------------------------------------------


def test_a_slow_server_stretches_the_services_that_start_from_then_on() -> None:
    # Job 1 starts before and ends at 1 all the same; job 2 takes 3 times as long, 1–4, and job 3, which starts when
    # the server is itself again, takes 1.
    story = opened(PULL)
    story.job(0.0)
    story.job(0.0)
    assert story.at(0.5, Disturbed(slow=3.0)) == [], "nobody is told"
    assert story.core.disturbance == Disturbed(slow=3.0)
    said = story.at(4.0, Disturbed()) + story.job(4.0) + story.at(9.0)
    assert ends(said) == [(1, "served", 0.0, 1.0), (2, "served", 1.0, 3.0), (3, "served", 0.0, 1.0)]


def test_a_failing_server_ends_jobs_at_once_and_is_idle_again() -> None:
    # It is the sink that attracts jobs: each one that it fails makes it ask for the next.
    story = opened(PULL)
    story.at(0.0, Disturbed(failing=True))
    for number in (1, 2):
        said = story.job(1.0, number=number)
        assert kinds(said) == ["Pull", "End"] and said[0].number == number + 1
        assert (said[1].outcome, said[1].reason, said[1].stale) == ("failed", "server", False)
    assert kinds(story.job(1.0)) == ["End"], "a message that is still out is enough"
    assert story.core.ends == {"failed": 3} and story.core.length == 0
    story.at(1.0, Disturbed())
    assert ends(story.job(1.0) + story.at(9.0)) == [(4, "served", 0.0, 1.0)]


def test_jobs_that_are_there_go_on_while_a_server_fails_new_ones() -> None:
    story = opened(NOTHING)
    said = story.job(0.0) + story.job(0.0) + story.at(0.5, Disturbed(failing=True)) + story.job(0.5) + story.at(9.0)
    assert ends(said) == [(3, "failed", 0.0, 0.0), (1, "served", 0.0, 1.0), (2, "served", 1.0, 1.0)]


def test_a_server_that_drains_says_so_even_if_it_also_fails_its_jobs() -> None:
    story = opened(PULL)
    story.at(0.0, Drain())
    story.at(0.0, Disturbed(failing=True))
    [end] = story.job(0.0)
    assert (end.outcome, end.reason) == ("failed", "draining")
    story.at(0.0, Disturbed())
    [end] = story.job(0.0)
    assert (end.outcome, end.reason) == ("failed", "draining"), "it drains still"


def test_a_server_that_hangs_ends_no_service_until_it_hangs_no_more() -> None:
    # Two slots. Jobs 1 and 2 are over at 1 and 2, and end at 5, when jobs 3 and 4 start.
    story = opened(NOTHING, ServerSpec("slow-1", "slow", slots=2))
    story.job(0.0, 2.0)
    story.job(0.0, 1.0)
    story.at(0.5, Disturbed(hung=True))
    assert ends(story.job(0.5) + story.job(3.0)) == []
    assert (story.core.length, story.core.busy) == (4, 2)
    [report] = story.at(4.0, Probe("slow-1", "router-1", 9))
    assert report == Report("slow-1", "router-1", 4, 4, 9), "it answers all the same"
    said = story.at(5.0, Disturbed())
    assert ends(said) == [(2, "served", 0.0, 5.0), (1, "served", 0.0, 5.0)], "in the order in which they were over"
    assert ends(story.at(9.0)) == [(3, "served", 4.5, 1.0), (4, "served", 2.0, 1.0)]


def test_patience_ends_at_a_server_that_hangs_too() -> None:
    # Job 1 would be over at 1; its patience ends at 2, in service. Job 2, waiting, gives up at 3.
    story = opened(NOTHING, abandons_in_service=True)
    story.at(0.0, Disturbed(hung=True))
    story.job(0.0, patience=2.0)
    story.job(0.0, size=5.0, patience=3.0)
    assert ends(story.at(4.0)) == [(1, "abandoned", 0.0, 2.0), (2, "abandoned", 2.0, 1.0)]
    assert story.at(5.0, Disturbed()) == []
    assert story.core.ends == {"abandoned": 2} and story.core.busy == 0


@pytest.mark.parametrize("slow", [0.0, -1.0, float("inf"), float("nan")])
def test_an_impossible_disturbance_changes_nothing(slow: float) -> None:
    story = opened(NOTHING)
    with pytest.raises(LocalProtocolError, match="expected a finite number above 0"):
        story.at(0.0, Disturbed(slow=slow, hung=True))
    assert story.core.disturbance == Disturbed()
    assert ends(story.job(0.0) + story.at(9.0)) == [(1, "served", 0.0, 1.0)]
