"""The fast path before aiohttp, on both loops, with TLS and without."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable

import pytest
import trustme
import uvloop
from aiohttp import web

from router.process.access import Access
from router.process.fastpath import Connection, FastPath

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
PLAIN = b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody"
OTHER = b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nX-Any: 1\r\nContent-Length: 4\r\n\r\nbody"


def contexts(with_tls: bool) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """What the server and the client speak TLS with."""
    if not with_tls:
        return None, None
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


async def answered(reader: asyncio.StreamReader) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    return await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0]))


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_connection_begins_on_the_fast_path_and_goes_on_with_aiohttp(new_loop, with_tls):
    for_server, for_client = contexts(with_tls)

    async def ordinary(request: web.Request) -> web.Response:
        return web.Response(body=b"ordinary " + await request.read())

    def take(body: bytes, connection: Connection) -> bool:
        # Later, as when a server has to serve it first.
        asyncio.get_running_loop().call_soon(connection.answer, 200, b"fast " + body)
        return True

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/jobs", ordinary)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        path = FastPath("POST", "/v1/jobs", take, 100, Access(None))
        others = runner.server
        assert others is not None
        listening = await asyncio.get_running_loop().create_server(
            lambda: Connection(path, others, 60.0), "127.0.0.1", 0, ssl=for_server
        )
        host, port = listening.sockets[0].getsockname()
        try:
            for following, answers in ((OTHER, 1), (PLAIN + PLAIN, 2)):
                reader, writer = await asyncio.open_connection(host, port, ssl=for_client)
                for _ in range(3):
                    writer.write(PLAIN)
                    assert await answered(reader) == b"fast body"
                assert (len(path.connections), len(others.connections)) == (1, 0)
                writer.write(following)
                for _ in range(answers):
                    assert await answered(reader) == b"ordinary body"
                writer.write(PLAIN)
                assert await answered(reader) == b"ordinary body"
                assert (len(path.connections), len(others.connections)) == (0, 1)
                await close(writer)
                while others.connections:  # noqa: ASYNC110 (what is waited for has no event)
                    await asyncio.sleep(0)
            reader, writer = await asyncio.open_connection(host, port, ssl=for_client)
            writer.write(PLAIN)
            assert await answered(reader) == b"fast body"
            path.close()
            assert await asyncio.wait_for(reader.read(), 10) == b""
            await close(writer)
        finally:
            listening.close()
            await runner.cleanup()

    with asyncio.Runner(loop_factory=new_loop) as loop_runner:
        loop_runner.run(asyncio.wait_for(main(), 30))
