"""What ends a live run, and that nothing of it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.lab import live
from services.lab.errors import RunInvalid
from services.scenario import parse_scenario

SCENARIO = parse_scenario(
    """
name = "dies"
policy.name = "random"
arrivals.load = 0.5
run = {warmup = 0, duration = 100}
faults = [{at = 1, kind = "restart", target = "servers-a"}]
[[pools]]
name = "a"
servers = 2
""",
    "dies.toml",
)


class Generator:
    """A generator that begins, and dies when it is told to, or stays for ever when it is done."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = [{"event": "started", "start_s": 0.0}, *lines]
        self.dies = asyncio.Event()

    async def says(self) -> dict[str, Any] | None:
        if self.lines:
            return self.lines.pop(0)
        await self.dies.wait()
        return None

    async def ended(self) -> int:
        await self.dies.wait()
        return 1

    async def death(self) -> RunInvalid:
        return RunInvalid("process_died", "the generator")


class Nothing:
    """A cluster in which nothing happens, and whose counters nobody reads."""

    async def death(self) -> None:
        await asyncio.Event().wait()

    async def read_on(self, every_s: float) -> None:
        await asyncio.Event().wait()


class Striking:
    """A timeline that strikes, one day, and says so."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.begun = asyncio.Event()
        self.is_over = False
        self.happened = ()
        self._failure = failure

    async def run(self) -> None:
        self.begun.set()
        try:
            if self._failure is not None:
                raise self._failure
            await asyncio.Event().wait()
        finally:
            self.is_over = True


def following(generator: Generator, timeline: Striking, monkeypatch: pytest.MonkeyPatch) -> asyncio.Task[Any]:
    monkeypatch.setattr(live, "Timeline", lambda *_: timeline)
    nothing: Any = Nothing()
    like_one: Any = generator
    return asyncio.create_task(live._until_done(like_one, nothing, nothing, SCENARIO, lambda *_: None))


async def test_when_the_generator_dies_nothing_strikes_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, timeline = Generator(), Striking()
    run = following(generator, timeline, monkeypatch)
    await timeline.begun.wait()
    generator.dies.set()
    with pytest.raises(RunInvalid, match="the generator"):
        await run
    assert timeline.is_over and asyncio.all_tasks() == {asyncio.current_task()}


async def test_when_a_fault_fails_nobody_follows_the_generator_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    run = following(Generator(), Striking(RunInvalid("not_ready", "the new one")), monkeypatch)
    with pytest.raises(RunInvalid, match="the new one"):
        await run
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_generator_that_is_done_and_does_not_end_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EXIT_LIMIT_S", 0.01)
    run = following(Generator({"event": "done"}), Striking(), monkeypatch)
    with pytest.raises(RunInvalid, match="did not end within") as error:
        await run
    assert error.value.kind == "process_hangs"
