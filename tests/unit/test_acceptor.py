"""Connections are counted and limited from when they are accepted, with TLS before its handshake."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import ClientError, ClientSession, web

from router.process import acceptor, limits
from router.process.access import Access
from router.process.client import failure, open_session, was_cut
from router.process.limits import Connections, HttpLimits
from router.process.logs import MOST_TOLD
from router.process.serve import accepting
from router.process.tls import Tls
from router.process.web import application, looking, reply
from server.app.driver import ServerDriver
from server.app.links import Links
from server.app.settings import make_settings
from tests.unit.certificates import Authority
from tests.unit.router_peers import until

UNSERVED = 50
"""So many connections there may be beside those that are served; see docs/limits.md."""
BOUND_S = 30.0
ASK = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
Loop = Callable[[], asyncio.AbstractEventLoop]


class Site:
    """A process that listens.

    Attributes:
        connections: Its connections. `port`: where it listens.
        asked: Requests for `/slow`, which is answered when `answer` is set.
    """

    def __init__(self, connections: Connections, port: int, scheme: str) -> None:
        self.connections = connections
        self.port = port
        self.asked = 0
        self.answer = asyncio.Event()
        self.url = f"{scheme}://127.0.0.1:{port}"

    def connect(self, stack: ExitStack) -> socket.socket:
        """A connection that says nothing."""
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        connection.setblocking(False)
        return connection

    async def get(self, tls: Tls, scheme: str = "https") -> int:
        async with (
            open_session(BOUND_S, Access(None), tls) as session,
            session.get(f"{scheme}://127.0.0.1:{self.port}/health") as response,
        ):
            return response.status


@asynccontextmanager
async def listening(tls: Tls, **settings: Any) -> AsyncIterator[Site]:
    async def health(request: web.Request) -> web.Response:
        return reply({})

    async def slow(request: web.Request) -> web.Response:
        site.asked += 1
        await site.answer.wait()
        return reply({})

    connections = Connections(HttpLimits(**settings))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    app = application([looking("/health", health), looking("/slow", slow)], Access(None), connections)
    port = listener.getsockname()[1]
    site = Site(connections, port, "http" if tls.kind == "off" else "https")
    async with accepting(app, listener, tls.server_context(), BOUND_S):
        yield site


def are_closed(connections: list[socket.socket]) -> int:
    """How many of these the other side has closed without a word."""
    closed = 0
    for connection in connections:
        try:
            closed += connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            pass
        except ConnectionResetError:
            closed += 1
    return closed


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@LOOPS
def test_those_that_never_shake_hands_give_way_to_those_who_do(authority: Authority, loop: Loop) -> None:
    own = Tls(authority.sign("127.0.0.1"), ca=authority.file)

    async def story() -> None:
        async with listening(own, max_connections=3, handshake_limit_s=600) as site:
            there = site.connections
            with ExitStack() as stack:
                silent = [site.connect(stack) for _ in range(300)]
                await until(lambda: there.refusals["limit"] == 300 - (3 + UNSERVED))
                assert there.open == 3 + UNSERVED
                await until(lambda: are_closed(silent) == 300 - there.open)
                assert are_closed(silent[-there.open :]) == 0  # the oldest went
                assert await site.get(own) == 200
                assert there.open <= 3 + UNSERVED
                assert there.refusals == {"limit": 300 - (3 + UNSERVED) + 1}
            await until(lambda: there.open == 0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@LOOPS
def test_a_handshake_has_its_time(authority: Authority, loop: Loop) -> None:
    own = Tls(authority.sign("127.0.0.1"), ca=authority.file)

    async def story() -> None:
        async with listening(own, handshake_limit_s=0.05) as site:
            with ExitStack() as stack:
                silent = [site.connect(stack) for _ in range(5)]
                await until(lambda: are_closed(silent) == 5)
                await until(lambda: site.connections.open == 0)
            assert site.connections.refusals == {"tls": 5}
            assert await site.get(own) == 200

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@LOOPS
def test_handshakes_end_with_the_process(authority: Authority, loop: Loop) -> None:
    async def story() -> None:
        with ExitStack() as stack:
            async with listening(Tls(authority.sign("127.0.0.1"))) as site:
                silent = [site.connect(stack) for _ in range(5)]
                await until(lambda: site.connections.open == 5)
            await until(lambda: are_closed(silent) == 5)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@LOOPS
def test_a_process_that_ends_refuses_who_comes_though_a_request_is_still_answered(loop: Loop) -> None:
    async def story() -> None:
        async with AsyncExitStack() as running:
            site = await running.enter_async_context(listening(Tls()))
            with ExitStack() as stack:
                asked, unheard = site.connect(stack), site.connect(stack)
                asked.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
                await until(lambda: site.asked == 1 and site.connections.open == 2)
                ending = asyncio.create_task(running.pop_all().aclose())
                await until(lambda: are_closed([unheard]) == 1)
                with pytest.raises(ConnectionRefusedError):
                    site.connect(stack)
                assert not ending.done()
                site.answer.set()
                assert (await asyncio.get_running_loop().sock_recv(asked, 4096)).startswith(b"HTTP/1.1 200 ")
                await ending

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@LOOPS
def test_too_many_are_told_so_by_tls_as_well(authority: Authority, loop: Loop) -> None:
    own = Tls(authority.sign("127.0.0.1"), ca=authority.file)

    async def story() -> None:
        async with listening(own, max_connections=1) as site, ClientSession() as session:
            context = own.client_context()
            async with session.get(f"{site.url}/health", ssl=context) as first:
                assert first.status == 200  # and its connection is kept alive
                assert await site.get(own) == 503
            assert site.connections.refusals == {"limit": 1}

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@LOOPS
def test_without_tls_no_more_are_refused_in_words_at_a_time_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    monkeypatch.setattr(limits, "_REFUSAL_LIMIT_S", BOUND_S)  # none of them is closed for asking nothing

    async def story() -> None:
        async with listening(Tls(), max_connections=1) as site:
            with ExitStack() as stack:
                served = site.connect(stack)
                await until(lambda: site.connections.open == 1)
                others = [site.connect(stack) for _ in range(UNSERVED + 20)]
                await until(lambda: site.connections.refusals["limit"] == UNSERVED + 20)
                assert site.connections.open == 1 + UNSERVED
                await until(lambda: are_closed(others) == 20)
                assert are_closed(others[:UNSERVED]) == 0
                others[0].send(ASK)
                answer = await asyncio.get_running_loop().sock_recv(others[0], 4096)
                assert answer.startswith(b"HTTP/1.1 503 ")
                served.send(ASK)
                answer = await asyncio.get_running_loop().sock_recv(served, 4096)
                assert answer.startswith(b"HTTP/1.1 200 ")

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@LOOPS
def test_a_request_right_behind_the_handshake_is_heard(authority: Authority, loop: Loop) -> None:
    own = Tls(authority.sign("127.0.0.1"), ca=authority.file)

    async def story() -> None:
        async with listening(own) as site:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = own.client_context().wrap_bio(came, goes, server_hostname="127.0.0.1")
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            while True:
                writer.write(goes.read())
                came.write(await reader.read(65536))
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    continue
            client.write(ASK)
            writer.write(goes.read())  # the client's last word of the handshake, and its request
            answer = b""
            while b"\r\n\r\n" not in answer:
                came.write(await reader.read(65536))
                try:
                    answer += client.read(65536)
                except ssl.SSLWantReadError:
                    continue
            assert answer.startswith(b"HTTP/1.1 200 ")
            writer.close()
            await writer.wait_closed()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


# -- who is refused ----------------------------------------------------------------------------------


@LOOPS
def test_both_sides_are_told_why_there_is_no_tls(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: Loop
) -> None:
    own, strange = authority.sign("127.0.0.1"), Authority(tmp_path, "other").sign("127.0.0.1", file="strange")
    clients = (
        (Tls(ca=authority.file), "https", "peer did not return a certificate"),
        (Tls(strange, ca=authority.file), "https", "the certificate is not believed: unable to get local issuer"),
        (Tls(), "http", "it speaks HTTP without TLS"),
    )

    async def story() -> None:
        async with listening(Tls(own, client_ca=authority.file)) as site:
            for tls, scheme, reason in clients:
                caplog.clear()
                before = site.connections.refusals["tls"]
                with pytest.raises((ClientError, OSError)) as error:
                    await site.get(tls, scheme)
                assert was_cut(error.value) and "TLS" in failure(error.value) and "certificate" in failure(error.value)
                assert site.connections.refusals["tls"] > before  # aiohttp tries a second time
                assert f"no TLS with 127.0.0.1: {reason}" in caplog.text
            for _ in range(MOST_TOLD):
                with pytest.raises((ClientError, OSError)):
                    await site.get(Tls(), "http")
            assert caplog.messages[-1].endswith("; further ones are only counted")
            assert site.connections.refusals["tls"] > MOST_TOLD

    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


async def test_a_server_process_says_once_that_tls_may_be_why_it_has_no_link(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    own = Tls(authority.sign("127.0.0.1"))
    async with listening(own) as site:
        settings = make_settings({
            "id": "servers", "pool": "slow", "servers": 1, "routers": [f"http://127.0.0.1:{site.port}"],
            "reconnect_first_s": 0.01, "reconnect_most_s": 0.01,
        })  # fmt: skip
        links = Links(settings, ServerDriver(settings))
        with caplog.at_level(logging.WARNING, "server"):
            await links.start()
            await until(lambda: links.counts.failures == 3)
            await links.close()
    told = [record.getMessage() for record in caplog.records if record.name.startswith("server")]
    assert len(told) == 1 and "it closes the connection instead of an answer: so does who speaks TLS" in told[0]


async def test_where_nobody_listens_nobody_has_cut() -> None:
    async with ClientSession() as session:
        with pytest.raises(ClientError) as error:
            await session.get("http://127.0.0.1:1/health")
    assert isinstance(error.value, OSError) and error.value.errno == errno.ECONNREFUSED
    assert not was_cut(error.value) and "TLS" not in failure(error.value)


class Short(socket.socket):
    """A listener for whose connections no file is left, so many times."""

    times = 3

    def accept(self) -> Any:
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@LOOPS
def test_whenever_files_run_out_it_is_told_once_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    monkeypatch.setattr(acceptor, "_PAUSE_S", 0.01)

    async def story() -> None:
        served: list[asyncio.Transport] = []
        with Short() as listener, ExitStack() as stack:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            taking = acceptor.Acceptor(
                listener, None, handshake_limit_s=1.0, close_limit_s=1.0, is_full=lambda: False, serve=served.append,
                refusals=Counter(),
            )  # fmt: skip
            for times in (1, 2):
                stack.enter_context(socket.create_connection(listener.getsockname()))
                await until(lambda times=times: len(served) == times)
                listener.times = 2
            taking.close()
            for transport in served:
                transport.abort()

    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())
    assert caplog.messages == ["cannot accept connections: Too many open files"] * 2
