"""A cluster that is the console's own: it may be killed in parts, and it may grow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from router.protocol.errors import SettingsError
from services.console.journal import Kind
from services.lab.cluster import Cluster, server_command, start_cluster
from services.lab.errors import RunInvalid
from services.lab.faults import Timeline
from services.lab.process import Process, stop_all
from services.lab.scrape import Scraper
from services.scenario import Scenario
from services.scenario_faults import Fault
from services.scenario_processes import ServersProcess

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
        # Numbers of servers that faults add are theirs.
        self._next = {process.pool.name: process.first + process.servers for process in scenario.processes()}
        self._cluster = cluster
        self._faults: asyncio.Task[None] | None = None
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

    def start_faults(self) -> None:
        """Let the faults of the scenario happen, from now on."""
        if self._scenario.timeline():
            nobody = Scraper([], [])
            timeline = Timeline(self._scenario, self._cluster, nobody, time.monotonic(), self._has_happened)
            self._faults = asyncio.create_task(self._run(timeline))

    async def add(self, pool: str, servers: int) -> str:
        """Start so many servers of a pool, in a process of their own; return its name.

        Raises:
            SettingsError: There is no such pool. `RunInvalid`: they did not start.
        """
        scenario = self._scenario
        places = {each.name: place for place, each in enumerate(scenario.pools)}
        if pool not in places:
            raise SettingsError(f"pool {pool}: expected one of {', '.join(places)}")
        first = self._next[pool]
        self._next[pool] += servers
        name = f"servers-{pool}-from-{first}"
        process = ServersProcess(name, places[pool], scenario.pools[places[pool]], first, servers, None)
        self._servers[await self._start(name, server_command(scenario, process, self._routers))] = name
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
        if self._faults is not None:
            self._faults.cancel()
            await asyncio.wait([self._faults])
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

    async def _run(self, timeline: Timeline) -> None:
        try:
            await timeline.run()
        except RunInvalid as error:
            self.tell("problem", str(error).splitlines()[0])

    def _has_happened(self, fault: Fault) -> None:
        """Note a fault, and whom it has brought back or added."""
        running = self._cluster.running
        assert running is not None
        self.tell("fault", fault.words)
        for process in running.processes:
            listens = process.name in running.urls and process.exit_code is None
            if listens and process.name not in self._processes:
                group = self._routers if process.name in self._scenario.router_names() else self._servers
                group[running.urls[process.name]] = process.name
                self._processes[process.name] = process
                self._waits[process.name] = asyncio.create_task(self._await_end(process))

    async def _await_end(self, process: Process) -> None:
        death = await process.death()
        for group in (self._routers, self._servers, self._generators):
            for url in [url for url, name in group.items() if name == process.name]:
                del group[url]
        self._processes.pop(process.name, None)
        self._waits.pop(process.name, None)
        if self._cluster.running is not None and self._cluster.running.was_asked(process):
            return  # a fault of the scenario, which may bring it back
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
