"""Limits of a real router process: connections, slow and idle ones, answers that nobody reads, floods on a stream."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientWebSocketResponse

from router.protocol import stream
from tests.live.test_overload import metrics
from tests.live.test_router_process import BOUND_S, Cluster, Process, cluster

JOBS = 600_000  # beyond what the buffers of the operating system hold of them
NO_ANSWER = b""


@asynccontextmanager
async def connected(router: Process, receive_buffer: int = 0) -> AsyncIterator[socket.socket]:
    """A plain connection, of which only what the test does is done."""
    where = urlsplit(router.url)
    with socket.socket() as connection:
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (where.hostname, where.port))
        yield connection


async def until_closed(connection: socket.socket) -> bytes:
    """All that comes until the router closes."""
    came = b""
    async with asyncio.timeout(BOUND_S):
        while data := await asyncio.get_running_loop().sock_recv(connection, 65536):
            came += data
    return came


async def say(connection: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, data)


async def connections(our: Cluster, router: Process) -> float:
    """How many the router counts, that by which it is asked included."""
    return (await metrics(our.session, router))["http_connections",]


async def until_there(our: Cluster, router: Process, count: int) -> None:
    """Wait until so many connections are there."""
    async with asyncio.timeout(BOUND_S):
        while await connections(our, router) != count:  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.01)


async def test_one_connection_too_many_is_refused_and_one_that_leaves_makes_room():
    async with cluster() as our:
        router = our.router(http={"max_connections": 3})
        async with connected(router) as first, connected(router):
            await until_there(our, router, 3)
            async with connected(router) as fourth:
                await say(fourth, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                head, _, body = (await until_closed(fourth)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert json.loads(body)["error"]["kind"] == "limit"
            first.close()
            await until_there(our, router, 2)
            async with connected(router) as fifth:
                await say(fifth, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert (await until_closed(fifth)).startswith(b"HTTP/1.1 200 ")
        assert (await metrics(our.session, router))["refusals_total", "http", "limit"] == 1


async def test_slow_idle_and_unread_connections_are_closed_and_one_that_waits_for_its_job_is_not():
    limits = {"idle_limit_s": 0.3, "body_limit_s": 0.3, "unread_limit_s": 0.5}
    async with cluster() as our:
        router = our.router(http=limits)
        our.servers(router, count=1)
        await our.ready(router, 1)
        async with (
            connected(router) as idle,
            connected(router) as slow_head,
            connected(router) as slow_body,
            connected(router, receive_buffer=4096) as unread,
            connected(router) as patient,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(trickle(slow_head))
            tasks.create_task(ask_until_closed(unread))
            head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n"
            await say(slow_body, head + b'{"size":')
            await say(patient, head + b'{"size": 50}')  # 50 time units: a second
            assert (await until_closed(slow_body)).startswith(b"HTTP/1.1 408 ")
            assert await until_closed(idle) == NO_ANSWER
            assert await until_closed(slow_head) == NO_ANSWER
            async with asyncio.timeout(BOUND_S):
                answer = await asyncio.get_running_loop().sock_recv(patient, 65536)
            assert answer.startswith(b"HTTP/1.1 200 ")


async def trickle(connection: socket.socket) -> None:
    """Send a head letter by letter, until the router has closed."""
    with suppress(ConnectionError):
        await say(connection, b"GET /health HTTP/1.1\r\nX: ")
        while True:
            await say(connection, b"x")
            await asyncio.sleep(0.05)


async def ask_until_closed(connection: socket.socket) -> None:
    """Ask for long answers and read none, until the router, or the operating system for it, has closed."""
    async with asyncio.timeout(BOUND_S):
        with suppress(ConnectionError):
            while True:
                await say(connection, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.long
async def test_a_flood_on_a_stream_costs_no_link_and_each_of_its_jobs_has_its_end():
    async with cluster() as our:
        router = our.router()
        servers = our.servers(router)
        await our.ready(router, 20)
        ends: Counter[tuple[str, str]] = Counter()
        async with our.session.ws_connect(f"{router.url}/v1/stream") as ws, asyncio.TaskGroup() as tasks:
            stream.decode_greeting(await ws.receive_bytes())
            tasks.create_task(flood(ws, JOBS))
            async with asyncio.timeout(10 * BOUND_S):
                while ends.total() < JOBS:
                    ends.update((end.outcome, end.reason) for end in stream.decode_answers(await ws.receive_bytes())[1])
        assert ends == {("served", ""): JOBS}
        assert await links(our, servers) == (1, 0)


async def flood(ws: ClientWebSocketResponse, jobs: int) -> None:
    """Send so many jobs of size 0, as fast as they are taken."""
    most = stream.MAX_FRAME_MESSAGES
    for first in range(0, jobs, most):
        requests = [stream.Request(id, 0.0, None) for id in range(first, min(first + most, jobs))]
        await ws.send_bytes(stream.encode(requests, monotonic()))


async def links(our: Cluster, servers: Process) -> tuple[float, float]:
    """Links that came up at a server process, and those of them that are down again."""
    async with our.session.get(f"{servers.url}/metrics") as response:
        lines = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines() if line[0] != "#")
    ups, losses = (float(lines[f"herdless_server_link_{what}_total"]) for what in ("ups", "losses"))
    return ups, losses
