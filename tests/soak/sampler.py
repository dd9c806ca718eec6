"""Looks at processes every few seconds: memory, open files, threads and tasks."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp

from services.lab.running import Running

_TASKS = re.compile(r"^herdless_process_tasks (\S+)$", re.MULTILINE)
_ASK_LIMIT_S = 2.0
GENERATOR = "generator"


class Sample(NamedTuple):
    """One look at one process.

    Attributes:
        at_s: When, on the monotonic clock.
        name: Of the process. `pid`: which of its incarnations.
        private: Bytes of memory that it has for itself, swapped ones included: without files that are mapped.
        resident: Bytes of all that it has in memory. `unique`: those of them that no other process shares.
        files: Open ones. `threads`: how many. `tasks`: of asyncio; nan: it did not say.
    """

    at_s: float
    name: str
    pid: int
    private: int
    resident: int
    unique: int
    files: int
    threads: int
    tasks: float


async def sample_on(running: Running, every_s: float, samples: list[Sample]) -> None:
    """Look at all processes of a run, and at its generator, again and again, until cancelled."""
    # A connection that stayed would be one more open file, at some times.
    connector = aiohttp.TCPConnector(force_close=True)
    limit = aiohttp.ClientTimeout(total=_ASK_LIMIT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
        due_s = time.monotonic()
        while True:
            alive = {process.pid: process.name for process in running.processes if process.exit_code is None}
            names = {**alive, **{pid: GENERATOR for pid in _children() if _is_generator(pid)}}
            found = [_look(name, pid) for pid, name in names.items()]
            urls = {pid: running.urls[name] for pid, name in alive.items() if name in running.urls}
            tasks = dict(zip(urls, await asyncio.gather(*(_tasks(session, url) for url in urls.values())), strict=True))
            samples.extend(each._replace(tasks=tasks.get(each.pid, float("nan"))) for each in found if each)
            due_s = max(due_s + every_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())


def _children() -> list[int]:
    """Processes that this one has started."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def _is_generator(pid: int) -> bool:
    with suppress(OSError):
        return b"load" in Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
    return False


def _look(name: str, pid: int) -> Sample | None:
    """One look; `None`: it has just ended."""
    place = Path("/proc", str(pid))
    try:
        memory = kib_of((place / "smaps_rollup").read_text())
        files = len(os.listdir(place / "fd"))
        threads = len(os.listdir(place / "task"))
    except OSError:
        return None
    if "Rss" not in memory:
        return None
    private = memory["Anonymous"] + memory.get("Swap", 0)
    unique = memory["Private_Clean"] + memory["Private_Dirty"]
    return Sample(time.monotonic(), name, pid, private << 10, memory["Rss"] << 10, unique << 10, files, threads,
                  float("nan"))  # fmt: skip


def kib_of(text: str) -> dict[str, int]:
    """The fields of a file like /proc/PID/smaps_rollup, in KiB."""
    return {name: int(kib) for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}


async def _tasks(session: aiohttp.ClientSession, url: str) -> float:
    with suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with session.get(f"{url}/metrics") as response:
            found = _TASKS.search(await response.text())
            return float(found[1]) if found else float("nan")
    return float("nan")
