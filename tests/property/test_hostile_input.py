"""Whatever reads the bytes of others takes them or refuses them as documented: the fuzzer's targets, for a moment.

`make fuzz` gives each of them sixty thousand inputs, guided by what is covered; what it finds is kept in
tests/fuzz/cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import READ, mutated
from tests.fuzz.sessions import stage
from tests.fuzz.targets import TARGETS, check

CASES = Path(__file__).parents[1] / "fuzz" / "cases"
every_target = pytest.mark.parametrize("name", TARGETS)


@pytest.fixture(autouse=True, scope="module")
def _close() -> Iterator[None]:
    yield
    stage().close()


@every_target
def test_what_peers_and_users_say_is_understood(name: str) -> None:
    target = TARGETS[name]
    taken = [check(target, seed) for seed in target.seeds]
    assert taken.count(True) > len(taken) / 2
    assert max(map(len, target.seeds)) <= target.longest  # else the fuzzer cuts it


def test_what_was_found_once_is_no_mistake_any_more() -> None:
    for case in sorted(CASES.glob("*/*")):
        check(TARGETS[case.parent.name], case.read_bytes())


@every_target
@given(data=st.binary(max_size=80))
@settings(max_examples=50)
def test_bytes_are_taken_or_refused(name: str, data: bytes) -> None:
    check(TARGETS[name], data)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.form in READ])
@given(data=st.data())
@settings(max_examples=60)
def test_values_that_are_nearly_right_are_taken_or_refused(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    changed = mutated(data.draw(st.sampled_from(target.seeds)), target.form, Random(data.draw(st.integers(0, 1 << 32))))
    if changed is not None:
        check(target, changed)
