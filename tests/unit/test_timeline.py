"""The faults of a live run: in order, at their instants, each to whom it strikes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from router.protocol.errors import SettingsError
from services.lab.cluster import Cluster
from services.lab.errors import RunInvalid
from services.lab.experiment import Experiment
from services.lab.faults import Timeline
from services.lab.run import Options, run
from services.lab.scrape import Scraper
from services.scenario import parse_scenario

SCENARIO = """
name = "faults"
time_unit_s = 0.01
[policy]
name = "pull"
[routers]
count = 2
[[pools]]
name = "slow"
servers = 4
processes = 2
[arrivals]
load = 0.5
[run]
warmup = 0
duration = 20
"""


class FakeChild:
    exit_code: int | None = None


class FakeRunning:
    """Writes down what is done to processes."""

    def __init__(self, url: str) -> None:
        names = ("router-1", "router-2", "servers-slow-1", "servers-slow-2")
        self.urls = {name: f"{url}/{name}" for name in names}
        self.children = {name: FakeChild() for name in names}
        self.stopped: set[str] = set()
        self.asked: list[FakeChild] = []
        self.done: list[str] = []
        self.starting = asyncio.Event()
        self.starting.set()
        self.hanging = asyncio.Event()
        self.resuming = asyncio.Event()
        self.broken = False
        self.drained: Callable[[], object] = lambda: None

    def __getitem__(self, name: str) -> FakeChild:
        return self.children[name]

    def is_up(self, name: str) -> bool:
        return self.children[name].exit_code is None and name not in self.stopped

    async def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")
        self.children[name].exit_code = -9
        self.stopped.discard(name)

    async def start(self, name: str, command: list[str]) -> str:
        await self.starting.wait()
        if self.broken:
            raise RunInvalid("process_died", f"{name} died")
        self.done.append(f"start {name} {command[0]}")
        self.children[name] = FakeChild()
        self.urls.setdefault(name, f"{self.urls['router-1'].rpartition('/')[0]}/{name}")
        return self.urls[name]

    async def restart(self, name: str) -> None:
        await self.start(name, ["again"])

    def was_asked(self, child: FakeChild) -> bool:
        return child in self.asked

    def drain(self, name: str) -> None:
        self.done.append(f"drain {name}")
        self.asked.append(self.children[name])
        self.stopped.discard(name)
        self.drained()

    def hang(self, name: str) -> None:
        self.done.append(f"hang {name}")
        self.hanging.set()
        self.stopped.add(name)

    def resume(self, name: str) -> None:
        self.done.append(f"resume {name}")
        self.resuming.set()
        self.stopped.discard(name)


class FakeRelay:
    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.delay_s = 0.0

    def cut(self) -> None:
        self.done.append("cut")

    def silence(self) -> None:
        self.done.append("silence")

    def heal(self) -> None:
        self.done.append(f"heal after a delay of {self.delay_s:g} s")
        self.delay_s = 0.0


class Ground:
    """Runs timelines among fakes; servers answer from a real web server."""

    def __init__(self, url: str, told: list[tuple[str, Any]], answering: asyncio.Event) -> None:
        self.running = FakeRunning(url)
        self.told = told
        self.answering = answering  # servers do

    async def run(self, faults: str) -> Timeline:
        scenario = parse_scenario(SCENARIO + faults, "faults.toml")
        running: Any = self.running
        relays: Any = {("router-1", "servers-slow-1"): FakeRelay(running.done)}
        commands = {"servers-slow-3": ["more"], "servers-slow-4": ["more"]}
        cluster = Cluster(["r1", "r2"], ["s1", "s2"], {}, running, relays, commands)
        self.scraper = Scraper(cluster.routers, cluster.servers)
        timeline = Timeline(scenario, cluster, self.scraper, time.monotonic())
        await asyncio.wait_for(timeline.run(), 10.0)
        self.cluster = cluster
        return timeline


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    told: list[tuple[str, Any]] = []
    answering = asyncio.Event()
    answering.set()

    async def disturb(request: web.Request) -> web.Response:
        told.append((request.match_info["server"], await request.json()))
        await answering.wait()
        return web.json_response({})

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text="said_last 1\n")

    app = web.Application()
    app.router.add_put("/{process}/v1/servers/{server}/disturbance", disturb)
    app.router.add_get("/{process}/metrics", metrics)
    async with TestServer(app) as server:
        yield Ground(str(server.make_url("")).rstrip("/"), told, answering)


def fault(at: float, kind: str, **more: Any) -> str:
    def written(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return f"[{', '.join(map(written, value))}]"
        return f'"{value}"' if isinstance(value, str) else str(value)

    lines = [f"at = {at}", f'kind = "{kind}"', *(f"{key} = {written(value)}" for key, value in more.items())]
    return "\n".join(["[[faults]]", *lines, ""])


def what(timeline: Timeline) -> list[str]:
    return [each.words for each in timeline.happened]


def of(lines: list[str], name: str) -> list[str]:
    return [line for line in lines if name in line.split()]


async def test_processes_are_struck_in_order_and_a_restart_is_a_death_and_a_birth(ground: Ground) -> None:
    found = await ground.run(
        fault(3, "restart", target="router-1") + fault(1, "kill", target="servers-slow-2")
        + fault(2, "kill", target="servers-slow-2") + fault(4, "restart", target="servers-slow-2")
        + fault(5, "drain", target="router-2") + fault(6, "drain", target="router-2")
    )  # fmt: skip
    # Each process has its own order; what strikes different ones may take different times.
    assert of(ground.running.done, "servers-slow-2") == ["kill servers-slow-2", "start servers-slow-2 again"]
    assert of(ground.running.done, "router-1") == ["kill router-1", "start router-1 again"]
    assert of(what(found), "servers-slow-2") == ["kill servers-slow-2", "restart servers-slow-2"]
    assert of(what(found), "router-1") == ["kill router-1", "restart router-1"]
    assert of(what(found), "router-2") == ["drain router-2"]
    at = {each.words: each.at for each in found.happened}
    assert 1 <= at["kill servers-slow-2"] <= at["restart servers-slow-2"] >= 4
    assert 3 <= at["kill router-1"] <= at["restart router-1"] <= 20
    url = ground.running.urls["router-1"]
    assert ground.scraper.former == {url: ["said_last 1\n"], ground.running.urls["servers-slow-2"]: ["said_last 1\n"]}
    assert ground.scraper.silent == set()


async def test_what_strikes_a_process_waits_for_what_struck_it_before(ground: Ground) -> None:
    ground.running.starting.clear()
    running = ground.running

    async def start_when_the_other_hangs() -> None:
        await running.hanging.wait()
        running.starting.set()

    starting = asyncio.create_task(start_when_the_other_hangs())
    found = await ground.run(fault(1, "restart", target="router-1") + fault(2, "hang", target="router-1")
                             + fault(2.5, "hang", target="router-2"))  # fmt: skip
    assert of(what(found), "router-1") == ["kill router-1", "restart router-1", "hang router-1"]
    await starting
    assert what(found).index("hang router-2") < what(found).index("restart router-1"), "nobody else waits"


async def test_servers_misbehave_and_are_mended_at_the_end(ground: Ground) -> None:
    await ground.run(
        fault(1, "slow", target="slow-1", factor=3) + fault(2, "hang", target="slow-1")
        + fault(3, "fail", target="servers-slow-2") + fault(4, "resume", target="slow-3")
        + fault(5, "resume", target="slow-2")
    )  # fmt: skip
    well = {"slow": 1.0, "failing": False, "hung": False}
    told = {server: [how for whom, how in ground.told if whom == server] for server, _ in ground.told}
    # slow-2 was well before and is told nothing; slow-1 and slow-4 are mended when the run is over.
    assert told == {
        "slow-1": [well | {"slow": 3.0}, well | {"slow": 3.0, "hung": True}, well],
        "slow-3": [well | {"failing": True}, well],
        "slow-4": [well | {"failing": True}, well],
    }


async def test_one_that_ends_closes_its_port_first_and_cannot_be_told(ground: Ground) -> None:
    name, url = "servers-slow-1", ground.running.urls["servers-slow-1"]
    closed = f"http://127.0.0.1:1/{name}"
    ground.running.drained = lambda: ground.running.urls.update({name: closed})
    slow = fault(1, "slow", target=name, factor=3)
    found = await ground.run(slow + fault(10, "drain", target=name))
    assert what(found) == [f"slow {name} by 3", f"drain {name}"]
    assert {server for server, _ in ground.told} == {"slow-1", "slow-2"} and len(ground.told) == 2

    ground.running = FakeRunning(url.rpartition("/")[0])
    ground.running.urls[name] = closed
    with pytest.raises(RunInvalid, match=f"slow-1.*does {name} still run"):  # nobody has asked it to end
        await ground.run(slow)


async def test_what_stands_still_goes_on_at_the_end_and_is_not_told_before(ground: Ground) -> None:
    found = await ground.run(
        fault(1, "hang", target="servers-slow-1") + fault(2, "fail", target="slow-1")
        + fault(3, "hang", target="router-1") + fault(4, "resume", target="router-1")
    )  # fmt: skip
    assert of(ground.running.done, "router-1") == ["hang router-1", "resume router-1"]
    assert of(ground.running.done, "servers-slow-1") == ["hang servers-slow-1", "resume servers-slow-1"]
    assert ground.running.done[-1] == "resume servers-slow-1"
    assert ground.told == [] and ground.scraper.silent == set()
    assert of(what(found), "router-1") == ["hang router-1", "resume router-1"]


async def test_what_stands_still_and_is_drained_goes_on_and_is_read_until_its_end(ground: Ground) -> None:
    running, url = ground.running, ground.running.urls["router-1"]

    def end() -> None:
        running.children["router-1"].exit_code = 0

    running.drained = end
    found = await ground.run(fault(1, "hang", target="router-1") + fault(2, "drain", target="router-1"))
    assert of(what(found), "router-1") == ["hang router-1", "drain router-1"]
    assert url in ground.scraper.struck and url not in ground.scraper.silent


async def test_what_finds_nobody_or_changes_nothing_has_not_happened(ground: Ground) -> None:
    found = await ground.run(
        fault(1, "kill", target="servers-slow-1") + fault(1, "hang", target="servers-slow-2")
        + fault(2, "slow", target="servers-slow-1", factor=3) + fault(2, "fail", target="servers-slow-2")
        + fault(3, "hang", target="slow-1") + fault(3, "slow", target="slow-3", factor=3)
        + fault(4, "resume", target="slow-3") + fault(4, "resume", target="servers-slow-1")
        + fault(5, "resume", target="servers-slow-2") + fault(6, "resume", target="servers-slow-2")
        + fault(7, "slow", target="slow-3", factor=3) + fault(8, "slow", target="slow-3", factor=3)
    )  # fmt: skip
    # The dead one cannot be told. The other one stands still from 1 to 5, and is well when it goes on.
    assert of(what(found), "servers-slow-1") == ["kill servers-slow-1"]
    assert of(what(found), "slow-1") == []
    assert of(what(found), "servers-slow-2") == ["hang servers-slow-2", "resume servers-slow-2"]
    assert of(what(found), "slow-3") == ["slow slow-3 by 3"]
    well = {"slow": 1.0, "failing": False, "hung": False}
    assert ground.told == [("slow-3", well | {"slow": 3.0}), ("slow-3", well)]


async def test_what_has_its_turn_only_after_the_end_does_not_happen(ground: Ground) -> None:
    running = ground.running
    running.starting.clear()

    async def start_when_the_run_is_over() -> None:
        await running.resuming.wait()  # router-2 is mended
        running.starting.set()

    starting = asyncio.create_task(start_when_the_run_is_over())
    found = await ground.run(
        fault(1, "hang", target="router-2") + fault(2, "restart", target="router-1")
        + fault(3, "hang", target="router-1") + fault(2, "restart", target="servers-slow-1")
        + fault(3, "fail", target="slow-1")
    )  # fmt: skip
    await starting
    assert of(running.done, "router-1") == ["kill router-1", "start router-1 again"]
    assert of(what(found), "router-1") == ["kill router-1", "restart router-1"]
    assert ground.told == [] and all(map(running.is_up, running.urls)), "nobody would mend it"


async def test_a_server_that_is_being_told_at_the_end_is_mended(ground: Ground) -> None:
    running = ground.running
    ground.answering.clear()

    async def answer_when_the_run_is_over() -> None:
        await running.resuming.wait()
        ground.answering.set()

    answering = asyncio.create_task(answer_when_the_run_is_over())
    await ground.run(fault(1, "hang", target="router-2") + fault(19, "hang", target="slow-1"))
    await answering
    well = {"slow": 1.0, "failing": False, "hung": False}
    assert ground.told == [("slow-1", well | {"hung": True}), ("slow-1", well)]


async def test_links_and_additions(ground: Ground) -> None:
    between = ["router-1", "servers-slow-1"]
    found = await ground.run(
        fault(1, "delay", between=between, delay=20) + fault(2, "heal", between=between)
        + fault(3, "cut", between=between) + fault(4, "cut", between=between, half_open=True)
        + fault(5, "add", pool="slow", servers=2)
    )  # fmt: skip
    assert ground.running.done == ["heal after a delay of 0.2 s", "cut", "silence", "start servers-slow-3 more",
                                   "heal after a delay of 0 s"]  # fmt: skip
    url = ground.running.urls["servers-slow-3"]
    assert ground.cluster.servers == ["s1", "s2", url] and ground.cluster.names == {url: "servers-slow-3"}
    assert what(found)[-1] == "add 2 to slow"


async def test_a_process_that_is_given_the_port_of_one_that_is_gone_is_counted_beside_it(ground: Ground) -> None:
    url = ground.running.urls["servers-slow-4"] = f"{ground.running.urls['router-1']}/again"
    ground.running.urls["servers-slow-3"] = url
    await ground.run(
        fault(1, "add", pool="slow", servers=2) + fault(2, "kill", target="servers-slow-3")
        + fault(15, "add", pool="slow", servers=2)
    )  # fmt: skip
    assert ground.cluster.servers == ["s1", "s2", url] and ground.cluster.names == {url: "servers-slow-4"}
    assert ground.scraper.silent == set() and list(ground.scraper.former) == [url]


async def test_a_process_that_does_not_come_back_ends_the_run(ground: Ground) -> None:
    ground.running.broken = True
    with pytest.raises(RunInvalid, match="router-1 died"):
        await ground.run(fault(1, "restart", target="router-1"))


def test_a_cluster_that_was_there_before_is_not_struck() -> None:
    scenario = parse_scenario(SCENARIO + fault(1, "kill", target="router-1"), "faults.toml")
    with pytest.raises(SettingsError, match="a cluster that was there before is not struck"):
        run(Experiment(scenario, None), Options(attach="127.0.0.1:1"), lambda stage, share: None)
