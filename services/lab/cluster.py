"""The processes of a scenario on this machine, as an async context manager: whatever happens, they end."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from router.process.client import open_session
from services.lab.errors import RunInvalid
from services.lab.events import Rings
from services.lab.process import Process
from services.lab.relay import Relay
from services.lab.running import Running
from services.scenario import Scenario
from services.scenario_faults import HEARTBEAT_S
from services.scenario_processes import ServersProcess

READY_LIMIT_S = 30.0
POLL_S = 0.05


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        routers: Their URLs, in order. `servers`: those of the server processes.
        names: Of all processes by URL.
        running: What the lab has started, and may strike; `None`: the cluster was there before.
        relays: Between a router and a server process, where a fault of the scenario needs one.
        server_commands: How each server process is started, those included that are to be added.
        recorded: Whether its processes write event logs.
    """

    routers: list[str]
    servers: list[str]
    names: dict[str, str]
    running: Running | None = None
    relays: Mapping[tuple[str, str], Relay] = field(default_factory=dict)
    server_commands: Mapping[str, list[str]] = field(default_factory=dict)
    recorded: bool = False

    @property
    def processes(self) -> Sequence[Process]:
        """Those that the lab has started."""
        return self.running.processes if self.running else ()

    @property
    def logs(self) -> Mapping[str, int]:
        """How many event logs each process has begun so far, one for each time that it was started."""
        return dict(self.running.started) if self.running and self.recorded else {}

    async def death(self) -> RunInvalid:
        """Wait until one of its processes ends that nobody has asked to."""
        if self.running is None:
            await asyncio.Event().wait()
        assert self.running is not None
        return await self.running.death()


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
    running = Running(logs)
    relays: dict[tuple[str, str], Relay] = {}

    def with_logs(commands: Iterator[tuple[str, list[str]]]) -> dict[str, list[str]]:
        return {name: [*command, *(rings.options(name) if rings else [])] for name, command in commands}

    try:
        routers = await running.start_all(with_logs(router_commands(scenario, port)))
        for fault in scenario.timeline():
            if fault.between is not None and (pair := (fault.between[0], fault.between[1])) not in relays:
                relays[pair] = await Relay.start(running.urls[pair[0]])
        commands = with_logs(server_commands(scenario, running.urls, relays))
        first = {process.name for process in scenario.processes() if process.added_at is None}
        servers = await running.start_all({name: command for name, command in commands.items() if name in first})
        names = {url: name for name, url in running.urls.items()}
        cluster = Cluster(routers, servers, names, running, relays, commands, rings is not None)
        await _ready(cluster, scenario.servers_total)
        yield cluster
    finally:
        await running.close()
        for relay in relays.values():
            await relay.close()


def router_commands(scenario: Scenario, port: int = 0) -> Iterator[tuple[str, list[str]]]:
    """The name and the arguments of each router process."""
    for place, name in enumerate(scenario.router_names()):
        yield name, [
            "router", "--id", name, "--port", str(port + place if port else 0),
            "--policy", json.dumps(scenario.policy), "--seed", str(scenario.seed),
            "--time-unit-s", repr(scenario.time_unit_s), "--end-with-parent", *_watchful(scenario),
            *_upkeep(scenario),
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


def server_commands(
    scenario: Scenario, routers: Mapping[str, str], relays: Mapping[tuple[str, str], Relay]
) -> Iterator[tuple[str, list[str]]]:
    """The name and the arguments of each server process, those included that faults add."""
    for process in scenario.processes():
        name = process.name
        urls = [relays[router, name].url if (router, name) in relays else url for router, url in routers.items()]
        yield name, server_command(scenario, process, urls)


def server_command(scenario: Scenario, process: ServersProcess, routers: Iterable[str]) -> list[str]:
    """The arguments of a server process that dials these routers."""
    name, place, pool, first, servers, _ = process
    in_service = scenario.patience is not None and scenario.patience.in_service
    return [
        "server", "--id", name, "--port", "0", "--pool", pool.name, "--pool-index", str(place),
        "--servers", str(servers), "--first", str(first), "--rate", repr(pool.rate), "--slots", str(pool.slots),
        "--capacity", "inf" if math.isinf(pool.capacity) else str(int(pool.capacity)),
        "--seed", str(scenario.seed), "--time-unit-s", repr(scenario.time_unit_s),
        *(["--in-service"] if in_service else []), "--routers", ",".join(routers), "--end-with-parent",
        *_watchful(scenario),
    ]  # fmt: skip


def _watchful(scenario: Scenario) -> list[str]:
    """Where things go wrong, silent peers are asked sooner than usual, as the simulation has it."""
    return ["--set", f"heartbeat_s={HEARTBEAT_S}"] if scenario.faults else []


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
