"""A fixed budget of the swarm, cases that once found a mistake, and the swarm itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.swarm.cases import Case, draw
from tests.swarm.many import cores, failures
from tests.swarm.run import run, violation
from tests.swarm.shrink import shrink

SEEDS = 2_000
FOUND = [json.loads(line) for line in (Path(__file__).parent / "found.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.timeout(900)  # a minute and a half on two cores that have nothing else to do
def test_no_seed_violates_anything() -> None:
    found = [failure for _, some in failures(range(SEEDS), cores()) for failure in some]
    if found:
        seed, what = found[0]
        small = shrink(draw(seed))
        pytest.fail(
            f"seeds {[each for each, _ in found][:20]}; of seed {seed}: {what.splitlines()[0]}\n"
            f"again: python -m tests.swarm --seeds {seed}\n"
            f"smaller: python -m tests.swarm --case '{small.json()}'\n{violation(small, told=True)}"
        )


@pytest.mark.parametrize("found", FOUND, ids=[entry["why"] for entry in FOUND])
def test_what_was_found_is_mended(found: dict[str, object]) -> None:
    assert violation(Case.read(json.dumps(found["case"])), told=True) == ""


def test_a_case_is_the_same_each_time_and_elsewhere() -> None:
    for seed in range(10):
        case = draw(seed)
        assert draw(seed) == case == Case.read(case.json())
        first, second = run(case), run(Case.read(case.json()))
        assert (first.story.events, first.agenda.now, first.ends) == (
            second.story.events,
            second.agenda.now,
            second.ends,
        )


def test_the_cases_are_of_every_kind() -> None:
    cases = [draw(seed) for seed in range(300)]
    kinds = {fault["kind"] for case in cases for fault in case.scenario.get("faults", [])}
    assert kinds == {"kill", "restart", "hang", "resume", "slow", "fail", "drain", "add", "cut", "heal", "delay"}
    assert len({case.scenario["policy"]["name"] for case in cases}) == 10
    assert {key for case in cases for key in case.options} == {"retries", "memory", "stale_after", "stale", "ceiling"}
    outcomes = {end for case in cases[:60] for end in run(case).ends.values()}
    assert {outcome for outcome, _ in outcomes} == {"served", "blocked", "abandoned", "failed"}
    assert {reason for _, reason in outcomes} >= {
        "link_lost",
        "no_router",
        "no_server",
        "draining",
        "server",
        "ceiling",
    }


def test_a_failing_case_is_made_small() -> None:
    case = next(case for case in map(draw, range(1000)) if len(case.scenario.get("faults", [])) > 3)
    kept = case.scenario["faults"][2]

    small = shrink(case, lambda each: each.jobs >= 7 and kept in each.scenario.get("faults", []))

    assert small.jobs == 7 and small.scenario["faults"] == [kept]
    assert not small.switches and not small.options and not any(small.delays) and "patience" not in small.scenario
