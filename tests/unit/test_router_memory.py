"""Servers that fail or hang, and what a router makes of them; each story by hand."""

from __future__ import annotations

import pytest

from router.core import PolicyChanged, ServerDraining, ServerJoined, ServerLeft
from router.freshness import NO_JOB
from router.memory import MemoryRule
from router.policy import Server
from router.protocol.messages import Dispatch, Probe, Pull, Report, Withdraw
from tests.property.variants import build
from tests.unit.router_story import Story

MEMORY = MemoryRule(failures=3, forgive=10.0, longest=25.0)


# -- failures ---------------------------------------------------------------------------------


def test_a_server_that_fails_is_set_aside_forgiven_tried_and_set_aside_for_longer() -> None:
    story = Story({"name": "random"}, 3, memory=MEMORY)
    story.fail(0.0, "s-1", 2)
    assert story.aside == []
    story.fail(0.0, "s-1", 1)
    assert story.aside == ["s-1"]
    story.at(9.9)
    assert story.aside == ["s-1"]
    story.at(10.0)
    assert story.aside == []
    # On trial: one failure, and then 20 and, instead of 40, no more than 25 time units.
    story.fail(11.0, "s-1", 1)
    story.at(30.9)
    assert story.aside == ["s-1"]
    story.at(31.0)
    assert story.aside == []
    story.fail(32.0, "s-1", 1)
    story.at(56.9)
    assert story.aside == ["s-1"]
    story.at(57.0)
    assert story.aside == []
    assert story.core.members.set_aside_total == {"failed": 3, "hung": 0, "stale": 0}
    assert story.servers[1].failed == 5


def test_a_job_that_is_served_ends_the_row_and_the_trial() -> None:
    story = Story({"name": "random"}, 2, memory=MEMORY)
    for _ in range(5):
        story.fail(0.0, "s-0", 2)
        while (dispatch := story.sent(0.0)).server != "s-0":
            story.end(0.0, dispatch)
        story.end(0.0, dispatch)
    assert story.aside == []
    story.fail(0.0, "s-0", 3)
    while (dispatch := story.sent(10.0)).server != "s-0":
        story.end(10.0, dispatch)
    story.end(10.0, dispatch)
    story.fail(10.0, "s-0", 2)
    assert story.aside == []
    story.fail(10.0, "s-0", 1)
    story.at(20.0)  # the first time again, not twice as long
    assert story.aside == []


@pytest.mark.parametrize(("outcome", "reason"), [("blocked", ""), ("failed", "draining"), ("failed", "ceiling"),
                                                 ("abandoned", "")])  # fmt: skip
def test_what_is_no_failure_sets_nobody_aside(outcome: str, reason: str) -> None:
    story = Story({"name": "random"}, 2, memory=MemoryRule(failures=1))
    for _ in range(20):
        story.end(0.0, story.sent(0.0), outcome, reason)
    assert story.aside == []


def test_when_nobody_else_is_left_all_come_back() -> None:
    story = Story({"name": "jsq"}, 2, memory=MemoryRule(failures=1))
    story.fail(0.0, "s-0", 1)
    assert story.aside == ["s-0"]
    story.end(0.0, story.sent(0.0), "failed", "server")  # the last one: it stays, and the other comes back
    assert story.aside == [] and story.core.members.ignored == 1
    story.fail(0.0, "s-0", 1)
    story.at(0.0, ServerDraining("s-1"))
    assert story.aside == [] and story.core.members.ignored == 2
    assert story.sent(0.0).server == "s-0"


# -- links that are lost ------------------------------------------------------------------------


def back(story: Story, left: float, joined: float) -> None:
    """The link of s-0 is lost and, later, had again; drivers first take all servers of a link out of the choice."""
    story.at(left, ServerDraining("s-0"))
    story.at(left, ServerLeft("s-0"))
    story.at(joined, ServerJoined(Server("s-0", "pool", 1.0, 1, float("inf"))))


def given(story: Story, now: float, jobs: int) -> None:
    """So many jobs are at s-0, and have no end."""
    while story.core.servers["s-0"].outstanding < jobs:
        dispatch = story.sent(now)
        if dispatch.server != "s-0":
            story.end(now, dispatch)


def test_links_lost_with_jobs_are_failures_however_many_jobs_were_there() -> None:
    story = Story({"name": "random"}, 2, memory=MEMORY)
    for now in (0.0, 1.0):
        given(story, now, 5)
        back(story, now, now + 0.5)
        assert story.aside == []
    given(story, 2.0, 1)
    back(story, 2.0, 2.5)  # the third in a row
    assert story.aside == ["s-0"]
    story.at(12.4)
    assert story.aside == ["s-0"]
    story.at(12.5)
    assert story.aside == []
    given(story, 13.0, 1)
    back(story, 13.0, 14.0)  # on trial: once is enough, and lasts twice as long
    story.at(33.9)
    assert story.aside == ["s-0"]
    story.at(34.0)
    assert story.aside == []


def test_a_job_that_is_served_between_two_links_ends_the_row() -> None:
    story = Story({"name": "random"}, 2, memory=MEMORY)
    for now in range(10):
        while (dispatch := story.sent(now)).server != "s-0":
            story.end(now, dispatch)
        story.end(now, dispatch)
        given(story, now, 1)
        back(story, now, now + 0.5)
        assert story.aside == []


def test_a_link_lost_without_jobs_or_of_one_that_drains_is_no_failure() -> None:
    story = Story({"name": "random"}, 2, memory=MemoryRule(failures=1))
    back(story, 1.0, 2.0)
    assert story.aside == []
    given(story, 3.0, 2)
    story.at(3.0, ServerDraining("s-0"))
    back(story, 4.0, 5.0)
    assert story.aside == []


def test_the_time_of_who_is_set_aside_goes_on_over_links() -> None:
    story = Story({"name": "random"}, 2, memory=MEMORY)
    story.fail(0.0, "s-0", 3)
    back(story, 1.0, 2.0)
    assert story.aside == ["s-0"]
    back(story, 3.0, 4.0)
    story.at(9.9)
    assert story.aside == ["s-0"]
    story.at(10.0)
    assert story.aside == []
    story.fail(11.0, "s-0", 1)  # on trial
    assert story.aside == ["s-0"]
    back(story, 12.0, 31.0)  # its time was over while it was away: on trial again
    assert story.aside == []
    story.fail(31.0, "s-0", 1)
    assert story.aside == ["s-0"]


def test_who_came_back_because_nobody_else_was_left_is_not_set_aside_by_a_new_link() -> None:
    story = Story({"name": "random"}, 2, memory=MEMORY)
    story.fail(0.0, "s-0", 3)
    story.at(1.0, ServerDraining("s-1"))
    story.at(1.0, ServerLeft("s-1"))
    assert story.aside == []
    story.at(2.0, ServerJoined(Server("s-1", "pool", 1.0, 1, float("inf"))))
    back(story, 3.0, 4.0)
    assert story.aside == []


def test_who_hung_and_is_started_again_is_only_on_trial() -> None:
    story = Story({"name": "random"}, 2, memory=MemoryRule(failures=3, forgive=10.0, longest=25.0, hang=4.0))
    given(story, 0.5, 3)
    story.at(6.0)
    assert story.aside == ["s-0"]
    back(story, 6.0, 6.5)  # what it had is lost, and was held against it already
    assert story.aside == []
    story.fail(7.0, "s-0", 1)
    assert story.aside == ["s-0"]


def test_a_server_that_drains_slowly_has_failed_no_less_often() -> None:
    story = Story({"name": "random"}, 2, memory=MemoryRule(failures=3, forgive=10.0, longest=25.0, hang=4.0))
    story.fail(0.0, "s-0", 2)
    given(story, 0.5, 1)
    story.at(0.5, ServerDraining("s-0"))
    story.at(6.0)  # its job is there for longer than it may be, but nobody would send it another one
    back(story, 6.0, 6.5)
    story.fail(7.0, "s-0", 1)
    assert story.aside == ["s-0"]


def test_nothing_is_kept_for_good_of_names_that_do_not_come_back() -> None:
    story = Story({"name": "random"}, 2, memory=MEMORY)
    given(story, 0.0, 1)
    story.at(0.0, ServerLeft("s-0"))
    story.at(25.1, ServerJoined(Server("s-0", "pool", 1.0, 1, float("inf"))))  # later than `longest`
    story.fail(26.0, "s-0", 2)
    assert story.aside == []
    for n in range(1000):
        story.at(30.0 + n, ServerJoined(Server(f"guest-{n}", "pool", 1.0, 1, float("inf"))))
        while (dispatch := story.sent(30.0 + n)).server != f"guest-{n}":
            story.end(30.0 + n, dispatch)
        story.at(30.0 + n, ServerLeft(f"guest-{n}"))
    assert story.core.upkeep.memory is not None
    assert story.core.upkeep.memory.remembered <= 26  # of the last 25 time units, and this one


# -- pull-messages of a server that is set aside -------------------------------------------------


def test_pull_messages_are_kept_while_their_server_is_aside() -> None:
    story = Story({"name": "pull"}, 2, memory=MemoryRule(failures=1, forgive=10.0))
    story.at(0.0, Pull("s-0", "r", 1))
    story.at(0.0, Pull("s-0", "r", 2))
    dispatch = story.sent(0.0)
    assert dispatch.number is not None
    left = {1, 2} - {dispatch.number}
    story.end(0.0, dispatch, "failed", "server")
    assert story.aside == ["s-0"]
    assert story.core.policy.held_total == 0 and story.core.held_total == 1
    story.at(1.0, Pull("s-0", "r", 3))
    story.at(1.0, Withdraw("s-0", "r", *left))
    assert (story.core.held_total, story.core.unheld_withdrawals) == (1, 0)
    story.at(1.0, Withdraw("s-0", "r", 99))
    assert (story.core.held_total, story.core.unheld_withdrawals) == (1, 1)
    assert story.sent(2.0).server == "s-1"
    story.at(10.0)
    again = story.sent(10.0)
    assert (again.server, again.number) == ("s-0", 3)


def test_messages_kept_under_a_policy_that_was_replaced_are_dropped_as_those_it_held() -> None:
    story = Story({"name": "pull"}, 2, memory=MemoryRule(failures=1, forgive=10.0))
    story.fail(0.0, "s-0", 1)
    story.at(0.0, Pull("s-0", "r", 1))
    story.at(1.0, PolicyChanged(build({"name": "pull"}, 2)))
    assert story.core.held_total == 0 and story.aside == ["s-0"]
    story.at(1.0, Pull("s-0", "r", 2))
    story.at(10.0)
    assert story.core.policy.held_total == 1


def test_a_job_does_not_wait_for_the_answer_of_a_server_that_was_set_aside() -> None:
    story = Story({"name": "power_of_d", "d": 2}, 2, memory=MemoryRule(failures=1), probe_timeout=1e9)
    story.job(0.0)
    story.at(0.0, Report("s-0", "r", 0, 0, 1))
    [first] = story.at(0.0, Report("s-1", "r", 5, 0, 1))
    story.job(0.0)
    assert story.at(0.0, Report("s-1", "r", 5, 0, 2)) == []
    said = story.end(0.0, first, "failed", "server")
    assert [effect.server for effect in said if isinstance(effect, Dispatch)] == ["s-1"]


# -- servers that hang -----------------------------------------------------------------------------


HANG = MemoryRule(failures=3, forgive=20.0, longest=100.0, hang=8.0)


def test_a_server_that_hangs_is_set_aside_until_it_ends_a_job() -> None:
    story = Story({"name": "round_robin"}, 2, memory=HANG)
    stuck = story.sent(0.0)
    other = story.sent(0.0)
    story.at(7.9)
    assert story.aside == []
    story.end(7.9, other)
    story.at(10.0)  # at the latest a quarter after its time
    assert story.aside == [stuck.server]
    assert [story.sent(11.0).server for _ in range(3)] == [other.server] * 3
    story.end(12.0, stuck)
    assert story.aside == []


def test_a_server_that_hangs_is_forgiven_and_an_old_job_is_not_held_against_it_twice() -> None:
    # Its job never ends, as if the end were lost: it must get jobs again all the same.
    story = Story({"name": "round_robin"}, 2, memory=HANG)
    stuck = story.sent(0.0)
    story.at(10.0)
    assert story.aside == [stuck.server]
    story.at(30.0)
    assert story.aside == []
    story.at(49.0)
    assert story.aside == []
    dispatch = story.sent(50.0)
    while dispatch.server != stuck.server:
        story.end(50.0, dispatch)
        dispatch = story.sent(50.0)
    story.at(60.0)
    assert story.aside == [stuck.server]
    story.at(99.0)  # 40 time units from 58 or later: it had been forgiven once
    assert story.aside == [stuck.server]
    assert story.core.members.set_aside_total["hung"] == 2


def test_a_server_that_seems_to_hang_is_asked_since_the_end_may_have_been_lost() -> None:
    # Under a policy without reports the counter is right again by this.
    story = Story({"name": "least_requests"}, 2, memory=HANG)
    lost, other = story.sent(0.0), story.sent(0.0)
    story.end(1.0, other)
    assert story.at(10.0) == [Probe(lost.server, "r", NO_JOB)] and story.aside == [lost.server]
    [end] = story.at(10.0, Report(lost.server, "r", 0, 1, NO_JOB))
    assert (end.job.id, end.reason) == (1, "unaccounted")
    assert story.aside == [] and [server.outstanding for server in story.servers] == [0, 0]


def test_no_hang_no_timer() -> None:
    assert not Story({"name": "jsq"}, 2, memory=MEMORY).due
    assert not Story({"name": "jsq"}, 2).due
