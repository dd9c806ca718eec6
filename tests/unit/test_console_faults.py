"""Faults of a scenario in a cluster that is kept up: they are noted, and what comes back belongs to it again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from services.console.local import LocalCluster
from services.lab.cluster import Cluster, server_commands
from services.lab.errors import RunInvalid
from services.scenario import parse_scenario
from services.scenario_faults import HEARTBEAT_S

SCENARIO = """
name = "faults"
time_unit_s = 0.01
[policy]
name = "pull"
[[pools]]
name = "slow"
servers = 2
[arrivals]
load = 0.5
[run]
warmup = 0
duration = 10
[[faults]]
at = 1
kind = "restart"
target = "router-1"
[[faults]]
at = 2
kind = "add"
pool = "slow"
servers = 3
"""


class FakeProcess:
    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = asyncio.Event()

    @property
    def exit_code(self) -> int | None:
        return -9 if self.ended.is_set() else None

    async def death(self) -> RunInvalid:
        await self.ended.wait()
        return RunInvalid("process_died", f"{self.name} died")

    async def listening(self) -> str:
        return "http://127.0.0.1:4"

    async def stop(self, limit_s: float = 0.0) -> None:
        self.ended.set()


class FakeRunning:
    def __init__(self) -> None:
        self.children = {name: FakeProcess(name) for name in ("router-1", "servers-slow")}
        self.urls = {"router-1": "http://127.0.0.1:1", "servers-slow": "http://127.0.0.1:2"}
        self.asked: list[FakeProcess] = []

    def __getitem__(self, name: str) -> FakeProcess:
        return self.children[name]

    @property
    def processes(self) -> list[FakeProcess]:
        return list(self.children.values())

    def is_up(self, name: str) -> bool:
        return self.children[name].exit_code is None

    def was_asked(self, process: FakeProcess) -> bool:
        return process in self.asked

    async def kill(self, name: str) -> None:
        self.asked.append(self.children[name])
        self.children[name].ended.set()
        await asyncio.sleep(0)

    async def start(self, name: str, command: Any) -> str:
        self.children[name] = FakeProcess(name)
        await asyncio.sleep(0.05)  # it is there, and does not listen yet
        return self.urls.setdefault(name, "http://127.0.0.1:3")

    async def restart(self, name: str) -> None:
        await self.start(name, [])


async def test_faults_are_noted_and_those_that_come_back_belong_to_it(tmp_path: Path) -> None:
    scenario = parse_scenario(SCENARIO, "faults.toml")
    running: Any = FakeRunning()
    names = {url: name for name, url in running.urls.items()}
    cluster = Cluster(["http://127.0.0.1:1"], ["http://127.0.0.1:2"], names, running, {}, {"servers-slow-2": []})
    local = LocalCluster(scenario, cluster, tmp_path)
    entries: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    local.tell = lambda kind, text: entries.put_nowait((kind, text))
    local.start_faults()
    assert sorted([await asyncio.wait_for(entries.get(), 10.0) for _ in range(3)]) == [
        ("fault", "add 3 to slow"),
        ("fault", "kill router-1"),
        ("fault", "restart router-1"),
    ]
    assert await local.routers() == ["http://127.0.0.1:1"], "it is there again, and nobody says that the last has ended"
    assert [local.name(url) for url in await local.servers()] == ["servers-slow", "servers-slow-2"]
    # What ends unasked is told as before; numbers of servers go on behind those that the fault has added.
    running.children["servers-slow-2"].ended.set()
    assert await asyncio.wait_for(entries.get(), 10.0) == ("problem", "servers-slow-2 died")
    assert local._next == {"slow": 6}
    await local.close()


async def test_servers_that_a_page_adds_are_started_as_those_of_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = parse_scenario(SCENARIO + "[patience]\nrate = 0.1\nin_service = true\n", "faults.toml")
    started: list[list[str]] = []

    async def start(name: str, command: list[str], log: Path) -> FakeProcess:
        started.append(command)
        return FakeProcess(name)

    monkeypatch.setattr("services.console.local.Process.start", start)
    running: Any = FakeRunning()
    routers = {"router-1": running.urls["router-1"]}
    cluster = Cluster(list(routers.values()), [], {url: each for each, url in routers.items()}, running)
    local = LocalCluster(scenario, cluster, tmp_path)
    name = await local.add("slow", 7)
    # Two from the start, three by a fault: the next one is number 6.
    (expected,) = (command for each, command in server_commands(scenario, routers, {}) if each == "servers-slow")
    own = {"--id": ("servers-slow", name), "--servers": ("2", "7"), "--first": ("1", "6")}
    for option, (planned, now) in own.items():
        place = expected.index(option) + 1
        assert expected[place] == planned
        expected[place] = now
    assert started == [expected]
    assert f"heartbeat_s={HEARTBEAT_S}" in expected and "--in-service" in expected
    await local.close()
