"""What several cases do, and wait for."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tests.chaos import firewall
from tests.chaos.case import B
from tests.chaos.load import Job
from tests.chaos.stage import PROCESSES, Stage


@asynccontextmanager
async def disturbed(stage: Stage, **how: Any) -> AsyncIterator[None]:
    """One server misbehaves meanwhile."""
    path = "/v1/servers/slow-6/disturbance"
    await stage.put(B, path, how)
    try:
        yield
    finally:
        await stage.put(B, path, {})


@contextmanager
def partition(stage: Stage, router: str, processes: tuple[str, ...], *ways: Any) -> Iterator[None]:
    """Nothing passes meanwhile: packets are dropped where that may be done, else the relay keeps everything back."""
    relays = [stage.relays[router, process] for process in processes]
    try:
        for relay in relays:
            port = int(relay.url.rpartition(":")[2])
            if not firewall.is_private():
                relay.silence(*ways)
            elif "there" in ways:
                firewall.drop(to_port=port)
            if firewall.is_private() and "back" in ways:
                firewall.drop(from_port=port)
        yield
    finally:
        if firewall.is_private():
            firewall.let_pass()
        else:
            for relay in relays:
                relay.heal()


@contextmanager
def full_pipe(stage: Stage, name: str) -> Iterator[None]:
    """The next incarnation of a process has a pipe as its log that is full, and that nobody reads."""
    log = stage.running.next_log(name)
    os.mkfifo(log)
    pipe = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    try:
        try:
            while True:
                os.write(pipe, b"-" * 4096)
        except BlockingIOError:
            pass
        yield
    finally:
        os.close(pipe)


async def until_links(stage: Stage, links: int, within_s: float, *processes: str) -> None:
    """Wait until these server processes (none named: all) have so many links."""

    async def holds() -> bool:
        there = [await stage.get(process, "/ready") for process in processes or PROCESSES]
        return all(each["links_up"] == links for each in there)

    await stage.until(holds, within_s, f"{links} links of each server process")


async def nothing_under_way(stage: Stage) -> bool:
    return not stage.load.under_way()


async def all_ended(jobs: list[Job]) -> bool:
    return all(job.outcome for job in jobs)


async def total(stage: Stage, names: tuple[str, ...], metric: str) -> float:
    return sum([(await stage.samples(name)).total(metric) for name in names])
