"""What a server tells its routers: pull-messages, reports, and what changes with a policy; by hand."""

from __future__ import annotations

from router.protocol.messages import Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from server.core import (
    NeedsChanged,
    Open,
    RouterJoined,
    RouterLeft,
    ServerSpec,
)
from tests.unit.server_story import NOTHING, PULL, Story, kinds, opened

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
    assert kinds(story.at(2.0)) == ["End", "Pull"]
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
    assert kinds(story.at(5.0)) == ["End", "Pull"]


def test_duplicate_posts_at_every_fall() -> None:
    story = opened(Needs(pull=PullNeeds(stale="duplicate")))
    story.job(0.0)
    assert story.at(1.0)[1] == Pull("slow-1", "router-1", 2)
    story.job(2.0)
    assert story.at(3.0)[1] == Pull("slow-1", "router-1", 3)
    assert story.core.pull_messages == 3
    story.job(4.0, number=2)
    assert story.core.pull_messages == 2


def test_a_stale_message_of_a_full_server_leads_to_a_block() -> None:
    story = opened(Needs(pull=PullNeeds(stale="keep")), ServerSpec("slow-1", "slow", capacity=1.0))
    story.job(0.0)
    [end] = story.job(0.5, number=1)
    assert (end.outcome, end.stale) == ("blocked", True)
    assert kinds(story.at(1.0)) == ["End", "Pull"]


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
    assert kinds(story.at(1.0)) == ["End", "Pull"]


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
    assert kinds(story.at(1.0)) == ["End", "Report", "Report"]


def test_departures_are_reported_to_one_and_surely_when_idle() -> None:
    story = opened(Needs(reports=ReportNeeds(idle=True, to="one")), routers=3)
    story.job(0.0)
    story.job(0.0)
    assert kinds(story.at(1.0)) == ["End"]
    said = story.at(2.0)
    assert kinds(said) == ["End", "Report"] and said[1].length == 0


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


def test_one_router_is_told_uniformly_whoever_is_most_wrong() -> None:
    # Router 1 sends all jobs, so router 2 is never wrong by more; and yet each hears of half of the departures.
    story = opened(Needs(reports=ReportNeeds(departure=1.0, to="one")), routers=2)
    told = {"router-1": 0, "router-2": 0}
    for second in range(2000):
        story.job(float(second), 0.5)
        [report] = [message for message in story.at(second + 0.5) if isinstance(message, Report)]
        told[report.router] += 1
    # Binomial(2000, 1/2): mean 1000, standard deviation 22.4; five of them are 112.
    assert abs(told["router-1"] - 1000) < 112
