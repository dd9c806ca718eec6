"""Peers of a server process in tests: a router that does as it is told; and the process, inside this one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, WSMsgType, web
from aiohttp.test_utils import TestServer
from prometheus_client.parser import text_string_to_metric_families

from router.process.access import Access
from router.process.identity import make_identity
from router.process.limits import Connections
from router.protocol.codec import FROM_SERVER, LinkCodec, unpack
from router.protocol.messages import Dispatch, Message
from router.protocol.needs import Needs, PullNeeds
from router.protocol.notices import VERSION, Hello, Notice, Welcome, encode_notice, read_notice
from server.app.discovery import Address, Resolve, resolve
from server.app.driver import ServerDriver
from server.app.links import Links
from server.app.metrics import make_metrics
from server.app.settings import ServerSettings, make_settings
from server.app.web import make_application
from server.openapi import description
from tests.unit.described import Described

PULL = Needs(pull=PullNeeds())
LIMIT_S = 10.0


class Connection:
    """One link as the router sees it; what comes is kept until it is asked for."""

    def __init__(self, ws: web.WebSocketResponse, hello: Hello, router: str) -> None:
        self.ws = ws
        self.hello = hello
        self.names = [server.id for server in hello.servers]
        self.codec = LinkCodec(router, self.names, FROM_SERVER)
        self._came: list[Message | Notice] = []
        self.closed = asyncio.Event()
        self._news = asyncio.Event()

    async def read(self) -> None:
        async for frame in self.ws:
            if frame.type is WSMsgType.BINARY:
                value = unpack(frame.data)
                self._came += self.codec.read(value)[1] if type(value) is list else [read_notice(value)]
                self._news.set()
        self.closed.set()
        self._news.set()

    async def next(self, count: int) -> list[Message | Notice]:
        """The next so many messages and notices."""
        while len(self._came) < count:
            assert not self.closed.is_set(), f"closed with {self._came} instead of {count} messages"
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), LIMIT_S)
        taken, self._came = self._came[:count], self._came[count:]
        return taken

    async def send(self, *messages: Message) -> None:
        await self.ws.send_bytes(self.codec.encode(messages, time.monotonic()))

    async def closed_by_server(self) -> int | None:
        await asyncio.wait_for(self.closed.wait(), LIMIT_S)
        return self.ws.close_code

    def dispatch(self, server: int, job: int, size: float = 0.0, **fields: Any) -> Dispatch:
        values = {"patience": None, "number": None, "expected": None, "held": 0} | fields
        return Dispatch(self.names[server], "", job, size, **values)


class FakeRouter:
    """Welcomes whoever says hello, or does what `answer` does instead."""

    def __init__(self, name: str = "router-1", needs: Needs = PULL, epoch: int = 1) -> None:
        self.name, self.needs, self.epoch = name, needs, epoch
        self.answer: Callable[[web.WebSocketResponse], Awaitable[None]] | None = None
        self.connections: asyncio.Queue[Connection] = asyncio.Queue()
        self.codes: asyncio.Queue[int | None] = asyncio.Queue()
        app = web.Application()
        app.add_routes([web.get("/v1/link", self._link)])
        self.server = TestServer(app)

    @property
    def address(self) -> Address:
        assert self.server.port is not None
        return Address("127.0.0.1", self.server.port)

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(compress=False)
        await ws.prepare(request)
        hello = read_notice(unpack(await ws.receive_bytes()))
        assert isinstance(hello, Hello)
        if self.answer is not None:
            await self.answer(ws)
            async for _ in ws:
                pass
        else:
            boot = make_identity(self.name).boot
            welcome = Welcome(version=VERSION, router=self.name, epoch=self.epoch, boot=boot, needs=self.needs)
            await ws.send_bytes(encode_notice(welcome))
            connection = Connection(ws, hello, self.name)
            self.connections.put_nowait(connection)
            await connection.read()
        self.codes.put_nowait(ws.close_code)
        return ws

    async def linked(self) -> Connection:
        return await asyncio.wait_for(self.connections.get(), LIMIT_S)

    async def refused(self) -> int | None:
        return await asyncio.wait_for(self.codes.get(), LIMIT_S)


class Process:
    """A server process inside this one."""

    def __init__(self, settings: ServerSettings, resolve: Resolve = resolve, token: str | None = None) -> None:
        self.driver = ServerDriver(settings)
        self.links = Links(settings, self.driver, resolve=resolve)
        self.metrics = make_metrics(settings, self.driver, self.links)
        self.described = Described(description())
        app = make_application(self.driver, self.links, self.metrics, Access(token), Connections(settings.http))
        self.described.attach(app)
        self.server = TestServer(app)

    async def get(self, path: str) -> tuple[int, Any]:
        async with ClientSession() as session, session.get(self.server.make_url(path)) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        async with ClientSession() as session, session.post(self.server.make_url(path), data=body) as response:
            return response.status, await response.json()

    async def put(self, path: str, body: bytes) -> tuple[int, Any]:
        async with ClientSession() as session, session.put(self.server.make_url(path), data=body) as response:
            return response.status, await response.json()

    def values(self) -> dict[str, float]:
        """Every sample that `/metrics` shows: `name{label=value,…}` to number."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.exposition()[0].decode()):
            for sample in family.samples:
                labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}"] = sample.value
        return found


def settings(*routers: FakeRouter, **changes: Any) -> ServerSettings:
    values = {
        "id": "servers-slow", "pool": "slow", "servers": 2, "time_unit_s": 0.02, "reconnect_first_s": 0.001,
        "reconnect_most_s": 0.01, "routers": [str(router.server.make_url("/")) for router in routers],
    }  # fmt: skip
    return make_settings(values | changes)


@asynccontextmanager
async def running(
    *routers: FakeRouter, resolve: Resolve = resolve, token: str | None = None, **changes: Any
) -> AsyncIterator[Process]:
    for router in routers:
        await router.server.start_server()
    process = Process(settings(*routers, **changes), resolve, token)
    await process.server.start_server()
    try:
        yield process
    finally:
        await process.server.close()
        process.driver.close()
        for router in routers:
            await router.server.close()
    assert process.described.wrong == []


def kinds(messages: list[Message | Notice]) -> list[str]:
    return [type(message).__name__ for message in messages]
