"""The lock: every dependency is in it, with hashes, and it names no index."""

from __future__ import annotations

import re

import pytest

from tests.tidy.tree import ROOT, pyproject

LOCKS = ("requirements.txt", "requirements-dev.txt")


def normal(name: str) -> str:
    """Return the name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> dict[str, str]:
    """Return the lock's entries: name to everything that follows it, hashes included."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line.split("==", 1) for line in text.splitlines() if "==" in line]
    return {normal(name): rest for name, rest in entries}


@pytest.mark.parametrize("lock", LOCKS)
def test_each_entry_is_one_version_with_hashes(lock: str) -> None:
    assert [name for name, rest in pins(lock).items() if "--hash=sha256:" not in rest] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_nothing_but_pins_stands_in_a_lock(lock: str) -> None:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    pin = re.compile(r"[A-Za-z0-9._-]+==[^ ]+( ; .+)? \\| +--hash=sha256:[0-9a-f]{64}( \\)?")
    assert [line for line in lines if not pin.fullmatch(line)] == []


def test_every_dependency_is_locked() -> None:
    project = pyproject()["project"]
    needed = {normal(re.split(r"[^A-Za-z0-9._-]", entry)[0]) for entry in project["dependencies"]}
    tools = {normal(re.split(r"[^A-Za-z0-9._-]", entry)[0]) for entry in project["optional-dependencies"]["dev"]}
    assert needed - set(pins("requirements.txt")) == set()
    assert (needed | tools) - set(pins("requirements-dev.txt")) == set()


def test_both_locks_agree() -> None:
    development = pins("requirements-dev.txt")
    assert {name: rest for name, rest in pins("requirements.txt").items() if development.get(name) != rest} == {}
