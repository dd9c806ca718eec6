"""One process that the lab has started: what it says, how it ends, and that it does end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import services
from services.lab.errors import RunInvalid

EXIT_USER_MISTAKE = 2
START_LIMIT_S = 30.0
TERM_LIMIT_S = 5.0
TAIL_LINES = 12

# Where the packages are, so that `-m` finds them wherever the command was typed and with PYTHONSAFEPATH set.
_CODE = str(Path(services.__file__).parents[1])


class Process:
    """A process of the product's own command line; create it by `start`.

    It has a pipe as standard input, so that it ends with this process however this one ends, and a session of its
    own, so that Ctrl-C in a terminal reaches only the lab, which then ends its processes in order.

    Attributes:
        name: What it is called in messages. `log`: its standard error.
    """

    def __init__(self, name: str, child: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._child = child

    @classmethod
    async def start(cls, name: str, arguments: Sequence[str], log: Path, *, listen: bool = True) -> Process:
        """Start `herdless ARGUMENTS`.

        Args:
            name: What to call it.
            arguments: Of the command line.
            log: The file that takes its standard error.
            listen: Whether its standard output is read.
        """
        # What HERDLESS_SET changes is in the scenario already that the processes are given.
        env = {name: value for name, value in os.environ.items() if name != "HERDLESS_SET"}
        path = [_CODE, *filter(None, [env.get("PYTHONPATH")])]
        with log.open("wb") as errors:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "services.cli", *arguments,
                stdin=PIPE, stdout=PIPE if listen else DEVNULL, stderr=errors, start_new_session=True,
                env={**env, "PYTHONPATH": os.pathsep.join(path)},
            )  # fmt: skip
        return cls(name, child, log)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """`None` while it runs."""
        return self._child.returncode

    async def says(self) -> dict[str, Any] | None:
        """The next line of JSON on its standard output; `None` when there is no more."""
        assert self._child.stdout is not None
        while line := await self._child.stdout.readline():
            with suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    return value
        return None

    async def listening(self) -> str:
        """The URL at which it listens.

        Raises:
            RunInvalid: It ended before, or says nothing for too long.
        """
        try:
            async with asyncio.timeout(START_LIMIT_S):
                while (line := await self.says()) is not None:
                    if line.get("event") == "listening":
                        return str(line["url"])
                raise await self.death()
        except TimeoutError:
            raise RunInvalid("not_ready", f"{self.name} has not listened within {START_LIMIT_S:g} s") from None

    async def death(self) -> RunInvalid:
        """Wait for its end; return what to say about it."""
        code = await self._child.wait()
        tail = self.tail()
        if "the port is in use" in tail:
            return RunInvalid("port_in_use", tail.splitlines()[-1])
        return RunInvalid("process_died", f"{self.name} died with exit code {code}" + (f": {tail}" if tail else ""))

    async def ended(self) -> int:
        """Wait for its end; return the exit code."""
        return await self._child.wait()

    def tail(self) -> str:
        """The last lines of its standard error."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-TAIL_LINES:])

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self._child.returncode is None:
            # Not the child's own `send_signal`: that looks whether it has ended, and so takes its exit code away
            # from whoever waits for it.
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, number)

    def terminate(self) -> None:
        """Ask it to end; one that was stopped goes on first, or it would not hear."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)

    async def stop(self, limit_s: float = TERM_LIMIT_S) -> None:
        """End it: SIGTERM, and after `limit_s` SIGKILL; it is gone when this returns."""
        self.terminate()
        try:
            await asyncio.wait_for(self._child.wait(), limit_s)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()


async def stop_all(processes: Sequence[Process], limit_s: float = TERM_LIMIT_S) -> None:
    """End all of them at the same time; nothing, not even a cancellation, leaves one behind."""
    if processes:
        stopping = asyncio.ensure_future(asyncio.gather(*(process.stop(limit_s) for process in processes)))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            await stopping
            raise
