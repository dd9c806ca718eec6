"""A server's stories, each worked out by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from router.protocol.errors import LocalProtocolError
from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from router.protocol.timer import StartTimer
from server.core import (
    Drain,
    NeedsChanged,
    Open,
    PatienceEnded,
    RouterJoined,
    RouterLeft,
    ServerCore,
    ServerSpec,
    ServiceEnded,
)
from server.due import DueHeap

PULL = Needs(pull=PullNeeds())
NOTHING = Needs()


class Story:
    """One server, driven as it must be: due ends first. What it says is kept apart from its timers."""

    def __init__(self, spec: ServerSpec | None = None, seed: int = 1, **options: Any) -> None:
        self.core = ServerCore(spec or ServerSpec("slow-1", "slow"), Random(seed), **options)
        self.due: DueHeap[Any] = DueHeap()
        self.jobs = 0

    def at(self, now: float, event: Any = None) -> list[Any]:
        """What the server says up to `now`, and to `event` then."""
        said = []
        for at, due in self.due.pop_due(now):
            said += self._handle(due, at)
        if event is not None:
            said += self._handle(event, now)
        return said

    def job(self, now: float, size: float = 1.0, **fields: Any) -> list[Any]:
        self.jobs += 1
        values = {"router": "router-1", "patience": None, "number": None, "expected": None, "held": 0} | fields
        return self.at(now, Dispatch(server=self.core.spec.id, job=self.jobs, size=size, **values))

    def _handle(self, event: Any, at: float) -> list[Any]:
        said = []
        for effect in self.core.handle(event, at):
            if isinstance(effect, StartTimer):
                self.due.push(effect.at, effect.event)
            else:
                said.append(effect)
        return said


def opened(needs: Needs, spec: ServerSpec | None = None, routers: int = 1, **options: Any) -> Story:
    """A server with its routers joined, its first messages posted, at instant 0."""
    story = Story(spec, **options)
    for number in range(1, routers + 1):
        story.at(0.0, RouterJoined(f"router-{number}", needs))
    story.at(0.0, Open())
    return story


def ends(said: list[Any]) -> list[tuple[int, str, float, float]]:
    return [(end.job, end.outcome, end.waiting, end.service) for end in said if isinstance(end, End)]


def kinds(said: list[Any]) -> list[str]:
    return [type(message).__name__ for message in said]


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


# -- pull-messages ----------------------------------------------------------------------------


def test_no_message_before_the_links_are_up() -> None:
    story = Story()
    assert story.at(0.0, RouterJoined("router-1", PULL)) == []
    assert story.at(0.0, Open()) == [Pull("slow-1", "router-1", 1)]


def test_withdraw_takes_the_message_back_and_posts_one_when_idle_again() -> None:
    story = opened(PULL)  # message 1 is out
    assert story.job(0.0) == [Withdraw("slow-1", "router-1", 1)]
    assert story.job(0.5) == []
    assert kinds(story.at(1.0)) == ["End"]  # one left: not idle
    assert kinds(story.at(2.0)) == ["Pull", "End"]
    # Used: nothing to take back. The identity of models.md: pulls = arrivals that started at once, plus the first.
    assert story.job(3.0, number=2) == []
    assert story.core.stale == 0


def test_keep_posts_no_second_message_while_the_first_is_out() -> None:
    story = opened(Needs(pull=PullNeeds(stale="keep")))
    assert story.job(0.0) == []
    assert kinds(story.at(1.0)) == ["End"]
    assert story.job(2.0, size=2.0) == []
    # Used at a busy server: stale. It is idle again at 5, and then the second message goes out.
    assert story.job(3.0, number=1) == []
    assert story.core.stale == 1
    assert kinds(story.at(4.0)) == ["End"]
    assert kinds(story.at(5.0)) == ["Pull", "End"]


def test_duplicate_posts_at_every_fall() -> None:
    story = opened(Needs(pull=PullNeeds(stale="duplicate")))
    story.job(0.0)
    assert story.at(1.0)[0] == Pull("slow-1", "router-1", 2)
    story.job(2.0)
    assert story.at(3.0)[0] == Pull("slow-1", "router-1", 3)
    assert story.core.pull_messages == 3
    story.job(4.0, number=2)
    assert story.core.pull_messages == 2


def test_a_stale_message_of_a_full_server_leads_to_a_block() -> None:
    story = opened(Needs(pull=PullNeeds(stale="keep")), ServerSpec("slow-1", "slow", capacity=1.0))
    story.job(0.0)
    [end] = story.job(0.5, number=1)
    assert (end.outcome, end.stale) == ("blocked", True)
    assert kinds(story.at(1.0)) == ["Pull", "End"]


def test_a_blocked_job_withdraws_nothing() -> None:
    story = opened(Needs(pull=PullNeeds(stale="keep")), ServerSpec("slow-1", "slow", capacity=1.0))
    story.job(0.0)
    assert kinds(story.job(0.5)) == ["End"]
    assert story.core.pull_messages == 1


def test_vacancy_is_announced_while_a_slot_is_free() -> None:
    # Three slots: the message that is used is replaced until the third slot is taken.
    story = opened(Needs(pull=PullNeeds(announce_at="vacancy")), ServerSpec("slow-1", "slow", slots=3, capacity=3.0))
    assert kinds(story.job(0.0, number=1)) == ["Pull"]
    assert kinds(story.job(0.0, number=2)) == ["Pull"]
    assert kinds(story.job(0.0, number=3)) == []
    assert story.core.stale == 0


def test_a_full_server_asks_for_nothing_whatever_announce_at_says() -> None:
    story = opened(Needs(pull=PullNeeds(announce_at=5)), ServerSpec("slow-1", "slow", capacity=2.0))
    assert kinds(story.job(0.0, number=1)) == ["Pull"]
    assert kinds(story.job(0.0, number=2)) == []
    assert kinds(story.at(1.0)) == ["Pull", "End"]


def test_a_withdrawal_that_crosses_a_dispatch_harms_nothing() -> None:
    story = opened(PULL, routers=1)
    story.job(0.0)  # takes message 1 back
    story.at(1.0)  # posts message 2
    # The router used message 1 before it heard: that clears no other number, and finds the server idle.
    assert story.job(1.5, number=1) == [Withdraw("slow-1", "router-1", 2)]
    assert story.core.stale == 0


def test_a_lost_router_s_message_is_drawn_anew() -> None:
    story = opened(PULL, routers=2)
    [holder] = [session.router for session in story.core._announcer.outstanding.values()]
    [other] = {"router-1", "router-2"} - {holder}
    assert story.at(1.0, RouterLeft(holder)) == [Pull("slow-1", other, 2)]
    assert story.at(1.0, RouterLeft(other)) == []
    assert story.at(2.0, RouterJoined("router-3", PULL)) == [Pull("slow-1", "router-3", 3)]


def test_placement_is_uniform_over_those_that_want_messages() -> None:
    story = opened(PULL, routers=4)
    story.at(0.0, RouterJoined("router-5", NOTHING))
    count = dict.fromkeys([f"router-{n}" for n in range(1, 6)], 0)
    for second in range(4000):
        story.job(float(second), 0.5)
        count[next(m.router for m in story.at(second + 0.5) if isinstance(m, Pull))] += 1
    # Binomial(4000, 1/4): mean 1000, standard deviation 27.4; five of them are 137.
    assert count.pop("router-5") == 0
    assert all(abs(n - 1000) < 137 for n in count.values()), count


def test_shortest_of_prefers_the_router_that_holds_fewest() -> None:
    story = opened(Needs(pull=PullNeeds(placement="shortest_of", k=2)), routers=2)
    story.job(0.0, 0.5, router="router-1", held=3)
    story.job(1.0, 0.5, router="router-2", held=2)
    for second in range(2, 50):
        [pull] = [m for m in story.at(float(second)) if isinstance(m, Pull)]
        assert pull.router == "router-2"
        story.job(second, 0.5, router="router-2", held=2)


# -- a policy switch --------------------------------------------------------------------------


def test_needs_may_change() -> None:
    story = opened(PULL)
    # No more pull-messages wanted: the one that is out is withdrawn.
    assert story.at(1.0, NeedsChanged("router-1", NOTHING)) == [Withdraw("slow-1", "router-1", 1)]
    assert kinds(story.job(1.0)) == []
    assert kinds(story.at(2.0)) == ["End"]
    # Wanted again: an idle server posts one at once.
    assert story.at(3.0, NeedsChanged("router-1", PULL)) == [Pull("slow-1", "router-1", 2)]
    # A dispatch by the old policy that crosses the news finds the server idle: not stale.
    story.at(4.0, NeedsChanged("router-1", NOTHING))
    assert story.job(4.0, number=2) == []
    assert story.core.stale == 0


def test_the_last_router_to_speak_sets_the_rule() -> None:
    story = opened(PULL, routers=2)
    story.at(1.0, NeedsChanged("router-1", Needs(pull=PullNeeds(stale="keep"))))
    assert "Withdraw" not in kinds(story.job(2.0))


def test_a_policy_that_begins_anew_is_posted_anew() -> None:
    story = opened(PULL)
    said = story.at(1.0, NeedsChanged("router-1", PULL))
    assert said == [Withdraw("slow-1", "router-1", 1), Pull("slow-1", "router-1", 2)]


# -- reports ----------------------------------------------------------------------------------


def test_a_probe_is_answered_with_length_and_seen() -> None:
    story = opened(NOTHING, routers=2)
    story.job(0.0)
    story.job(0.0, router="router-2")
    assert story.at(0.5, Probe("slow-1", "router-2", 77)) == [Report("slow-1", "router-2", 2, 1, 77)]


def test_every_change_is_reported_to_all_that_want_it() -> None:
    story = opened(Needs(reports=ReportNeeds(change=True)), ServerSpec("slow-1", "slow", capacity=1.0), routers=2)
    assert story.job(0.0) == [Report("slow-1", "router-1", 1, 1, None), Report("slow-1", "router-2", 1, 0, None)]
    assert kinds(story.job(0.0)) == ["End"]  # blocked: no change
    assert kinds(story.at(1.0)) == ["Report", "Report", "End"]


def test_departures_are_reported_to_one_and_surely_when_idle() -> None:
    story = opened(Needs(reports=ReportNeeds(idle=True, to="one")), routers=3)
    story.job(0.0)
    story.job(0.0)
    assert kinds(story.at(1.0)) == ["End"]
    said = story.at(2.0)
    assert kinds(said) == ["Report", "End"] and said[0].length == 0


def test_departures_are_reported_with_a_probability() -> None:
    story = opened(Needs(reports=ReportNeeds(departure=0.25, to="one")))
    reports = 0
    for second in range(4000):
        story.job(float(second), 0.5)
        reports += kinds(story.at(second + 0.5)).count("Report")
    # Binomial(4000, 1/4), as above.
    assert abs(reports - 1000) < 137


def test_the_router_whose_view_is_most_wrong_is_told() -> None:
    # Router 1 sends three jobs and so believes in 3; router 2 asks and is told 3; router 3 still believes in 0.
    # When the first job leaves, the length is 2: routers 1 and 2 are wrong by 1, router 3 by 2.
    story = opened(Needs(reports=ReportNeeds(departure=1.0, to="most_wrong")), routers=3)
    story.job(0.0, 1.0)
    story.job(0.0, 1.0)
    story.job(0.0, 5.0)
    story.at(0.5, Probe("slow-1", "router-2", 1))
    [report] = [message for message in story.at(1.0) if isinstance(message, Report)]
    assert report == Report("slow-1", "router-3", 2, 0, None)


def test_a_queue_length_rides_on_each_end() -> None:
    story = opened(Needs(reports=ReportNeeds(on_end=True)))
    story.job(0.0)
    story.job(0.0)
    [end] = story.at(1.0)
    assert (end.length, end.seen) == (1, 2)


def test_reports_come_every_period_until_the_needs_change() -> None:
    every = Needs(reports=ReportNeeds(every=2.0))
    story = opened(every, time_unit=0.5)  # every second
    assert kinds(story.at(3.5)) == ["Report"] * 3
    # The same needs again, even the same object: one report at once, and one chain of periods, not two.
    assert kinds(story.at(3.5, NeedsChanged("router-1", every))) == ["Report"]
    assert kinds(story.at(6.75)) == ["Report"] * 3  # at 4.5, 5.5, 6.5
    assert kinds(story.at(7.0, NeedsChanged("router-1", NOTHING))) == []
    assert story.at(99.0) == []


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
