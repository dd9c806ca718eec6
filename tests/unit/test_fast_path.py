"""The fast path on real connections, before a protocol that only remembers what it is handed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from router.process.access import Access
from router.process.fastpath import MAX_HEAD_BYTES, MOST_HEADS, Connection, FastPath

PLAIN = b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"
EMPTY = b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\n\r\n"
TOKEN = "0123456789abcdef"


class Other(asyncio.Protocol):
    """Stands for aiohttp: remembers what it is handed, and answers nothing."""

    def __init__(self) -> None:
        self.data = b""
        self.is_paused = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def data_received(self, data: bytes) -> None:
        self.data += data

    def pause_writing(self) -> None:
        self.is_paused = True


class Server:
    """A fast path that listens; what it takes is answered by the test, or at once with the body that came."""

    def __init__(self, *, access: Access | None = None, idle_limit_s: float = 60.0, at_once: bool = True) -> None:
        self.path = FastPath("POST", "/v1/jobs", self.take, 100, access or Access(None))
        self.others: list[Other] = []
        self.taken: list[tuple[bytes, Connection]] = []
        self._idle_limit_s = idle_limit_s
        self._at_once = at_once

    def take(self, body: bytes, connection: Connection) -> bool:
        if body == b"no":
            return False
        self.taken.append((body, connection))
        if self._at_once:
            connection.answer(200, body)
        return True

    def connection(self) -> Connection:
        return Connection(self.path, self.other, self._idle_limit_s)

    def other(self) -> Other:
        self.others.append(Other())
        return self.others[-1]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(self.connection, "127.0.0.1", 0)
        try:
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            yield reader, writer
            writer.close()
        finally:
            listening.close()
            self.path.close()
            for other in self.others:
                other.transport.close()


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """The next answer: its first line, its fields, its body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
    return first, fields, await reader.readexactly(int(fields[b"content-length"]))


async def until(condition) -> None:
    """Let the other tasks run until the condition holds; the test's time limit bounds it."""
    while not condition():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0)


async def test_plain_requests_are_answered_one_after_the_other_on_one_connection():
    server = Server()
    async with server.client() as (reader, writer):
        for request, body in ((PLAIN, b"{}"), (EMPTY, b""), (PLAIN, b"{}")):
            writer.write(request)
            first, fields, found = await answer(reader)
            assert (first, found) == (b"HTTP/1.1 200 OK", body)
            # RFC 9110, section 6.6.1: who has a clock sends a date.
            assert set(fields) == {b"date", b"content-type", b"content-length"}
            assert fields[b"date"].endswith(b" GMT")
            assert fields[b"content-type"] == b"application/json"
    assert server.others == []


@pytest.mark.parametrize("status", [200, 500, 502, 503, 504])
async def test_an_answer_has_its_status(status):
    server = Server(at_once=False)
    async with server.client() as (reader, writer):
        writer.write(PLAIN)
        await until(lambda: server.taken)
        assert server.taken[0][1].answer(status, b"[]")
        first, _, body = await answer(reader)
        assert first.startswith(b"HTTP/1.1 %d " % status)
        assert body == b"[]"


@pytest.mark.parametrize(
    "head",
    [
        b"Host: here",
        b"host:here",
        b"HOST: \t here \t",
        b"Host: here\r\nUser-Agent: curl/8\r\nAccept: */*\r\nContent-Type: application/json",
        b"Host: here\r\nConnection: Keep-Alive\r\nAccept-Encoding: gzip, deflate",
        b"Host: here\r\nAuthorization: Bearer whatever",
    ],
)
async def test_what_ordinary_clients_send_is_plain(head):
    server = Server()
    async with server.client() as (reader, writer):
        writer.write(b"POST /v1/jobs HTTP/1.1\r\n" + head + b"\r\nContent-Length: 4\r\n\r\n1234")
        assert (await answer(reader))[2] == b"1234"
    assert server.others == []


NOT_PLAIN = {
    "another method": PLAIN.replace(b"POST", b"GET"),
    "another path": PLAIN.replace(b"/v1/jobs", b"/v1/jobs/"),
    "a query": PLAIN.replace(b"/v1/jobs", b"/v1/jobs?"),
    "an absolute path": PLAIN.replace(b"/v1/jobs", b"http://here/v1/jobs"),
    "HTTP/1.0": PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "no host": PLAIN.replace(b"Host: here\r\n", b""),
    "two hosts": PLAIN.replace(b"Host: here", b"Host: here\r\nHost: there"),
    "two lengths": PLAIN.replace(b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 2"),
    "no number": PLAIN.replace(b"Content-Length: 2", b"Content-Length: +2"),
    "an empty length": EMPTY.replace(b"Host", b"Content-Length:\r\nHost"),
    "chunks": PLAIN.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
    "the last request": PLAIN.replace(b"Host", b"Connection: close\r\nHost"),
    "an upgrade": PLAIN.replace(b"Host", b"Connection: keep-alive, Upgrade\r\nHost"),
    "an expectation": PLAIN.replace(b"Host", b"Expect: 100-continue\r\nHost"),
    "a coding": PLAIN.replace(b"Host", b"Content-Encoding: gzip\r\nHost"),
    "an unknown field": PLAIN.replace(b"Host", b"X-Any: 1\r\nHost"),
    "a space before the colon": PLAIN.replace(b"Host:", b"Host :"),
    "a folded line": PLAIN.replace(b"Host: here", b"Host: here\r\n there"),
    "no colon": PLAIN.replace(b"Host: here", b"Host: here\r\nAccept"),
    "a bare line feed": PLAIN.replace(b"Host: here", b"Host: here\nX: 1"),
    "a bare carriage return": PLAIN.replace(b"Host: here", b"Host: he\rre"),
    "a zero byte": PLAIN.replace(b"Host: here", b"Host: he\0re"),
    "no ASCII": PLAIN.replace(b"Host: here", b"Host: h\xc3\xa9re"),
    "an empty line before": b"\r\n" + PLAIN,
    "a long head": PLAIN.replace(b"here", b"h" * MAX_HEAD_BYTES),
    "a long body": EMPTY.replace(b"Host", b"Content-Length: 101\r\nHost") + b" " * 101,
    "one byte": PLAIN[:1],
    "two bytes": PLAIN[:2],  # no blank line, and a body of -1 bytes would end just there
    "three bytes": PLAIN[:3],
    "half a head": PLAIN[:30],
    "half a body": PLAIN[:-1],
    "more than one": PLAIN + PLAIN,
    "a body that is refused": PLAIN.replace(b"{}", b"no"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("request_", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
async def test_all_else_is_handed_over_as_it_came_and_so_is_what_follows(request_, is_first):
    server = Server()
    async with server.client() as (reader, writer):
        if not is_first:
            writer.write(PLAIN)
            assert (await answer(reader))[2] == b"{}"
        writer.write(request_)
        await until(lambda: server.others and server.others[0].data == request_)
        writer.write(PLAIN)
        await until(lambda: server.others[0].data == request_ + PLAIN)
        assert server.path.connections == set()
        assert len(server.taken) == (not is_first)


async def test_what_comes_before_the_answer_is_handed_over_after_it():
    server = Server(at_once=False)
    async with server.client() as (reader, writer):
        writer.write(PLAIN)
        await until(lambda: server.taken)
        writer.write(PLAIN)
        await writer.drain()
        await asyncio.sleep(0.01)
        assert server.others == []
        server.taken[0][1].answer(200, b"first")
        assert (await answer(reader))[2] == b"first"
        await until(lambda: server.others and server.others[0].data == PLAIN)
        writer.write(EMPTY)  # and it is read again
        await until(lambda: server.others[0].data == PLAIN + EMPTY)


async def test_whoever_answers_learns_that_the_client_is_gone():
    server = Server(at_once=False)
    async with server.client() as (_, writer):
        writer.write(PLAIN)
        await until(lambda: server.taken)
        writer.transport.abort()
        await until(lambda: not server.path.connections)
        assert not server.taken[0][1].answer(200, b"{}")


async def test_a_client_that_reads_no_answers_is_handed_over_as_one():
    server = Server()
    async with server.client() as (_, writer):
        writer.write(PLAIN)
        await until(lambda: server.taken)
        (connection,) = server.path.connections
        connection.pause_writing()  # as transports do
        writer.write(PLAIN)
        await until(lambda: server.others and server.others[0].data == PLAIN)
        assert server.others[0].is_paused


async def test_a_client_that_reads_again_stays():
    server = Server()
    async with server.client() as (reader, writer):
        writer.write(PLAIN)
        await answer(reader)
        (connection,) = server.path.connections
        connection.pause_writing()
        connection.resume_writing()
        writer.write(PLAIN)
        await answer(reader)
    assert server.others == []


async def test_only_the_token_opens_and_the_refusal_is_left_to_the_other():
    server = Server(access=Access(TOKEN))
    opened = EMPTY.replace(b"Host", b"Authorization: Bearer " + TOKEN.encode() + b"\r\nHost")
    wrong = opened.replace(b"f\r\n", b"e\r\n")
    async with server.client() as (reader, writer):
        writer.write(opened)
        await answer(reader)
        writer.write(wrong)
        await until(lambda: server.others and server.others[0].data == wrong)
    async with server.client() as (_, writer):
        writer.write(EMPTY)
        await until(lambda: len(server.others) == 2 and server.others[1].data == EMPTY)
    assert len(server.taken) == 1


async def test_a_connection_that_brings_nothing_is_closed():
    server = Server(idle_limit_s=0.05)
    async with server.client() as (reader, _):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    assert server.path.connections == set()


async def test_a_connection_is_idle_from_its_last_answer_and_not_while_it_waits_for_one():
    server = Server(idle_limit_s=100.0, at_once=False)
    async with server.client() as (reader, writer):
        for _ in range(2):
            writer.write(PLAIN)
            await until(lambda: server.taken)
            (_, connection) = server.taken.pop()
            connection._idle_since -= 101.0  # so much time has passed
            connection._look()
            assert connection.answer(200, b"late")
            assert (await answer(reader))[2] == b"late"
            connection._look()
            assert server.path.connections == {connection}
        connection._idle_since -= 101.0
        connection._look()
        assert await asyncio.wait_for(reader.read(), 10) == b""
    assert server.path.connections == set()


async def test_closing_sends_first_what_was_written():
    server = Server()
    async with server.client() as (reader, writer):
        writer.write(PLAIN)
        await until(lambda: server.taken)
        server.path.close()
        assert (await answer(reader))[2] == b"{}"
        assert await reader.read() == b""
    assert server.path.connections == set()


def test_the_heads_that_are_known_are_bounded():
    path = FastPath("POST", "/v1/jobs", lambda body, connection: True, 100, Access(None))
    for number in range(3 * MOST_HEADS):
        assert path.body_bytes(b"POST /v1/jobs HTTP/1.1\r\nHost: h%d\r\nContent-Length: 7\r\n\r\n" % number) == 7
        assert len(path._lengths) <= MOST_HEADS
