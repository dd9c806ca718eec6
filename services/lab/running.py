"""The processes of a run by name: started, struck, started again. Whatever happens, they end with it."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.lab.errors import RunInvalid
from services.lab.process import Process, stop_all


class Running:
    """Processes that listen, and what is done to them.

    Args:
        logs: The folder for their standard errors; it is there.

    Attributes:
        urls: Where each listens, or listened last. `started`: how often each has begun to.
    """

    def __init__(self, logs: Path) -> None:
        self.urls: dict[str, str] = {}
        self.started: Counter[str] = Counter()
        self._logs = logs
        self._commands: dict[str, Sequence[str]] = {}
        self._processes: dict[str, Process] = {}
        self._incarnations: dict[str, int] = {}
        self._asked: set[Process] = set()
        self._stopped: set[str] = set()
        self._watches: set[asyncio.Task[None]] = set()
        self._death: asyncio.Future[RunInvalid] = asyncio.get_running_loop().create_future()

    def __getitem__(self, name: str) -> Process:
        return self._processes[name]

    @property
    def processes(self) -> list[Process]:
        """The latest incarnation of each, those included that have ended."""
        return list(self._processes.values())

    def is_up(self, name: str) -> bool:
        """Whether it runs, and does not stand still."""
        return self._processes[name].exit_code is None and name not in self._stopped

    def next_log(self, name: str) -> Path:
        """The file of standard error of its next incarnation."""
        number = self._incarnations.get(name, 0) + 1
        return self._logs / (f"{name}.log" if number == 1 else f"{name}.{number}.log")

    def was_asked(self, process: Process) -> bool:
        """Whether somebody has asked it to end."""
        return process in self._asked

    async def start(self, name: str, command: Sequence[str]) -> str:
        """Start a process and wait until it listens; return its URL.

        Raises:
            RunInvalid: It ended before, or says nothing for too long.
        """
        [url] = await self.start_all({name: command})
        return url

    async def start_all(self, commands: Mapping[str, Sequence[str]]) -> list[str]:
        """Start processes at the same time, and wait until all of them listen; return their URLs."""
        for name, command in commands.items():
            log = self.next_log(name)
            self._commands[name] = command
            self._incarnations[name] = self._incarnations.get(name, 0) + 1
            self._processes[name] = process = await Process.start(name, command, log)
            watch = asyncio.create_task(self._watch(process))
            self._watches.add(watch)
            watch.add_done_callback(self._watches.discard)
        urls = await asyncio.gather(*(self._processes[name].listening() for name in commands))
        self.urls.update(zip(commands, urls, strict=True))
        self.started.update(list(commands))
        return list(urls)

    async def death(self) -> RunInvalid:
        """Wait until one of them ends that nobody has asked to."""
        return await asyncio.shield(self._death)

    async def close(self) -> None:
        """End all of them."""
        self._asked.update(self._processes.values())
        await stop_all(self.processes)
        for watch in list(self._watches):
            watch.cancel()

    # -- what may be done to them -------------------------------------------------------------

    async def kill(self, name: str) -> None:
        """End it at once; it is gone when this returns."""
        process = self._processes[name]
        self._asked.add(process)
        process.signal(signal.SIGKILL)
        self._stopped.discard(name)
        await process.stop()

    async def restart(self, name: str, command: Sequence[str] | None = None) -> None:
        """Start it again under its name and at its address, as a new incarnation; it is killed if it is alive.

        Args:
            name: Which one.
            command: Its new command line; left out: the former one.
        """
        await self.kill(name)
        port = self.urls[name].rpartition(":")[2]
        await self.start(name, _at_port(command or self._commands[name], port))

    def drain(self, name: str) -> None:
        """Ask it to finish what it has, and to end."""
        self._asked.add(self._processes[name])
        self._stopped.discard(name)
        self._processes[name].terminate()

    def hang(self, name: str) -> None:
        """Let it stand still."""
        self._stopped.add(name)
        self._processes[name].signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        self._stopped.discard(name)
        self._processes[name].signal(signal.SIGCONT)

    async def _watch(self, process: Process) -> None:
        await process.ended()
        if process not in self._asked and not self._death.done():
            self._death.set_result(await process.death())


def _at_port(command: Sequence[str], port: str) -> list[str]:
    place = list(command).index("--port") + 1
    return [*command[:place], port, *command[place + 1 :]]
