"""The fast path against aiohttp: what it takes is one whole request, and aiohttp reads the same in it."""

from __future__ import annotations

import asyncio
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from aiohttp.http import HttpRequestParser

from router.process.access import Access
from router.process.fastpath import Connection, FastPath
from tests.fuzz.seeds import BETWEEN_CHUNKS, TOKEN

LONGEST_BODY_BYTES = 64


class Wire:
    """Stands for a transport, and for what a connection is handed over to."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.handed_over = b""
        self.other = False

    def write(self, data: bytes) -> None:
        self.answers.append(data)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        raise AssertionError("each request is answered before the next one comes")

    def set_protocol(self, protocol: object) -> None:
        self.other = True

    def connection_made(self, transport: object) -> None:
        assert self.other

    def data_received(self, data: bytes) -> None:
        self.handed_over += data


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """A loop that never runs; streams are made for one."""
    return asyncio.new_event_loop()


def fast_path(data: bytes) -> None:
    """What one connection brings, in chunks; each request that is taken is answered at once."""
    wire, access = Wire(), Access(TOKEN)
    taken: list[bytes] = []

    def take(body: bytes, connection: Connection) -> bool:
        taken.append(body)
        return connection.answer(200, body)

    path = FastPath("POST", "/v1/jobs", take, LONGEST_BODY_BYTES, access)
    connection = Connection(path, lambda: cast(asyncio.Protocol, wire), 60.0)
    connection._alarm = cast(asyncio.TimerHandle, SimpleNamespace(cancel=_nothing))
    connection._transport = cast(asyncio.Transport, wire)
    chunks = [chunk for chunk in data.split(BETWEEN_CHUNKS) if chunk]
    for place, chunk in enumerate(chunks):
        connection.data_received(chunk)
        if wire.other:
            assert wire.handed_over == chunk
            break
        body = taken[place]
        assert wire.answers[place].endswith(b"\r\n\r\n" + body)
        _check(chunk, body, access)


def _check(chunk: bytes, body: bytes, access: Access) -> None:
    """Aiohttp reads one request in this chunk, the same one, which may come in."""
    flow = SimpleNamespace(_reading_paused=False, pause_reading=_nothing, resume_reading=_nothing)
    parser: Any = HttpRequestParser(cast(Any, flow), _loop(), 1 << 16)
    messages, upgraded, rest = parser.feed_data(chunk)
    [(message, payload)] = messages
    assert (message.method, message.path, tuple(message.version)) == ("POST", "/v1/jobs", (1, 1))
    assert not (message.should_close or message.upgrade or message.chunked or message.compression or upgraded or rest)
    assert payload.is_eof() and payload.read_nowait() == body
    assert access.allows(message.headers)


def _nothing(*args: object, **options: object) -> None:
    pass
