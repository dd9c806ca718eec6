"""What goes wrong in a live run: the faults of its scenario happen to processes and links, beside the generator."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import aiohttp

from router.process.client import open_session
from server.core import Disturbed
from services.lab.cluster import Cluster
from services.lab.errors import RunInvalid
from services.lab.scrape import Scraper
from services.scenario import Scenario
from services.scenario_faults import Fault

TELL_LIMIT_S = 5.0


class Timeline:
    """Lets the faults of a scenario happen when they are due.

    Rule: those that strike one process happen one after the other. A process that is started again needs a while until
    it listens; the simulation of the same jobs is given the instants at which things were so.

    Units: `at` of faults in time units from the start of the schedule.

    Args:
        scenario: What happens.
        cluster: To whom; the lab has started it.
        scraper: Told who cannot be read.
        start_s: The schedule's 0 on the monotonic clock.
        tell: Told each fault when it has happened.

    Attributes:
        happened: The faults as they happened, with their real instants; none that found nobody, or changed nothing.
    """

    def __init__(
        self,
        scenario: Scenario,
        cluster: Cluster,
        scraper: Scraper,
        start_s: float,
        tell: Callable[[Fault], object] = lambda fault: None,
    ) -> None:
        assert cluster.running is not None
        self.happened: list[Fault] = []
        self._scenario = scenario
        self._cluster = cluster
        self._running = cluster.running
        self._scraper = scraper
        self._start_s = start_s
        self._tell_of = tell
        self._over = False
        self._session: aiohttp.ClientSession
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._disturbed: dict[str, Disturbed] = {}
        self._servers = {spec.id: process.name for process in scenario.processes() for spec in process.specs()}
        self._additions = iter([process.name for process in scenario.processes() if process.added_at is not None])

    async def run(self) -> None:
        """Let everything happen; at the end of the schedule, mend what can be mended, so that all that is left can end.

        Raises:
            RunInvalid: A process could not be started again.
        """
        try:
            async with open_session(TELL_LIMIT_S) as self._session, asyncio.TaskGroup() as strikes:
                for fault in self._scenario.timeline():
                    await self._sleep_until(fault.at)
                    strikes.create_task(self._in_turn(fault))
                await self._sleep_until(self._scenario.horizon)
                strikes.create_task(self._mend())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _sleep_until(self, at: float) -> None:
        await asyncio.sleep(self._start_s + at * self._scenario.time_unit_s - time.monotonic())

    async def _in_turn(self, fault: Fault) -> None:
        whom = next(self._additions) if fault.kind == "add" else fault.target or ""
        async with self._turns[self._servers.get(whom, whom)]:
            if self._over:  # what went before it took so long: nobody would mend it
                return
            if fault.between is not None:
                self._strike_link(fault)
            elif fault.kind == "add":
                await self._add(whom, fault)
            elif whom in self._servers:
                await self._strike_server(whom, fault)
            else:
                await self._strike_process(whom, fault)

    def _note(self, fault: Fault, kind: str = "") -> None:
        """It is so now."""
        at = (time.monotonic() - self._start_s) / self._scenario.time_unit_s
        at = min(max(at, 0.0), self._scenario.horizon)
        self.happened.append(fault.model_copy(update={"at": at, "kind": kind or fault.kind}))
        self._tell_of(self.happened[-1])

    # -- links --------------------------------------------------------------------------------

    def _strike_link(self, fault: Fault) -> None:
        assert fault.between is not None
        relay = self._cluster.relays[fault.between[0], fault.between[1]]
        match fault.kind:
            case "cut" if fault.half_open:
                relay.silence()
            case "cut":
                relay.cut()
            case "delay":
                relay.delay_s = (fault.delay or 0.0) * self._scenario.time_unit_s
            case _:
                relay.heal()
        self._note(fault)

    # -- processes ----------------------------------------------------------------------------

    async def _strike_process(self, name: str, fault: Fault) -> None:
        running, scraper = self._running, self._scraper
        url = running.urls[name]
        match fault.kind:
            case "kill":
                await self._kill(name, fault)
            case "restart":
                await self._kill(name, fault)
                await running.restart(name)
                scraper.begins_anew(url)
                self._note(fault)
            case "drain" if running[name].exit_code is None and not running.was_asked(running[name]):
                scraper.struck.add(url)
                running.drain(name)  # one that stood still goes on, and is read until its end
                scraper.silent.discard(url)
                self._note(fault)
            case "hang" if running.is_up(name):
                await scraper.farewell(url)
                running.hang(name)
                self._note(fault)
            case "resume":
                stood_still = running[name].exit_code is None and not running.is_up(name)
                if stood_still:
                    running.resume(name)
                    scraper.silent.discard(url)
                if await self._tell_all(name, fault) or stood_still:
                    self._note(fault)
            case "slow" | "fail":
                if await self._tell_all(name, fault):
                    self._note(fault)

    async def _kill(self, name: str, fault: Fault) -> None:
        running, url = self._running, self._running.urls[name]
        if running[name].exit_code is None:
            if running.is_up(name):
                await self._scraper.farewell(url)
            await running.kill(name)
            self._note(fault, "kill")
        self._scraper.silent.add(url)
        for server in [server for server, process in self._servers.items() if process == name]:
            self._disturbed.pop(server, None)

    async def _add(self, name: str, fault: Fault) -> None:
        cluster = self._cluster
        url = await self._running.start(name, cluster.server_commands[name])
        if url in cluster.names:  # it was given the port of one that is gone
            self._scraper.begins_anew(url)
        else:
            cluster.servers.append(url)
        cluster.names[url] = name
        self._note(fault)

    # -- servers ------------------------------------------------------------------------------

    async def _strike_server(self, server: str, fault: Fault) -> None:
        if await self._tell(server, fault):
            self._note(fault)

    async def _tell_all(self, name: str, fault: Fault) -> bool:
        servers = [server for server, process in self._servers.items() if process == name]
        return any(await asyncio.gather(*(self._tell(server, fault) for server in servers)))

    async def _tell(self, server: str, fault: Fault) -> bool:
        """Tell a server how to misbehave; False: it does already, or is dead, ends, stands still: it cannot be told."""
        before = self._disturbed.get(server, Disturbed())
        match fault.kind:
            case "slow":
                how = before._replace(slow=fault.factor or 1.0)
            case "fail":
                how = before._replace(failing=True)
            case "hang":
                how = before._replace(hung=True)
            case _:
                how = Disturbed()
        return await self._disturb(server, how)

    async def _disturb(self, server: str, how: Disturbed) -> bool:
        name = self._servers[server]
        if how == self._disturbed.get(server, Disturbed()) or not self._running.is_up(name):
            return False
        url = f"{self._running.urls[name]}/v1/servers/{server}/disturbance"
        try:
            async with self._session.put(url, json=how._asdict()) as response:
                response.raise_for_status()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            # One that was asked to end closes its port while it still runs.
            if self._running.was_asked(self._running[name]) or not self._running.is_up(name):
                return False
            raise RunInvalid("unreachable", f"{url}: {type(error).__name__}: does {name} still run?") from None
        self._disturbed[server] = how
        return True

    # -- the end ------------------------------------------------------------------------------

    async def _mend(self) -> None:
        """Mend what can be mended; what is being done to a process is done first, and nothing after it."""
        self._over = True
        for relay in self._cluster.relays.values():
            relay.heal()
        await asyncio.gather(*(self._mend_process(name, url) for name, url in self._running.urls.items()))

    async def _mend_process(self, name: str, url: str) -> None:
        async with self._turns[name]:
            if self._running[name].exit_code is None and not self._running.is_up(name):
                self._running.resume(name)
            if self._running.is_up(name):
                self._scraper.silent.discard(url)
            for server in [server for server in self._disturbed if self._servers[server] == name]:
                await self._disturb(server, Disturbed())
