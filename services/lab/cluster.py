"""The processes of a scenario on this machine, as an async context manager: whatever happens, they end."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from router.process.client import open_session
from router.protocol.notices import MAX_SERVERS
from services.lab.errors import RunInvalid
from services.lab.events import Rings
from services.lab.process import Process, first_death, stop_all
from services.scenario import Scenario

READY_LIMIT_S = 30.0
POLL_S = 0.05


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        routers: Their URLs, in order. `servers`: those of the server processes.
        names: Of all processes by URL.
        processes: Those that the lab has started; none when the cluster was there before.
    """

    routers: list[str]
    servers: list[str]
    names: dict[str, str]
    processes: Sequence[Process] = ()

    async def death(self) -> RunInvalid:
        """Wait until one of its processes ends."""
        if not self.processes:
            await asyncio.Event().wait()
        return await first_death(self.processes)


@asynccontextmanager
async def start_cluster(
    scenario: Scenario, logs: Path, *, port: int = 0, rings: Rings | None = None
) -> AsyncIterator[Cluster]:
    """Start all routers and servers of a scenario, and wait until they are ready; end them on leaving.

    Args:
        scenario: What to start.
        logs: The folder for their standard errors; it is there.
        port: Of the first router; the others take the next ones. 0: any free ones.
        rings: Where they write their event logs; left out: they write none.

    Raises:
        RunInvalid: One of them died, or they did not get ready in time.
    """
    processes: list[Process] = []

    async def start(arguments: dict[str, list[str]]) -> list[str]:
        started = []
        for name, command in arguments.items():
            command += rings.options(name) if rings else []
            started.append(await Process.start(name, command, logs / f"{name}.log"))
            processes.append(started[-1])
        return list(await asyncio.gather(*(process.listening() for process in started)))

    try:
        routers = await start(dict(router_commands(scenario, port)))
        servers = await start(dict(server_commands(scenario, routers)))
        names = dict(zip([*routers, *servers], [process.name for process in processes], strict=True))
        cluster = Cluster(routers, servers, names, processes)
        await _ready(cluster, scenario.servers_total)
        yield cluster
    finally:
        await stop_all(processes)


def router_commands(scenario: Scenario, port: int = 0) -> Iterator[tuple[str, list[str]]]:
    """The name and the arguments of each router process."""
    for place, name in enumerate(scenario.router_names()):
        yield name, [
            "router", "--id", name, "--port", str(port + place if port else 0),
            "--policy", json.dumps(scenario.policy), "--seed", str(scenario.seed),
            "--time-unit-s", repr(scenario.time_unit_s), *_upkeep(scenario), "--end-with-parent",
        ]  # fmt: skip


def _upkeep(scenario: Scenario) -> Iterator[str]:
    """What the routers do about servers that fail, hang or fall silent, as options."""
    routers = scenario.routers
    if routers.retries:
        yield from ("--retries", str(routers.retries))
    if routers.memory is not None:
        yield from ("--memory", routers.memory.model_dump_json(exclude_none=True))
    if routers.stale_after is not None:
        yield from ("--stale-after", repr(routers.stale_after), "--stale", routers.stale)


def server_commands(scenario: Scenario, routers: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The name and the arguments of each server process: one a pool, more where a pool is too large for one."""
    in_service = scenario.patience is not None and scenario.patience.in_service
    for place, pool in enumerate(scenario.pools):
        for part, first in enumerate(range(1, pool.servers + 1, MAX_SERVERS)):
            name = f"servers-{pool.name}" + (f"-{part + 1}" if pool.servers > MAX_SERVERS else "")
            capacity = "inf" if math.isinf(pool.capacity) else str(int(pool.capacity))
            yield name, [
                "server", "--id", name, "--port", "0", "--pool", pool.name, "--pool-index", str(place),
                "--servers", str(min(MAX_SERVERS, pool.servers + 1 - first)), "--first", str(first),
                "--rate", repr(pool.rate), "--slots", str(pool.slots), "--capacity", capacity,
                "--seed", str(scenario.seed), "--time-unit-s", repr(scenario.time_unit_s),
                *(["--in-service"] if in_service else []), "--routers", ",".join(routers), "--end-with-parent",
            ]  # fmt: skip


async def _ready(cluster: Cluster, servers: int) -> None:
    """Wait until every server has posted what it has to post, and every router knows every server."""
    death = asyncio.ensure_future(cluster.death())
    ready = asyncio.ensure_future(_poll_ready(cluster, servers))
    try:
        await asyncio.wait((death, ready), timeout=READY_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        if death.done():
            raise death.result()
        if not ready.done():
            raise RunInvalid(
                "not_ready", f"the cluster is not ready after {READY_LIMIT_S:g} s: see the logs of its processes"
            )
        ready.result()
    finally:
        death.cancel()
        ready.cancel()


async def _poll_ready(cluster: Cluster, servers: int) -> None:
    async with open_session(5.0) as session:
        for url in [*cluster.servers, *cluster.routers]:
            # Only by asking does one learn of another process.
            while not await _is_ready(session, url, servers if url in cluster.routers else 1):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)


async def _is_ready(session: aiohttp.ClientSession, url: str, servers: int) -> bool:
    try:
        async with session.get(url + "/ready") as response:
            return response.status == 200 and (await response.json())["servers"] >= servers
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False
