"""One router process and one server process with empty services: jobs per second over HTTP and over a stream.

Plain HTTP is compared with a straightforward proxy, on aiohttp's ordinary loop and on uvloop, with the same client, in
turns; and so are requests with a header field that keeps them off the router's fast path. Where other programs use the
machine too, jobs per second say little, and the processor time that each process needs for a job says more: it stands
beside.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import uvloop

from tests.bench.clients import http_rate, rare_http_rate, stream_rate
from tests.bench.plain import SERVERS
from tests.bench.table import Ratio

ROOT = Path(__file__).resolve().parents[2]
LASTS_S = 3.0
ROUNDS = 3
STREAM_TARGET = 20_000

Measure = Callable[[str, float], Coroutine[Any, Any, tuple[float, int]]]


@dataclass(frozen=True)
class Listening:
    """A process that listens."""

    url: str
    pid: int

    def cpu_s(self) -> float:
        """The processor time that it has used so far (Linux)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Contestant:
    """Whom the clients speak to first, and the server behind it."""

    front: Listening
    back: Listening


@dataclass(frozen=True)
class Speed:
    """Jobs per second, and the processor time a job of the two processes, in microseconds."""

    rate: float
    front_us: float
    back_us: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f} jobs/s ({self.front_us:.0f} + {self.back_us:.0f} µs/job)"


@contextmanager
def process(module: str, *arguments: str) -> Iterator[Listening]:
    """A process of ours, from when it listens to when it is gone."""
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout is not None
        url = None
        while url is None:
            line = child.stdout.readline()
            if not line:
                raise RuntimeError(f"{module} {' '.join(arguments)} has ended with exit code {child.wait()}")
            event = json.loads(line)
            url = event["url"] if event.get("event") == "listening" else None
        yield Listening(url, child.pid)
    finally:
        child.terminate()
        child.wait(timeout=30)
        assert child.stdout is not None
        child.stdout.close()


@contextmanager
def herdless(*, recorded: bool = False) -> Iterator[Contestant]:
    """A router with `pull`, and a process of as many servers as the plain proxy has; with event logs or without."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        logs = [["--events", f"{folder}/{name}"] if recorded else [] for name in ("router", "server")]
        pool = ("--pool", "a", "--servers", str(SERVERS))
        router = stack.enter_context(process("services.cli", "router", "--policy", "pull", "--port", "0", *logs[0]))
        server = stack.enter_context(process("services.cli", "server", *pool, "--routers", router.url, *logs[1]))
        messages = 0
        while messages < SERVERS:
            time.sleep(0.1)
            with urlopen(f"{router.url}/v1/servers") as answer:
                messages = sum(known["pull_messages"] for known in json.load(answer)["servers"])
        yield Contestant(router, server)


@contextmanager
def plain(loop: str) -> Iterator[Contestant]:
    """The plain proxy and its server."""
    with (
        process("tests.bench.plain", loop, "server") as server,
        process("tests.bench.plain", loop, "proxy", server.url) as proxy,
    ):
        yield Contestant(proxy, server)


def speed(runner: asyncio.Runner, contestant: Contestant, measure: Measure) -> Speed:
    """One measurement."""
    front, back = contestant.front, contestant.back
    before = front.cpu_s(), back.cpu_s()
    rate, jobs = runner.run(measure(front.url, LASTS_S))
    front_us, back_us = (
        (end - start) / jobs * 1e6 for start, end in zip(before, (front.cpu_s(), back.cpu_s()), strict=True)
    )
    return Speed(rate, front_us, back_us)


def typical(speeds: list[Speed]) -> Speed:
    """The median of each number."""
    return Speed(*(median(getattr(one, name) for one in speeds) for name in ("rate", "front_us", "back_us")))


def ratios() -> list[Ratio]:
    """HTTP: ours over the plain proxy, on either loop, and off the fast path. Stream: over the target."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        ordinary, fast = (stack.enter_context(plain(loop)) for loop in ("asyncio", "uvloop"))
        ours, recorded = (stack.enter_context(herdless(recorded=each)) for each in (False, True))
        turns = (ours, http_rate), (ours, rare_http_rate), (ordinary, http_rate), (fast, http_rate)
        speeds = [[speed(runner, *turn) for turn in turns] for _ in range(ROUNDS)]
        streams = [[speed(runner, each, stream_rate) for each in (ours, recorded)] for _ in range(ROUNDS)]
    http, rare, on_asyncio, on_uvloop = (typical(list(of_one)) for of_one in zip(*speeds, strict=True))
    stream, logged = (typical(list(of_one)) for of_one in zip(*streams, strict=True))
    return [
        Ratio("HTTP: router / plain proxy", http.rate / on_asyncio.rate, ">= 2.5", str(http), str(on_asyncio)),
        Ratio("HTTP: router / the same on uvloop", http.rate / on_uvloop.rate, "", str(http), str(on_uvloop)),
        Ratio("HTTP: off the fast path / plain proxy", rare.rate / on_asyncio.rate, "", str(rare), str(on_asyncio)),
        Ratio("stream / target", stream.rate / STREAM_TARGET, ">= 1", str(stream), f"{STREAM_TARGET:,} jobs/s"),
        Ratio("stream: with event logs / without", logged.rate / stream.rate, "", str(logged), str(stream)),
    ]
