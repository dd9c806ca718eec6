"""A test of the tests: whatever mistake is put into the code, the swarm finds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.swarm.cases import draw
from tests.swarm.mutants import MUTANTS
from tests.swarm.run import violation

SEEDS = 2_000


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("put", MUTANTS.values(), ids=MUTANTS)
def test_each_mistake_is_found(put: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch)

    assert any(violation(draw(seed)) for seed in range(SEEDS))
