"""The generator as a process: it tells on standard output, in lines of JSON, how it gets on."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from router.process.client import open_session
from router.process.identity import make_identity
from router.process.serve import end_with_parent
from router.process.serve import run as run_loop
from services.loadgen.client.generator import Generator
from services.loadgen.client.ledger import Ledger
from services.loadgen.client.links import HttpLink, RouterLink
from services.loadgen.client.mended import MendedStream
from services.loadgen.client.result import Generation, save
from services.loadgen.workload import Workload

PROGRESS_S = 0.5


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What a generator does.

    Attributes:
        workload: The jobs; `routers` are places in the list below.
        routers: URLs.
        time_unit_s: Seconds in a time unit.
        out: Where the records go; `None`: nowhere.
        http: One HTTP request a job instead of streams.
        drain_limit_s: How long to wait for answers after the last job is sent.
        end_with_parent: End when standard input ends.
    """

    workload: Workload
    routers: Sequence[str]
    time_unit_s: float
    out: Path | None = None
    http: bool = False
    drain_limit_s: float = 60.0
    end_with_parent: bool = False


def run(settings: LoadSettings) -> int:
    """Send the workload, wait for the ends, write the records; return the exit code 0.

    Raises:
        TransportError: A router cannot be reached at the start.
    """
    return run_loop(lambda: _run(settings))


async def _run(settings: LoadSettings) -> int:
    if settings.end_with_parent:
        end_with_parent()
    generation = await generate(settings)
    _keep(settings, generation)
    records = generation.records
    _tell(
        event="done",
        jobs=len(records.intended),
        ended=int((records.outcome >= 0).sum()),
        lateness_p99_units=generation.lateness_p99_units,
        cpu_share=generation.cpu_share,
        out=None if settings.out is None else str(settings.out),
    )
    return 0


async def generate(settings: LoadSettings) -> Generation:
    """Send the workload and wait until each job has its end; those without one in time fail as `link_lost`.

    Told to end before that, it writes down what it knows by then: jobs that are under way have no end.
    """
    ledger = Ledger(settings.workload)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        links = await _connect(session, settings, ledger)
        for link in links:
            stack.push_async_callback(link.close)
        generator = Generator(settings.workload, links, ledger, settings.time_unit_s)
        _tell(event="started", start_s=generator.start_s, jobs=len(ledger))
        teller = asyncio.create_task(_tell_progress(ledger))
        stack.callback(teller.cancel)
        used_s = time.process_time()

        def share() -> float:
            return (time.process_time() - used_s) / max(time.monotonic() - generator.start_s, 1e-9)

        try:
            await generator.send_all()
            sending = share()
            # What the links still owe after the limit is booked as lost when they close.
            with suppress(TimeoutError):
                await asyncio.wait_for(ledger.all_ended.wait(), settings.drain_limit_s)
        except asyncio.CancelledError:
            _keep(settings, ledger.close(generator.start_s, settings.time_unit_s, share()))
            raise
    return ledger.close(generator.start_s, settings.time_unit_s, sending)


def _keep(settings: LoadSettings, generation: Generation) -> None:
    if settings.out is not None:
        save(settings.out, generation)


async def _connect(session: aiohttp.ClientSession, settings: LoadSettings, ledger: Ledger) -> list[RouterLink]:
    if settings.http:
        return list(await asyncio.gather(*(HttpLink.connect(session, url, ledger) for url in settings.routers)))
    boot = make_identity("generator").boot
    return list(await asyncio.gather(*(MendedStream.connect(session, url, ledger, boot) for url in settings.routers)))


async def _tell_progress(ledger: Ledger) -> None:
    while True:
        _tell(event="progress", sent=ledger.sent, ended=ledger.ended, jobs=len(ledger))
        await asyncio.sleep(PROGRESS_S)


def _tell(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()
