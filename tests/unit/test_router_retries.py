"""Jobs that failed, ends that were lost or doubled, and a policy that is wrong; each story by hand."""

from __future__ import annotations

from random import Random

import pytest
from scipy.stats import chisquare

from router.core import EndJob, JobArrived, RouterCore, ServerJoined, ServerLeft
from router.jobs import OnceJob
from router.policy import Assign, Job, Parameters, Policy, Server
from router.protocol.messages import Dispatch, Pull, Report
from tests.unit.router_story import Story, reported

# -- retries ---------------------------------------------------------------------------------------


def test_a_job_is_dispatched_anew_to_servers_that_it_has_not_been_at_and_uniformly() -> None:
    seconds: dict[str, dict[str, int]] = {}
    story = Story({"name": "jsq"}, 4, retries=5)
    for _ in range(3000):
        first = story.sent(0.0)
        [second] = story.end(0.0, first, "failed", "server")
        [third] = story.end(0.0, second, "failed", "server")
        [fourth] = story.end(0.0, third, "failed", "server")
        assert len({first.server, second.server, third.server, fourth.server}) == 4
        [over] = story.end(0.0, fourth, "failed", "server")  # no server is left that it has not been at
        assert isinstance(over, EndJob) and (over.outcome, over.reason, over.fallback) == ("failed", "server", True)
        counts = seconds.setdefault(first.server, dict.fromkeys(("s-0", "s-1", "s-2", "s-3"), 0))
        counts[second.server] += 1
    for first_server, counts in seconds.items():
        del counts[first_server]
        assert chisquare(list(counts.values())).pvalue > 1e-3
    assert story.core.tally.retries == 9000
    assert story.core.in_system == 0


def test_a_job_that_is_blocked_is_never_dispatched_anew() -> None:
    story = Story({"name": "random"}, 4, retries=3)
    [end] = story.end(0.0, story.sent(0.0), "blocked")
    assert isinstance(end, EndJob) and end.outcome == "blocked" and story.core.tally.retries == 0


def test_what_a_server_turns_away_is_not_counted_as_failed_by_it() -> None:
    story = Story({"name": "round_robin"}, 1)
    for reason in ("draining", "server", "ceiling", "out of memory"):
        story.end(0.0, story.sent(0.0), "failed", reason)
    assert story.core.servers["s-0"].failed == 2


def test_a_job_of_a_lost_link_goes_elsewhere_once_and_the_message_is_not_used_again() -> None:
    # The server's pull-message lies here when it dies, and a job was just sent to it by that.
    story = Story({"name": "pull"}, 3, retries=1)
    story.at(0.0, Pull("s-0", "r", 1))
    story.at(0.0, Pull("s-0", "r", 2))
    first = story.sent(0.0)
    assert first.server == "s-0"
    [second] = story.at(1.0, ServerLeft("s-0"))
    assert second.server != "s-0" and second.number is None
    assert story.core.held_total == 0 and story.core.tally.fallbacks == 1
    [end] = story.at(2.0, ServerLeft(second.server))
    assert isinstance(end, EndJob) and end.reason == "link_lost"
    # A new incarnation: nothing of the former one is used.
    story.at(3.0, ServerJoined(Server("s-0", "pool", 1.0, 1, 9.0)))
    assert story.end(3.0, first) == [] and story.core.orphaned == 1
    assert story.sent(3.0).number is None


@pytest.mark.parametrize(
    ("what", "again"),
    [("failed before service", True), ("failed in service", False), ("link lost", False), ("served", False)],
)
def test_a_job_that_is_served_once_at_most_goes_elsewhere_only_if_it_certainly_never_began(
    what: str, again: bool
) -> None:
    story = Story({"name": "random"}, 3, retries=2)
    dispatch = story.sent(0.0, OnceJob)
    if what == "link lost":
        said = story.at(1.0, ServerLeft(dispatch.server))
    elif what == "served":
        said = story.end(1.0, dispatch, service=1.0)
    else:
        said = story.end(1.0, dispatch, "failed", "server", service=0.0 if "before" in what else 0.5)
    assert [isinstance(effect, Dispatch) for effect in said] == [again]


# -- ends that are lost or doubled --------------------------------------------------------------------


def test_a_report_that_cannot_be_reconciles_what_is_counted() -> None:
    story = Story({"name": "jsq"}, 1)
    reported(story, 0.0, {"s-0": 0})
    dispatches = [story.sent(0.0) for _ in range(3)]
    # It has seen two of three and has one job: one of the two that it saw ended unheard, the older one.
    [end] = story.at(1.0, Report("s-0", "r", 1, 2, None))
    assert (end.job.id, end.outcome, end.reason) == (1, "failed", "unaccounted")
    assert (story.servers[0].outstanding, story.servers[0].view) == (2, 2)
    assert story.end(2.0, dispatches[0]) == [] and story.core.orphaned == 1  # too late
    # The length that rides on the end of the third job says that the second one is gone, too.
    said = story.end(3.0, dispatches[2], length=0, seen=3)
    assert [(e.job.id, e.reason) for e in said] == [(3, ""), (2, "unaccounted")]
    assert story.core.in_system == story.servers[0].outstanding == 0


def test_with_one_percent_of_ends_doubled_and_one_percent_lost_shares_stay_uniform() -> None:
    # Replay: Poisson arrivals at load 0.7, reports on each change, as the servers of `jsq` send them.
    story = Story({"name": "jsq"}, 4)
    rng = Random(3)
    queues: dict[str, list[Dispatch]] = {server.id: [] for server in story.servers}
    reported(story, 0.0, dict.fromkeys(queues, 0))
    lost = doubled = 0
    arrivals: list[str] = []
    for _ in range(20_000):
        if rng.random() < 0.7 / 1.7:
            dispatch = story.sent(0.0)
            arrivals.append(dispatch.server)
            queues[dispatch.server].append(dispatch)
            reported(story, 0.0, {dispatch.server: len(queues[dispatch.server])})
        elif queue := queues[f"s-{rng.randrange(4)}"]:
            dispatch = queue.pop(0)
            dice = rng.random()
            if dice >= 0.01:
                story.end(0.0, dispatch)
                if dice < 0.02:
                    doubled += 1
                    story.end(0.0, dispatch)
            else:
                lost += 1
            reported(story, 0.0, {dispatch.server: len(queue)})
        for server in story.servers:
            assert server.outstanding == len(queues[server.id]) == server.view
    ends = story.core.tally.ends
    assert ends["failed", "unaccounted"] == lost > 50 and story.core.orphaned == doubled > 50
    assert chisquare([arrivals.count(id) for id in queues]).pvalue > 1e-3


# -- a policy that is wrong -----------------------------------------------------------------------------


class Stubborn(Policy):
    """Sends each job to the first server that ever joined."""

    name = "stubborn"

    def on_join(self, server: Server) -> None:
        self.first = getattr(self, "first", server)

    def on_arrival(self, job: Job) -> Assign:
        return Assign(self.first)


def test_a_policy_that_chooses_a_server_which_has_left_costs_the_job_and_nothing_else() -> None:
    errors: list[Exception] = []
    core = RouterCore("r", Stubborn(Parameters(), Random(1)), on_error=lambda policy, error: errors.append(error))
    for id in ("s-0", "s-1"):
        core.handle(ServerJoined(Server(id, "pool", 1.0, 1, 9.0)), 0.0)
    core.handle(ServerLeft("s-0"), 0.0)
    [end] = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(end, EndJob) and (end.outcome, end.reason) == ("failed", "policy")
    assert core.in_system == 0 and "no server that is here" in str(errors[0])
