"""Peers of a router in tests: a server process that does as it is told, and a generator that streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from random import Random
from time import monotonic
from typing import Any

import msgpack
from aiohttp import ClientResponse, ClientWebSocketResponse, WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from router.app.main import RouterApp
from router.app.settings import RouterSettings
from router.openapi import description
from router.process.access import Access
from router.process.limits import CONNECTIONS
from router.protocol import stream
from router.protocol.codec import FROM_ROUTER, LinkCodec, unpack
from router.protocol.messages import Dispatch, End, Message, Probe
from router.protocol.notices import VERSION, Hello, Notice, ServerEntry, Welcome, encode_notice, read_notice
from router.registry import make_policy
from tests.unit.described import Described


def entry(id: str, pool: str = "slow", rate: float = 1.0, slots: int = 1, capacity: float = inf) -> ServerEntry:
    return ServerEntry(id=id, pool=pool, rate=rate, slots=slots, capacity=capacity, pool_index=0)


def hello(*servers: str, process: str = "fake-1", epoch: int = 1, boot: str = "elsewhere") -> Hello:
    return Hello(version=VERSION, process=process, epoch=epoch, boot=boot, servers=[entry(id) for id in servers])


class FakeServers:
    """A server process: reads what the router sends, and sends what the test tells it to."""

    def __init__(self, ws: ClientWebSocketResponse, said: Hello) -> None:
        self.ws = ws
        self.said = said
        self.names = [server.id for server in said.servers]
        self.welcome: Welcome
        self.codec: LinkCodec
        self._came: list[Message | Notice] = []

    @classmethod
    async def link(cls, session: TestClient[Any, Any], said: Hello) -> FakeServers:
        """Dial, say hello, and wait for the welcome."""
        peer = cls(await session.ws_connect("/v1/link"), said)
        await peer.ws.send_bytes(encode_notice(said))
        notice = read_notice(unpack(await peer.ws.receive_bytes(timeout=10)))
        assert isinstance(notice, Welcome)
        peer.welcome = notice
        peer.codec = LinkCodec(notice.router, peer.names, FROM_ROUTER)
        return peer

    async def next(self) -> Message | Notice:
        """The next message or notice."""
        while not self._came:
            value = unpack(await self.ws.receive_bytes(timeout=10))
            if type(value) is list:
                self._came += self.codec.read(value)[1]
            else:
                self._came.append(read_notice(value))
        return self._came.pop(0)

    async def dispatch(self) -> Dispatch:
        """The next message, which is a dispatch."""
        message = await self.next()
        assert isinstance(message, Dispatch), message
        return message

    async def probe(self) -> Probe:
        """The next message, which is a probe."""
        message = await self.next()
        assert isinstance(message, Probe), message
        return message

    async def say(self, *messages: Message, stamp_s: float | None = None) -> None:
        """Send messages in one frame."""
        await self.ws.send_bytes(self.codec.encode(messages, monotonic() if stamp_s is None else stamp_s))

    async def end(self, dispatch: Dispatch, **changes: Any) -> None:
        """End that dispatch; served after no wait if nothing else is said."""
        await self.say(served(dispatch)._replace(**changes))

    async def closed(self) -> tuple[int, str]:
        """Read until the router closes; the close code and the reason."""
        return await closed(self.ws)


def served(dispatch: Dispatch, waiting: float = 0.0, service: float = 0.5) -> End:
    return End(dispatch.server, dispatch.router, dispatch.job, "served", "", 7.0, waiting, service, False, None, None)


class Generator:
    """A generator that streams."""

    def __init__(self, ws: ClientWebSocketResponse, greeting: stream.Greeting) -> None:
        self.ws = ws
        self.greeting = greeting
        self._came: list[stream.Answer] = []

    @classmethod
    async def open(cls, session: TestClient[Any, Any], query: str = "") -> Generator:
        ws = await session.ws_connect(f"/v1/stream{query}")
        return cls(ws, stream.decode_greeting(await ws.receive_bytes(timeout=10)))

    async def send(self, *jobs: tuple[int, float, float | None]) -> None:
        await self.ws.send_bytes(stream.encode([stream.Request(*job) for job in jobs], monotonic()))

    async def answer(self) -> stream.Answer:
        """The next end."""
        while not self._came:
            self._came = stream.decode_answers(await self.ws.receive_bytes(timeout=10))[1]
        return self._came.pop(0)

    async def closed(self) -> tuple[int, str]:
        return await closed(self.ws)


async def closed(ws: ClientWebSocketResponse) -> tuple[int, str]:
    while True:
        message = await ws.receive(timeout=10)
        if message.type is WSMsgType.CLOSE:
            return int(message.data), str(message.extra)
        assert message.type is WSMsgType.BINARY, f"the connection ended without a goodbye: {message}"


async def until(condition: Any) -> None:
    """Let the other tasks run until the condition holds; the test's time limit bounds it."""
    while not condition():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0)


def pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


# -- the router under test -----------------------------------------------------------------------


class Router:
    """A router under test, with a client."""

    def __init__(self, app: RouterApp, client: TestClient[Any, Any], described: Described) -> None:
        self.app = app
        self.client = client
        self.described = described

    async def link(self, *servers: str, **changes: Any) -> FakeServers:
        return await FakeServers.link(self.client, hello(*servers, **changes))

    async def stream(self, query: str = "") -> Generator:
        return await Generator.open(self.client, query)

    def post(self, body: Any = None) -> asyncio.Task[ClientResponse]:
        """Post a job without waiting for its end."""

        async def request() -> ClientResponse:
            return await self.client.post("/v1/jobs", json=body)

        return asyncio.create_task(request())

    async def get(self, path: str) -> Any:
        async with self.client.get(path) as response:
            return await response.json()

    async def metrics(self) -> dict[tuple[str, ...], float]:
        """All samples: {(name without prefix, label value, …): value}, labels in alphabetical order."""
        async with self.client.get("/metrics") as response:
            text = await response.text()
        return {
            (sample.name.removeprefix("herdless_router_"), *(value for _, value in sorted(sample.labels.items()))):
                sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }  # fmt: skip


class LikeInProduction(TestServer):
    """A test server whose handlers run on when their client goes away, as everywhere but in tests."""

    async def _make_runner(self, **options: Any) -> Any:
        return await super()._make_runner(**options | {"handler_cancellation": False})


class FastPathRunner(web.AppRunner):
    """Begins connections by the fast path, as a process does; replies by it are not held against the description."""

    @property
    def server(self) -> Any:
        server, connections = super().server, self.app[CONNECTIONS]
        if server is None:
            return None
        connections.admit(server)
        return connections.protocol


class WithFastPath(TestServer):
    """A test server with the fast path."""

    async def _make_runner(self, **options: Any) -> Any:
        return FastPathRunner(self.app, **options | {"handler_cancellation": False})


@asynccontextmanager
async def running(
    policy: str | dict[str, Any] = "random", *, token: str | None = None, fast_path: bool = False, **settings: Any
) -> AsyncIterator[Router]:
    table = {"name": policy} if isinstance(policy, str) else policy
    made = RouterSettings(policy=table, **settings)
    rng = Random(1)
    app = RouterApp(made, make_policy(table, rng), rng, Access(token))
    described = Described(description())
    described.attach(app.web)
    server_type = WithFastPath if fast_path else LikeInProduction
    async with TestClient(server_type(app.web, host="127.0.0.1")) as client:
        yield Router(app, client, described)
    assert described.wrong == []
