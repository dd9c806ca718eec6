"""Every fault is survived with every policy, and no job is lost from sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cases import CASES
from tests.chaos.play import POLICIES, play

COMPACT = [case for case in CASES.values() if case.compact]
SHARES = {policy: COMPACT[place :: len(POLICIES)] for place, policy in enumerate(POLICIES)}
"""A minute is enough for each case once: each policy has a share of them. `make chaos` plays all with all."""


@pytest.mark.parametrize("policy", SHARES)
async def test_a_share_of_the_cases(policy: str, tmp_path: Path) -> None:
    results = await play(policy, SHARES[policy], tmp_path)
    assert [(result.case, result.wrong) for result in results if result.wrong] == []
    assert len(results) == len(SHARES[policy]) >= 3


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("policy", POLICIES)
async def test_all_cases(policy: str, tmp_path: Path) -> None:
    results = await play(policy, CASES.values(), tmp_path)
    assert [(result.case, result.wrong) for result in results if result.wrong] == []
    assert len(results) == len(CASES) >= 20
