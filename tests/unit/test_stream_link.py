"""The generator's stream to a router that does not keep to the protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from router.process.outbox import dial
from router.protocol.errors import TransportError
from router.protocol.stream import VERSION, Answer, Greeting, Request, encode, encode_greeting
from services.loadgen.client import links
from services.loadgen.client.ledger import Ledger
from services.loadgen.client.links import StreamLink
from services.loadgen.client.mended import MendedStream
from services.loadgen.workload import Workload

LIMIT_S = 10.0
GREETING = encode_greeting(Greeting(VERSION, "router-1", "boot"))

Talk = Callable[[web.WebSocketResponse], Awaitable[object]]


def a_ledger(jobs: int = 3) -> Ledger:
    return Ledger(Workload(np.zeros(jobs), np.zeros(jobs, int), np.ones(jobs), np.full(jobs, np.nan)))


def reasons(ledger: Ledger) -> list[str]:
    found = ledger.close(0.0, 1.0, 0.0)
    return [found.whys[why] for why in found.why]


def served(job: int) -> bytes:
    return encode([Answer(job, "served", "", "slow-1", "slow", "jsq", 0.0, 0.0, 1.0, False, False)], time.monotonic())


async def until(good: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not good():  # noqa: ASYNC110 - what is waited for is in another task
            await asyncio.sleep(0.01)


@asynccontextmanager
async def router(talk: Talk) -> AsyncIterator[tuple[aiohttp.ClientSession, str, asyncio.Queue[int | None]]]:
    """One that talks so on each stream; with its URL, and the codes with which streams were closed."""
    closed: asyncio.Queue[int | None] = asyncio.Queue()

    async def stream(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await talk(ws)
        async for _ in ws:
            pass
        closed.put_nowait(ws.close_code)
        return ws

    app = web.Application()
    app.router.add_get("/v1/stream", stream)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        yield session, str(server.make_url("")).rstrip("/"), closed


async def test_a_stream_without_a_greeting_is_closed() -> None:
    async with router(lambda ws: ws.send_bytes(b"\x90")) as (session, url, closed):
        with pytest.raises(TransportError, match="a stream begins with a map"):
            await StreamLink.connect(session, url, a_ledger(), "boot")
        assert await asyncio.wait_for(closed.get(), LIMIT_S) == aiohttp.WSCloseCode.OK


async def test_so_is_one_whose_greeting_does_not_come(monkeypatch) -> None:
    monkeypatch.setattr(links, "GREETING_LIMIT_S", 0.1)
    async with router(lambda ws: asyncio.sleep(0)) as (session, url, closed):
        with pytest.raises(TransportError, match="TimeoutError"):
            await StreamLink.connect(session, url, a_ledger(), "boot")
        assert await asyncio.wait_for(closed.get(), LIMIT_S) == aiohttp.WSCloseCode.OK


async def test_so_is_one_that_nobody_waits_for_any_more(monkeypatch) -> None:
    dialled = asyncio.Event()

    async def dial_and_tell(*args: Any, **more: Any) -> aiohttp.ClientWebSocketResponse:
        ws = await dial(*args, **more)
        dialled.set()
        return ws

    monkeypatch.setattr(links, "dial", dial_and_tell)
    async with router(lambda ws: asyncio.sleep(0)) as (session, url, closed):
        connecting = asyncio.create_task(StreamLink.connect(session, url, a_ledger(), "boot"))
        await asyncio.wait_for(dialled.wait(), LIMIT_S)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(connecting, LIMIT_S)
        assert await asyncio.wait_for(closed.get(), LIMIT_S) == aiohttp.WSCloseCode.OK


@pytest.mark.parametrize("stranger", [-1, 3, 10**18])
async def test_the_end_of_a_job_that_is_not_there_is_booked_on_no_other_and_cuts_the_stream(stranger: int) -> None:
    ends = iter([served(stranger), served(1)])

    async def talk(ws: web.WebSocketResponse) -> None:
        await ws.send_bytes(GREETING)
        if await ws.receive():
            await ws.send_bytes(next(ends))

    ledger = a_ledger()
    async with router(talk) as (session, url, closed):
        link = await MendedStream.connect(session, url, ledger, "boot")
        link.send([Request(0, 1.0, None)], time.monotonic())
        assert await asyncio.wait_for(closed.get(), LIMIT_S) == aiohttp.WSCloseCode.PROTOCOL_ERROR
        await until(lambda: link.is_up)
        link.send([Request(1, 1.0, None)], time.monotonic())
        await until(lambda: ledger.ended == 2)
        await link.close()
    assert (reasons(ledger), ledger.doubled) == (["link_lost", "", ""], 0)


async def test_what_reading_fails_on_is_told_once_and_the_stream_is_mended(monkeypatch, caplog) -> None:
    """Such a mistake would be ours. Closing does not tell it again."""
    frames = iter([b"not these", b""])

    async def talk(ws: web.WebSocketResponse) -> None:
        await ws.send_bytes(GREETING)
        if await ws.receive():
            await ws.send_bytes(next(frames))

    def decode(data: bytes) -> tuple[float, list[Answer]]:
        if data:
            raise ZeroDivisionError
        return 0.0, [Answer(1, "served", "", "slow-1", "slow", "jsq", 0.0, 0.0, 1.0, False, False)]

    monkeypatch.setattr(links, "decode_answers", decode)
    ledger = a_ledger()
    async with router(talk) as (session, url, closed):
        link = await MendedStream.connect(session, url, ledger, "boot")
        with caplog.at_level(logging.ERROR):
            link.send([Request(0, 1.0, None)], time.monotonic())
            assert await asyncio.wait_for(closed.get(), LIMIT_S) == aiohttp.WSCloseCode.INTERNAL_ERROR
        await until(lambda: link.is_up)
        link.send([Request(1, 1.0, None)], time.monotonic())
        await until(lambda: ledger.ended == 2)
        await link.close()
    assert reasons(ledger) == ["link_lost", "", ""]
    assert len(caplog.records) == 1 and f"router {url}" in caplog.text and "ZeroDivisionError" in caplog.text
