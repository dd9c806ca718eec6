"""Real router and server processes: jobs under load while policies switch and processes end, kindly or not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from aiohttp import ClientSession

from router.protocol import stream

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
BOUND_S = 30  # far above what is needed, far below what a hanging process would take
UNIT_S = 0.02

PROCESS = """
import json, sys
from {room}.app.main import run
from {room}.app.settings import {settings}
sys.exit(run({settings}(**json.loads(sys.argv[1]))))
"""


class Process:
    """A process of ours that listens."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        assert popen.stdout is not None
        line = popen.stdout.readline()
        assert line, f"it ended with {popen.wait(BOUND_S)} and said: {popen.stderr.read() if popen.stderr else ''}"
        self.url: str = json.loads(line)["url"]

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return await asyncio.to_thread(self.popen.wait, BOUND_S)


@contextmanager
def started(room: str, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a process; whatever happens, it does not outlive the test."""
    code = PROCESS.format(room=room, settings=f"{room.capitalize()}Settings")
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(settings)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
    ) as popen:  # fmt: skip
        try:
            yield popen
        finally:
            popen.kill()


class Cluster:
    """Routers and servers, and one who talks to them."""

    def __init__(self, session: ClientSession, stack: ExitStack) -> None:
        self.session = session
        self.stack = stack

    def router(self, id: str = "router-1", policy: str = "pull", **settings: Any) -> Process:
        settings = {"id": id, "port": 0, "policy": {"name": policy}, "time_unit_s": UNIT_S, **settings}
        return Process(self.stack.enter_context(started("router", **settings)))

    def servers(self, *routers: Process, id: str = "servers-slow", count: int = 20, **settings: Any) -> Process:
        settings = {
            "id": id, "pool": "slow", "servers": count, "time_unit_s": UNIT_S,
            "routers": [router.url for router in routers], **settings,
        }  # fmt: skip
        return Process(self.stack.enter_context(started("server", **settings)))

    async def ready(self, process: Process, servers: int) -> None:
        """Wait until the router has that many servers."""
        async with asyncio.timeout(BOUND_S):
            while True:
                async with self.session.get(f"{process.url}/ready") as response:
                    if (await response.json()).get("servers") == servers:
                        return
                await asyncio.sleep(0.01)

    async def put_policy(self, process: Process, name: str) -> None:
        async with self.session.put(f"{process.url}/v1/policy", json={"name": name}) as response:
            assert response.status == 200


class Load:
    """A stream of jobs to one router, sent a few at a time until told to stop."""

    def __init__(self) -> None:
        self.sent = 0
        self.ends: list[stream.Answer] = []

    async def run(self, session: ClientSession, router: Process, stop: Callable[[], bool]) -> None:
        """Send until `stop`, then wait for the end of each job, or of the stream."""
        async with session.ws_connect(f"{router.url}/v1/stream") as ws:
            stream.decode_greeting(await ws.receive_bytes())

            async def read() -> None:
                async for message in ws:
                    self.ends += stream.decode_answers(message.data)[1]
                    if stop() and len(self.ends) == self.sent:
                        return

            reading = asyncio.create_task(read())
            while not stop() and not ws.closed:
                # 10 jobs each 20 ms at 20 servers of rate 1 and a unit of 20 ms: half of what they can do.
                jobs = [stream.Request(self.sent + n, 0.5 + n / 10, None) for n in range(10)]
                await ws.send_bytes(stream.encode(jobs, monotonic()))
                self.sent += len(jobs)
                await asyncio.sleep(UNIT_S)
            async with asyncio.timeout(BOUND_S):
                await reading

    @property
    def outcomes(self) -> Counter[tuple[str, str]]:
        return Counter((end.outcome, end.reason) for end in self.ends)

    def check(self) -> None:
        """Each job has one end."""
        assert sorted(end.id for end in self.ends) == list(range(self.sent))


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    async with ClientSession() as session:
        with ExitStack() as stack:
            yield Cluster(session, stack)


async def grown(load: Load, by: int) -> None:
    """Wait until so many more jobs have ended."""
    goal = len(load.ends) + by
    async with asyncio.timeout(BOUND_S):
        while len(load.ends) < goal:  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.005)


async def test_policies_switch_under_load_and_no_job_is_lost():
    async with cluster() as our:
        routers = [our.router("router-1"), our.router("router-2")]
        servers = our.servers(*routers)
        for router in routers:
            await our.ready(router, 20)
        loads, over = [Load(), Load()], asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for router, load in zip(routers, loads, strict=True):
                tasks.create_task(load.run(our.session, router, over.is_set))
            for policy in ("random", "jsq", "power_of_d", "pull"):
                await grown(loads[0], 50)
                for router in routers:
                    await our.put_policy(router, policy)
            await grown(loads[1], 50)
            over.set()
        for load in loads:
            load.check()
            assert set(load.outcomes) == {("served", "")}
            assert {"pull", "random", "jsq", "power_of_d"} == {end.policy for end in load.ends}
        assert [await process.end() for process in (*routers, servers)] == [0, 0, 0]


async def test_a_router_told_to_end_under_load_finishes_its_jobs():
    async with cluster() as our:
        router = our.router()
        our.servers(router)
        await our.ready(router, 20)
        load, over = Load(), asyncio.Event()
        running = asyncio.create_task(load.run(our.session, router, over.is_set))
        await grown(load, 50)
        code = asyncio.create_task(router.end())
        await running  # the router closes the stream when the last end is sent
        assert await code == 0
        assert set(load.outcomes) <= {("served", ""), ("failed", "draining")}
        # Whatever it took in before it closed the stream has its end; what was under way then was never taken in.
        ids = sorted(end.id for end in load.ends)
        assert ids == list(range(len(ids)))


async def test_a_killed_server_process_costs_the_jobs_that_it_had_and_no_other():
    async with cluster() as our:
        router = our.router(policy="random")
        killed = our.servers(router, id="servers-1", count=10)
        other = our.servers(router, id="servers-2", count=10, first=11)
        await our.ready(router, 20)
        load, over = Load(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(our.session, router, over.is_set))
            await grown(load, 50)
            assert await killed.end(signal.SIGKILL) == -signal.SIGKILL
            await our.ready(router, 10)
            await grown(load, 50)
            again = our.servers(router, id="servers-1", count=10)
            await our.ready(router, 20)
            await grown(load, 50)
            over.set()
        load.check()
        assert set(load.outcomes) <= {("served", ""), ("failed", "link_lost")}
        lost = {int(end.server.removeprefix("slow-")) for end in load.ends if end.outcome == "failed"}
        assert all(number <= 10 for number in lost)
        assert [await process.end() for process in (router, other, again)] == [0, 0, 0]


async def test_servers_outlive_a_killed_router_and_link_to_its_successor():
    async with cluster() as our:
        first = our.router()
        port = int(first.url.rsplit(":", 1)[1])
        servers = our.servers(first)
        await our.ready(first, 20)
        await first.end(signal.SIGKILL)
        second = our.router(port=port)
        await our.ready(second, 20)
        async with our.session.post(f"{second.url}/v1/jobs", json={"size": 0.1}) as response:
            assert response.status == 200
        assert [await process.end() for process in (second, servers)] == [0, 0]


async def test_a_server_process_that_reaches_a_router_by_two_names_keeps_one_link():
    async with cluster() as our:
        router = our.router()
        port = router.url.rsplit(":", 1)[1]
        our.servers(router, routers=[router.url, f"localhost:{port}"])
        await our.ready(router, 20)
        load, over = Load(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(our.session, router, over.is_set))
            await grown(load, 200)
            over.set()
        load.check()
        assert set(load.outcomes) == {("served", "")}


def test_a_port_in_use_is_said_and_ends_the_process():
    with socket.create_server(("127.0.0.1", 0)) as taken, started("router", port=taken.getsockname()[1]) as popen:
        assert popen.wait(BOUND_S) == 3
        assert popen.stderr is not None
        assert "the port is in use" in popen.stderr.read()


async def test_a_sink_is_set_aside_a_rate_changed_and_a_process_killed_under_load_and_no_job_is_lost():
    async with cluster() as our:
        router = our.router(policy="jsq", retries=2, memory={"failures": 2, "forgive": 1e6})
        servers, doomed = our.servers(router), our.servers(router, id="servers-more", count=5, prefix="more")
        await our.ready(router, 25)
        load, stopped = Load(), asyncio.Event()
        running = asyncio.create_task(load.run(our.session, router, stopped.is_set))
        await grown(load, 100)
        for path, body in (("/slow-7/disturbance", {"failing": True}), ("/slow-8", {"rate": 4.0})):
            async with our.session.put(f"{servers.url}/v1/servers{path}", json=body) as response:
                assert response.status == 200
        await grown(load, 300)
        await doomed.end(signal.SIGKILL)
        await grown(load, 50)
        async with our.session.get(f"{router.url}/v1/servers") as response:
            known = {server["id"]: server for server in (await response.json())["servers"]}
        stopped.set()
        await running
        load.check()
        # Each job that failed, or was lost with its link, went to another server.
        assert set(load.outcomes) == {("served", "")}
        assert [id for id, server in known.items() if server["state"] == "aside"] == ["slow-7"]
        assert known["slow-7"]["failed"] >= 2
        assert known["slow-8"]["rate"] == 4.0
