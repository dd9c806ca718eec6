"""LSQ in continuous time against other simulations, and what its messages do for it."""

from __future__ import annotations

import pytest

from services.simulator.run import simulate
from tests.simulation.golden import Case, check, rows, scenario_of, simulated

EIGHT_ROUTERS = "routers = {count = 8}"
ALIKE = '{name = "a", servers = 20}'
TWO_SPEEDS = '{name = "fast", servers = 10, rate = 1.6}, {name = "slow", servers = 10, rate = 0.4}'
UPDATE = 'name = "lsq"'
# The table has half widths of 95% intervals: 1.96 standard errors.
ROW_91 = (2.380, 0.011 / 1.96)
ROW_92 = (2.205, 0.007 / 1.96)


def alike(policy: str, jobs: int, error: float = 0.01) -> Case:
    """Row G91: twenty servers, load 0.9, eight routers."""
    expected = {"sojourn_mean": ROW_91, "messages.report": (1.0, 0.001), "messages.total": (1.0, 0.001)}
    return Case("G91", policy, ALIKE, "load = 0.9", expected, jobs, error, more=EIGHT_ROUTERS)


def two_speeds(policy: str, jobs: int, error: float = 0.01) -> Case:
    """Row G92: ten servers of rate 1.6 and ten of rate 0.4, load 0.8, eight routers."""
    expected = {"sojourn_mean": ROW_92, "messages.total": (1.0, 0.001)}
    return Case("G92", policy, TWO_SPEEDS, "load = 0.8", expected, jobs, error, more=EIGHT_ROUTERS)


QUICK = [alike(UPDATE, 150_000, 0.015), two_speeds(f'{UPDATE}, rank = "joined"', 60_000)]
LONG = [alike(UPDATE, 1_000_000, 0.004), two_speeds(f'{UPDATE}, rank = "joined"', 1_000_000, 0.004)]


@pytest.mark.parametrize("case", rows(QUICK, LONG), ids=str)
def test_golden_row(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("refresh", ["update", "smart"])
def test_an_update_is_one_report_a_completion_exactly(refresh: str) -> None:
    scenario = scenario_of(alike(f'{UPDATE}, refresh = "{refresh}"', 5_000))
    run = simulate(scenario)
    # Until everything has ended; but for the report with which each server meets each router.
    reports = int(run.messages.counts["report"][-1]) - 20 * 8
    ended = int((run.records.ended <= run.messages.instants[-1]).sum())
    assert reports == ended > 4_000


def test_the_more_routers_hear_the_shorter_jobs_stay() -> None:
    # Row G91: JSQ 1.483, LSQ-Update(1) 2.380. A message only when idle leaves routers to guess, and gives 3.0.
    full, update, idle = (
        simulated(alike(policy, 30_000))["sojourn_mean"].value
        for policy in ('name = "jsq"', UPDATE, f'{UPDATE}, refresh = "idle"')
    )
    assert idle > 1.1 * update > 1.1 * 1.3 * full


@pytest.mark.parametrize("p", [1.0, 0.1])
def test_to_tell_the_most_wrong_router_does_no_harm(p: float) -> None:
    # The jobs are the same, and so is the number of messages.
    told = [simulated(alike(f'{UPDATE}, refresh = "{refresh}", p = {p}', 40_000)) for refresh in ("smart", "update")]
    assert told[0]["sojourn_mean"].value < 1.05 * told[1]["sojourn_mean"].value
    assert told[0]["messages.total"].value == pytest.approx(told[1]["messages.total"].value, rel=0.03)


def test_routers_that_share_a_stale_view_herd() -> None:
    # All eight routers hear all lengths every ten time units, and until then each sends to what looks short to it and
    # to all others. LSQ's one message a completion, 9 in that time for a server, go to one router each instead.
    stale = simulated(alike(f"{UPDATE}, every = 10.0", 20_000))
    fresh = simulated(alike(UPDATE, 20_000))
    assert stale["sojourn_mean"].value > 1.5 * fresh["sojourn_mean"].value
    jsq = simulated(alike('name = "jsq", every = 10.0', 20_000))
    assert jsq["sojourn_mean"].value == pytest.approx(stale["sojourn_mean"].value, rel=0.1)
    # 20 servers tell 8 routers every 10 time units, in which 180 jobs come.
    assert stale["messages.total"].value == pytest.approx(160 / 180, rel=0.01)
