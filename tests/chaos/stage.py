"""Real processes on which chaos is tried out: routers, server processes, the links between them, and a load."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import aiohttp

from services.lab.events import Rings
from services.lab.relay import Relay
from services.lab.running import Running
from services.lab.scrape import Samples
from tests.chaos.load import Load
from tests.live.marked import Mark

ROUTERS = ("router-1", "router-2")
PROCESSES = ("servers-a", "servers-b", "servers-c")
SERVERS = 5  # of each process
UNIT_S = 0.05
JOBS_PER_S = 120.0  # load 0.4 of 15 servers, each 20 jobs/s

HEARTBEAT_S = 1.0
DETECTION_S = 1.5 * HEARTBEAT_S
"""How long a peer may be silent before its link is given up: one heartbeat until it is asked, half a one to answer."""
HANDSHAKE_S = 1.0
PAUSE_S = 0.5
RELINK_S = HANDSHAKE_S + PAUSE_S
"""How long after a link can be had again it is there: a handshake that is in vain, and the longest pause."""
SLACK_S = 1.5
"""What the machine of the test may add to any time that is stated: it is small and busy."""
BOUND_S = 30.0

FROM_HERE = "127.0.0.9"
"""The test looks at processes from an address of its own, which a firewall can let pass."""


class Stage:
    """A cluster that is well, under no load.

    Attributes:
        policy: The `[policy]` table in force.
        running: The processes by name.
        relays: The relay of each link, by router and server process.
        load: Sends jobs.
        session: To look at processes.
        folder: For logs, of events too.
        guests: Whether others than the load have sent jobs.
    """

    def __init__(self, policy: dict[str, Any], folder: Path, session: aiohttp.ClientSession) -> None:
        self.policy = policy
        self.folder = folder
        self.session = session
        self.running = Running(folder)
        self.relays: dict[tuple[str, str], Relay] = {}
        self.load = Load(Random(1))
        self.processes = list(PROCESSES)
        self.guests = False
        self._mark = Mark()
        os.environ.update(self._mark.environment)
        self._rings = Rings(folder, mib=1, grows=True)

    # -- beginning and end --------------------------------------------------------------------

    async def begin(self) -> None:
        """Start everything and wait until all is well."""
        await self.running.start_all({name: self.router_command(name) for name in ROUTERS})
        for router in ROUTERS:
            for process in PROCESSES:
                self.relays[router, process] = await Relay.start(self.running.urls[router])
        await self.running.start_all({
            name: self.servers_command(name, 1 + SERVERS * place) for place, name in enumerate(PROCESSES)
        })  # fmt: skip
        await self.load.dial(self.session, {name: self.running.urls[name] for name in ROUTERS})
        await self.until_well()

    async def end(self) -> None:
        """End everything that was started.

        Raises:
            AssertionError: A process is still there, of those that were started or those that they started.
        """
        running = {process.pid for process in self.running.processes if process.exit_code is None}
        unseen = running - self._mark.alive().keys()
        left: list[str] = []
        async with AsyncExitStack() as last:  # what fails keeps nothing from being ended
            last.callback(lambda: left.extend(self._mark.kill_all()))
            for name in self._mark.environment:
                last.callback(os.environ.pop, name)
            for relay in self.relays.values():
                last.push_async_callback(relay.close)
            last.push_async_callback(self.running.close)
            last.push_async_callback(self.load.close)
        assert not left, f"left at the end: {left}"
        assert not unseen, f"{unseen} would not have been found, had they been left"

    def router_command(self, name: str, **more: Any) -> list[str]:
        """The command line of a router."""
        settings = {"heartbeat_s": HEARTBEAT_S, "drain_limit_s": 10.0, **more}
        return [
            "router", "--id", name, "--port", "0", "--policy", json.dumps(self.policy), "--time-unit-s", str(UNIT_S),
            "--end-with-parent", *self._rings.options(name), *_sets(settings),
        ]  # fmt: skip

    def servers_command(self, name: str, first: int, direct: bool = False, **more: Any) -> list[str]:
        """The command line of a server process: its links go by relays, unless they are to be direct."""
        urls = [self.running.urls[router] if direct else self.relays[router, name].url for router in ROUTERS]
        settings = {
            "heartbeat_s": HEARTBEAT_S, "handshake_limit_s": HANDSHAKE_S, "reconnect_most_s": PAUSE_S,
            "drain_limit_s": 10.0, **more,
        }  # fmt: skip
        return [
            "server", "--id", name, "--port", "0", "--pool", "slow", "--servers", str(SERVERS), "--first", str(first),
            "--routers", ",".join(urls), "--time-unit-s", str(UNIT_S), "--end-with-parent",
            *self._rings.options(name), *_sets(settings),
        ]  # fmt: skip

    # -- looking ------------------------------------------------------------------------------

    async def get(self, name: str, path: str) -> Any:
        """What a process answers."""
        async with self.session.get(self.running.urls[name] + path) as response:
            return await response.json()

    async def put(self, name: str, path: str, body: Any) -> Any:
        """Tell a process something."""
        async with self.session.put(self.running.urls[name] + path, json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def samples(self, name: str) -> Samples:
        """All counters of a process."""
        async with self.session.get(self.running.urls[name] + "/metrics") as response:
            return Samples(await response.text())

    def alive(self, names: tuple[str, ...] | list[str]) -> list[str]:
        """Those of these processes that run."""
        return [name for name in names if self.running.is_up(name)]

    async def servers_at(self, router: str) -> int:
        """How many servers a router may choose from."""
        return int((await self.get(router, "/ready"))["servers"])

    async def is_well(self) -> bool:
        """Whether every router that runs knows every server that runs, and the generator has its streams."""
        try:
            async with asyncio.timeout(1.0):
                there = [await self.get(process, "/ready") for process in self.alive(self.processes)]
                known = [await self.servers_at(router) for router in self.alive(ROUTERS)]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError):
            return False
        servers = sum(each["servers"] - each["draining"] for each in there)
        return (
            all(each["ready"] and each["links_up"] == len(known) for each in there)
            and all(count == servers for count in known)
            and self.load.streams_up() == len(known)
        )

    async def until(self, holds: Callable[[], Awaitable[bool]], within_s: float, what: str) -> float:
        """Wait until something holds; return how long it took.

        Raises:
            AssertionError: It does not in time.
        """
        began = monotonic()
        while not await holds():
            assert monotonic() - began < within_s, f"expected within {within_s:g} s: {what}"
            await asyncio.sleep(0.02)
        return monotonic() - began

    async def until_well(self, within_s: float = BOUND_S) -> float:
        """Wait until everything that runs is linked with everything else; return how long it took."""
        return await self.until(self.is_well, within_s, "everybody linked with everybody")

    async def until_router_has(self, router: str, servers: int, within_s: float) -> float:
        """Wait until a router may choose from so many servers; return how long it took."""

        async def holds() -> bool:
            return await self.servers_at(router) == servers

        return await self.until(holds, within_s, f"{servers} servers at {router}")

    def descriptors(self, name: str) -> int:
        """Open files of a process."""
        return len(os.listdir(f"/proc/{self.running[name].pid}/fd"))


@asynccontextmanager
async def staged(policy: dict[str, Any], folder: Path) -> AsyncIterator[Stage]:
    """A stage that is well; nothing of it is left afterwards."""
    connector = aiohttp.TCPConnector(local_addr=(FROM_HERE, 0), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        stage = Stage(policy, folder, session)
        try:
            await stage.begin()
            yield stage
        finally:
            await stage.end()


def _sets(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
