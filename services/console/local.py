"""A cluster that is the console's own: it may be killed in parts, and it may grow."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from router.protocol.errors import SettingsError
from services.console.journal import Kind
from services.lab.cluster import Cluster, start_cluster
from services.lab.errors import RunInvalid
from services.lab.process import Process, stop_all
from services.scenario import Scenario

Tell = Callable[[Kind, str], object]


class LocalCluster:
    """Processes of this machine, with what has been added and without what has ended.

    Args:
        scenario: What was started.
        cluster: Its routers and servers.
        logs: The folder for standard errors.

    Attributes:
        tell: Called when a process has ended unasked.
    """

    def __init__(self, scenario: Scenario, cluster: Cluster, logs: Path) -> None:
        self.tell: Tell = lambda kind, text: None
        self._scenario = scenario
        self._logs = logs
        self._routers = {url: cluster.names[url] for url in cluster.routers}
        self._servers = {url: cluster.names[url] for url in cluster.servers}
        self._generators: dict[str, str] = {}
        self._processes = {process.name: process for process in cluster.processes}
        self._added: list[Process] = []
        self._next = {pool.name: pool.servers + 1 for pool in scenario.pools}
        self._no_router: asyncio.Future[RunInvalid] = asyncio.get_running_loop().create_future()
        self._waits = {process.name: asyncio.create_task(self._await_end(process)) for process in cluster.processes}

    async def routers(self) -> Sequence[str]:
        """URLs of the routers."""
        return list(self._routers)

    async def servers(self) -> Sequence[str]:
        """URLs of the server processes."""
        return list(self._servers)

    async def generators(self) -> Sequence[str]:
        """URLs of the generators."""
        return list(self._generators)

    def name(self, url: str) -> str:
        """What a process is called; one that has ended, its address."""
        return self._routers.get(url) or self._servers.get(url) or self._generators.get(url) or url

    async def start_load(self, file: Path) -> None:
        """Start an endless generator.

        Args:
            file: The scenario that it sends.

        Raises:
            RunInvalid: It did not start.
        """
        command = ["load", str(file), "--endless", "--routers", ",".join(self._routers), "--end-with-parent"]
        url, name = await self._start("load", command), "load"
        self._generators[url] = name

    async def add(self, pool: str, servers: int) -> str:
        """Start so many servers of a pool, in a process of their own; return its name.

        Raises:
            SettingsError: There is no such pool. `RunInvalid`: they did not start.
        """
        scenario = self._scenario
        places = {each.name: place for place, each in enumerate(scenario.pools)}
        if pool not in places:
            raise SettingsError(f"pool {pool}: expected one of {', '.join(places)}")
        each, first = scenario.pools[places[pool]], self._next[pool]
        self._next[pool] += servers
        name = f"servers-{pool}-from-{first}"
        patient = scenario.patience is not None and scenario.patience.in_service
        command = [
            "server", "--id", name, "--pool", pool, "--pool-index", str(places[pool]), "--servers", str(servers),
            "--first", str(first), "--rate", repr(each.rate), "--slots", str(each.slots),
            "--capacity", "inf" if math.isinf(each.capacity) else str(int(each.capacity)),
            "--seed", str(scenario.seed), "--time-unit-s", repr(scenario.time_unit_s),
            *(["--in-service"] if patient else []), "--routers", ",".join(self._routers), "--end-with-parent",
        ]  # fmt: skip
        self._servers[await self._start(name, command)] = name
        return name

    async def kill(self, url: str) -> str:
        """End a server process at once; return its name."""
        name = self._servers.pop(url)
        self._waits.pop(name).cancel()
        await self._processes.pop(name).stop(limit_s=0.0)
        return name

    async def no_router(self) -> RunInvalid:
        """Wait until the last router has ended."""
        return await self._no_router

    async def close(self) -> None:
        """End what was added."""
        for wait in self._waits.values():
            wait.cancel()
        await stop_all(self._added)

    async def _start(self, name: str, command: Sequence[str]) -> str:
        process = await Process.start(name, command, self._logs / f"{name}.log")
        self._added.append(process)
        url = await process.listening()
        self._processes[name] = process
        self._waits[name] = asyncio.create_task(self._await_end(process))
        return url

    async def _await_end(self, process: Process) -> None:
        death = await process.death()
        for group in (self._routers, self._servers, self._generators):
            for url in [url for url, name in group.items() if name == process.name]:
                del group[url]
        self._processes.pop(process.name, None)
        self._waits.pop(process.name, None)
        self.tell("problem", str(death).splitlines()[0])
        if not self._routers and not self._no_router.done():
            self._no_router.set_result(death)


@asynccontextmanager
async def start_local(scenario: Scenario, logs: Path, *, port: int = 0) -> AsyncIterator[LocalCluster]:
    """Start all routers and servers of a scenario; end them, and all that was added, on leaving.

    Args:
        scenario: What to start.
        logs: The folder for standard errors; it is there.
        port: Of the first router; the others take the next ones. 0: any free ones.

    Raises:
        RunInvalid: One of them died, or they did not get ready in time.
    """
    async with start_cluster(scenario, logs, port=port) as cluster:
        local = LocalCluster(scenario, cluster, logs)
        try:
            yield local
        finally:
            await local.close()
