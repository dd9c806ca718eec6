"""Changes that are drawn leave somebody to serve, and everybody is there when it is calm."""

from __future__ import annotations

import pytest

from services.scenario import parse_scenario, scenario_toml
from tests.soak.plan import MEMBERS, MOST_GUESTS, STAYING, UNIT_S, Plan

PULL = {"name": "pull"}
SEEDS = range(20)


def test_the_same_seed_draws_the_same_and_another_one_something_else() -> None:
    assert Plan(30.0, 1, PULL).scenario == Plan(30.0, 1, PULL).scenario
    assert Plan(30.0, 1, PULL).scenario.faults != Plan(30.0, 2, PULL).scenario.faults


def test_half_an_hour_has_every_kind_of_change_many_times() -> None:
    counts = Plan(30.0, 1, PULL).counts()
    kinds = [f"{kind} {whom}" for kind in ("kill", "drain", "restart")
             for whom in ("a router", "a server process", "a guest")]  # fmt: skip
    assert min(counts[kind] for kind in [*kinds, "add a guest"]) >= 5


@pytest.mark.parametrize("minutes", [0.5, 30.0, 600.0])
def test_any_length_is_a_scenario_that_can_be_written_and_read(minutes: float) -> None:
    scenario = Plan(minutes, 3, PULL).scenario
    assert parse_scenario(scenario_toml(scenario), "soak") == scenario
    assert scenario.horizon * UNIT_S == pytest.approx(minutes * 60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_router_and_a_server_process_at_most_are_away_and_few_guests_there(seed: int) -> None:
    away: set[str] = set()
    guests: set[str] = set()
    number = {"slow": 2, "fast": 2}
    for fault in Plan(30.0, seed, PULL).scenario.timeline():
        target = fault.target or ""
        assert target not in STAYING
        if fault.kind == "add":
            assert fault.pool is not None
            number[fault.pool] += 1
            guests.add(f"servers-{fault.pool}-{number[fault.pool]}")
        elif fault.kind == "restart":
            assert target in MEMBERS or target in guests
            away.discard(target)
        elif target in MEMBERS:
            assert target not in away
            away.add(target)
        else:
            guests.remove(target)
        kinds = [name.partition("-")[0] for name in away]
        assert len(kinds) == len(set(kinds))
        assert len(guests) <= MOST_GUESTS


@pytest.mark.parametrize("seed", SEEDS)
def test_when_it_is_calm_everybody_is_there_and_no_guest(seed: int) -> None:
    plan = Plan(30.0, seed, PULL)
    timeline = plan.scenario.timeline()
    assert len(plan.calms) >= 5
    for from_s, to_s in plan.calms:
        before = [fault for fault in timeline if fault.at * UNIT_S < to_s]
        assert all(fault.at * UNIT_S < from_s for fault in before)
        last = {fault.target: fault.kind for fault in before if fault.target}
        assert all(kind == ("restart" if target in MEMBERS else last[target]) for target, kind in last.items())
        left = [target for target, kind in last.items() if target not in MEMBERS and kind == "restart"]
        assert left == []
        added = sum(fault.kind == "add" for fault in before)
        assert added == sum(target not in MEMBERS for target in last)
