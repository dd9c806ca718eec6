"""Closed-loop clients that cost little themselves: what is measured is the system behind them."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from router.protocol.stream import Answer, Request
from services.loadgen.client.links import StreamLink

CONNECTIONS = 64
BATCH, BATCHES_UNDER_WAY = 100, 8
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class HttpClient(asyncio.Protocol):
    """One kept-alive connection: a plain `POST /v1/jobs`, and the next one when the answer is there."""

    def __init__(self, request: bytes, answered: list[int]) -> None:
        self._request = request
        self._answered = answered
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, blank, body = self._data.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not blank or length is None or len(body) < int(length[1]):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"expected a job that is served, found {self._data!r}")
        self._data = b""
        self._answered[0] += 1
        self.transport.write(self._request)


async def http_rate(url: str, lasts_s: float, fields: str = "") -> tuple[float, int]:
    """Jobs per second, and jobs in all, over plain HTTP; `fields`: more header fields, each with its line's end."""
    where = urlsplit(url)
    assert where.hostname is not None and where.port is not None
    body = b'{"size":0.0}'
    request = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{fields}\r\n"
    ).encode() + body
    answered = [0]
    loop = asyncio.get_running_loop()
    connections = [
        await loop.create_connection(lambda: HttpClient(request, answered), where.hostname, where.port)
        for _ in range(CONNECTIONS)
    ]
    try:
        return await _rate(answered, lasts_s)
    finally:
        for transport, _ in connections:
            transport.abort()


async def rare_http_rate(url: str, lasts_s: float) -> tuple[float, int]:
    """The same for requests with a field that few clients send, which take no fast path."""
    return await http_rate(url, lasts_s, "X-Rare: 1\r\n")


class Book:
    """Counts answers; the next batch goes out for each that has come back whole."""

    one_clock = True
    delay_s = 0.0
    delays = 0

    def __init__(self) -> None:
        self.answered = [0]
        self.link: StreamLink | None = None
        self._requests = [Request(place, 0.0, None) for place in range(BATCH)]

    def begin(self) -> None:
        """Send the first batches."""
        for _ in range(BATCHES_UNDER_WAY):
            self._send()

    def ends(self, answer: Answer, now: float) -> None:
        """One more; when the link closes, what was under way is lost and nothing follows it."""
        if answer.outcome != "served":
            return
        self.answered[0] += 1
        if self.answered[0] % BATCH == 0:
            self._send()

    def _send(self) -> None:
        assert self.link is not None
        self.link.send(self._requests, time.monotonic())


async def stream_rate(url: str, lasts_s: float) -> tuple[float, int]:
    """Jobs per second, and jobs in all, over a stream of batches."""
    async with aiohttp.ClientSession() as session:
        book = Book()
        book.link = await StreamLink.connect(session, url, book, "")
        book.begin()
        try:
            return await _rate(book.answered, lasts_s)
        finally:
            await book.link.close()


async def _rate(answered: list[int], lasts_s: float) -> tuple[float, int]:
    await asyncio.sleep(lasts_s / 4)  # connections are made, code is warm
    first, began = answered[0], time.perf_counter()
    await asyncio.sleep(lasts_s)
    return (answered[0] - first) / (time.perf_counter() - began), answered[0]
