"""Views that are not renewed: when they are stale, and what they count as."""

from __future__ import annotations

from typing import Any

import pytest

from router.core import ServerLeft
from router.freshness import NO_JOB
from router.protocol.messages import Probe, Report
from tests.unit.router_story import Story, reported

# -- views that are stale ---------------------------------------------------------------------------


def stale(story: Story) -> list[str]:
    assert story.core.upkeep.freshness is not None
    return [server.id for server in story.core.upkeep.freshness.stale]


def test_a_server_that_has_nothing_to_report_is_asked_and_is_not_stale_if_it_answers() -> None:
    story = Story({"name": "jsq"}, 1, stale_after=4.0)
    reported(story, 0.0, {"s-0": 3})
    for second in range(2, 40, 2):
        assert story.at(float(second)) == [Probe("s-0", "r", NO_JOB)]
        assert story.at(float(second), Report("s-0", "r", 3, 0, NO_JOB)) == []
        assert stale(story) == []
    assert story.core.tally.probes == 19


def test_with_one_server_whose_reports_have_stopped_jobs_are_still_dispatched() -> None:
    for rule in ("ignore", "average", "full"):
        story = Story({"name": "jsq"}, 1, stale_after=4.0, stale=rule)
        reported(story, 0.0, {"s-0": 3})
        story.at(5.0)
        assert stale(story) == ["s-0"]
        assert story.sent(5.0).server == "s-0"
        reported(story, 6.0, {"s-0": 0})
        assert stale(story) == []


@pytest.mark.parametrize(
    "table", [{"name": "jsq"}, {"name": "sed"}, {"name": "lsq"}, {"name": "pull", "fallback": "view"}]
)
def test_what_a_stale_view_counts_as(table: dict[str, Any]) -> None:
    # s-0 had reported 0 and is silent since. Of the others s-1 has 4 jobs and s-2 has 8.
    chosen = {}
    for rule in ("ignore", "average", "full"):
        story = Story(table, 3, stale_after=4.0, stale=rule)
        reported(story, 0.0, {"s-0": 0, "s-1": 4, "s-2": 8})
        for now in (2.0, 4.0):
            story.at(now)
            reported(story, now, {"s-1": 4, "s-2": 8})
        assert stale(story) == ["s-0"]
        chosen[rule] = story.sent(4.5).server, story.servers[0].view, story.aside
    # Ignore: as if it were idle, one more since the job is on its way. Average: (4 + 8) / 2. Full: not chosen.
    assert chosen == {"ignore": ("s-0", 1, []), "average": ("s-1", 6, []), "full": ("s-1", 0, ["s-0"])}


def test_full_means_chosen_only_when_nothing_else_is() -> None:
    story = Story({"name": "jsq"}, 2, stale_after=4.0, stale="full")
    reported(story, 0.0, {"s-0": 0, "s-1": 9})
    story.at(2.0)
    reported(story, 2.0, {"s-1": 9})
    story.at(4.0)
    assert story.aside == ["s-0"] and story.sent(4.0).server == "s-1"
    story.at(20.0)  # now both are stale
    assert sorted(stale(story)) == ["s-0", "s-1"] and story.aside == []
    reported(story, 20.0, {"s-0": 2})
    story.at(22.0)
    assert story.aside == ["s-1"]
    story.at(22.0, ServerLeft("s-0"))
    assert story.aside == [] and story.sent(22.0).server == "s-1"


def test_policies_that_ask_for_no_reports_have_no_stale_views() -> None:
    for name in ("random", "pull", "least_requests"):
        story = Story({"name": name}, 2, stale_after=4.0, stale="full")
        assert [effect for effect in story.at(50.0) if isinstance(effect, Probe)] == [] and stale(story) == []
