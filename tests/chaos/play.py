"""Plays cases on a stage and says of each what came of it."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from tests.chaos.accounts import check_accounts, check_held, quiet
from tests.chaos.case import Case
from tests.chaos.stage import JOBS_PER_S, SLACK_S, Stage, staged

POLICIES: dict[str, dict[str, Any]] = {
    "pull": {"name": "pull"},
    "jsq": {"name": "jsq"},
    "lsq": {"name": "lsq"},
    "power_of_d": {"name": "power_of_d", "d": 2},
}
BEFORE_S = 0.4
AFTER_S = 0.8
"""How long there is load before a story, and after all is well again."""
STORY_LIMIT_S = 90.0


@dataclass(frozen=True)
class Result:
    """What came of one case with one policy.

    Attributes:
        case: Its name. `policy`: the policy's.
        ends: Jobs by outcome and reason.
        recovered_s: How long it took until everybody was linked with everybody again.
        wrong: What was not as it must be; empty: all was.
    """

    case: str
    policy: str
    ends: Counter[tuple[str, str]]
    recovered_s: float
    wrong: str


async def play(
    policy: str, cases: Iterable[Case], folder: Path, tell: Callable[[Result], object] = lambda result: None
) -> list[Result]:
    """Play cases one after another on one stage; after one that leaves it spoilt, the next ones have a new one."""
    results: list[Result] = []
    left = list(cases)
    while left:
        place = folder / f"{policy}-{len(results)}"
        place.mkdir(parents=True)
        async with staged(POLICIES[policy], place) as stage:
            while left:
                result = await _play_one(policy, left.pop(0), stage)
                results.append(result)
                tell(result)
                if result.wrong or stage.guests:
                    break
    return results


async def _play_one(policy: str, case: Case, stage: Stage) -> Result:
    ends: Counter[tuple[str, str]] = Counter()
    recovered_s = float("nan")
    try:
        before = await quiet(stage)
        stage.load.start(JOBS_PER_S)
        await asyncio.sleep(BEFORE_S)
        async with asyncio.timeout(STORY_LIMIT_S):
            await case.story(stage)
        recovered_s = await stage.until_well(case.recovers_s + SLACK_S)
        well_at_s = monotonic()
        await asyncio.sleep(AFTER_S)
        await stage.load.stop()
        after = await quiet(stage)
        await check_held(stage, before)
        ends = check_accounts(stage, before, after)
        _check_ends(case, stage, before.jobs, well_at_s)
    except Exception as error:
        with suppress(Exception):  # the first reason counts
            await stage.load.stop()
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Result(case.name, policy, ends, recovered_s, f"{error!r} ({where.name}, line {where.lineno})")
    return Result(case.name, policy, ends, recovered_s, "")


def _check_ends(case: Case, stage: Stage, first: int, well_at_s: float) -> None:
    """No job fails for a reason that the case does not explain, nor any after all was well again."""
    for job in stage.load.jobs[first:]:
        # Of a link to servers it is a router that says so, and which server; of its own to a router the generator.
        by_generator = job.reason == "link_lost" and not job.server
        assert not by_generator or "no_router" in case.loses, f"a stream was lost: {job}"
        assert job.outcome in ("served", "failed") and (job.outcome == "served" or job.reason in case.loses), job
        assert job.outcome == "served" or job.sent_s < well_at_s, f"after all was well: {job}"
    assert any(job.sent_s >= well_at_s for job in stage.load.jobs[first:]), "no job was sent after all was well"
