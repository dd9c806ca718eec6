"""The generator's stream to a router that comes and goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from router.protocol.stream import VERSION, Answer, Greeting, Request, decode_requests, encode, encode_greeting
from services.loadgen.client.mended import MendedStream

LIMIT_S = 10.0


class Ends:
    """A book that only remembers."""

    def __init__(self) -> None:
        self.one_clock, self.delay_s, self.delays = True, 0.0, 0
        self.told: asyncio.Queue[tuple[int, str, str]] = asyncio.Queue()

    def ends(self, answer: Answer, now: float) -> None:
        self.told.put_nowait((answer.id, answer.outcome, answer.reason))

    async def next(self, count: int) -> list[tuple[int, str, str]]:
        async with asyncio.timeout(LIMIT_S):
            return [await self.told.get() for _ in range(count)]


class FakeRouter:
    """Serves jobs with an even id at once, and keeps the others."""

    def __init__(self) -> None:
        self.streams: list[web.WebSocketResponse] = []
        self.refuses = False
        self.dials: asyncio.Queue[bool] = asyncio.Queue()  # whether each was refused

    async def stream(self, request: web.Request) -> web.StreamResponse:
        self.dials.put_nowait(self.refuses)
        if self.refuses:
            return web.Response(status=503)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        self.streams.append(ws)
        await ws.send_bytes(encode_greeting(Greeting(VERSION, "router-1", "boot")))
        async for message in ws:
            _, requests = decode_requests(message.data)
            answers = [Answer(job, "served", "", "slow-1", "slow", "jsq", 0.0, 0.0, 1.0, False, False)
                       for job, *_ in requests if job % 2 == 0]  # fmt: skip
            await ws.send_bytes(encode(answers, time.monotonic()))
        return ws


@asynccontextmanager
async def stream_to(router: FakeRouter) -> AsyncIterator[tuple[MendedStream, Ends]]:
    app = web.Application()
    app.router.add_get("/v1/stream", router.stream)
    book = Ends()
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        link = await MendedStream.connect(session, str(server.make_url("")).rstrip("/"), book, "boot")
        try:
            yield link, book
        finally:
            await link.close()


def send(link: MendedStream, *jobs: int) -> None:
    link.send([Request(job, 1.0, None) for job in jobs], time.monotonic())


async def test_jobs_under_way_are_lost_with_the_stream_and_later_ones_go_by_the_next() -> None:
    router = FakeRouter()
    async with stream_to(router) as (link, book):
        send(link, 1, 2)
        assert await book.next(1) == [(2, "served", "")]
        router.refuses = True
        await router.streams[0].close()
        assert await book.next(1) == [(1, "failed", "link_lost")]
        while not await asyncio.wait_for(router.dials.get(), LIMIT_S):
            pass  # the first one
        assert await asyncio.wait_for(router.dials.get(), LIMIT_S), "it dials on although it is refused"
        send(link, 3, 4)
        assert await book.next(2) == [(3, "failed", "no_router"), (4, "failed", "no_router")]
        router.refuses = False
        while await asyncio.wait_for(router.dials.get(), LIMIT_S):
            pass
        job = 6
        send(link, job)
        while (told := (await book.next(1))[0]) == (job, "failed", "no_router"):  # its greeting is still on the way
            job += 2
            await asyncio.sleep(0.001)
            send(link, job)
        assert told == (job, "served", "")


async def test_what_is_under_way_when_it_is_closed_is_booked_as_lost_once() -> None:
    async with stream_to(FakeRouter()) as (link, book):
        send(link, 1, 3)
        await link.close()
        assert await book.next(2) == [(1, "failed", "link_lost"), (3, "failed", "link_lost")]
        send(link, 5)
        assert await book.next(1) == [(5, "failed", "no_router")]
    assert book.told.empty()
