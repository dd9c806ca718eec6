"""How much strangers may make a process hold over HTTP, and for how long; see `docs/limits.md`."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import ssl
from collections import Counter
from typing import Annotated, cast

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from router.process.acceptor import Acceptor
from router.process.access import KINDS, Access
from router.process.fastpath import Connection, FastPath
from router.protocol.needs import Positive

_SPARE_FILES = 100
"""Files that a process needs for itself, and for the connections that are not served, of which there are fewer."""
_MOST_UNSERVED = 50
"""Connections beside those that are served: they are being refused, or shake hands."""
_REFUSAL_LIMIT_S = 1.0


class HttpLimits(BaseModel):
    """Part of the settings of routers and of server processes, as `http`.

    Attributes:
        max_connections: The most connections that are served, WebSockets included; one more is answered 503 and
            closed. Fewer, where the operating system lets a process have fewer files.
        handshake_limit_s: The longest that a handshake of TLS may take.
        idle_limit_s: A connection that sends no whole head of a request for so long, since it was opened or last
            answered, is closed.
        body_limit_s: The longest that the body of a request may take to come.
        unread_limit_s: The longest that a peer may leave unread what was sent to it; then the operating system, where
            it can, closes the connection.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_connections: PositiveInt = 10_000
    handshake_limit_s: Positive = 5.0
    idle_limit_s: Positive = 60.0
    body_limit_s: Positive = 10.0
    unread_limit_s: Annotated[float, Field(gt=0.0, le=86_400.0)] = 30.0


class Connections:
    """All connections of a process by HTTP, and how many were refused: what its application and its server share.

    Args:
        limits: What they may do.
        refusals: Where refusals are counted: of requests for the client's mistake, and of connections, by reason.

    Attributes:
        fast_path: Where connections begin; `None`: with aiohttp.
    """

    def __init__(self, limits: HttpLimits | None = None, refusals: Counter[str] | None = None) -> None:
        self.limits = limits or HttpLimits()
        self.refusals: Counter[str] = Counter() if refusals is None else refusals
        self.fast_path: FastPath | None = None
        self._server: web.Server | None = None
        self._acceptor: Acceptor | None = None
        self._refused: set[_Refusal] = set()
        self._most = 0

    @property
    def open(self) -> int:
        """How many connections there are, from when they are accepted."""
        return self._served + len(self._acceptor or ()) + len(self._refused)

    @property
    def _served(self) -> int:
        there = 0 if self._server is None else len(self._server.connections)
        return there if self.fast_path is None else there + len(self.fast_path.connections)

    def admit(self, server: web.Server) -> None:
        """From now on connections are served by `server`."""
        self._server = server
        self._most = min(self.limits.max_connections, _files_allowed() - _SPARE_FILES)

    def accept(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """From now on admit whoever connects there, with TLS or without."""
        self._acceptor = Acceptor(
            listener,
            tls,
            handshake_limit_s=self.limits.handshake_limit_s,
            close_limit_s=self.limits.unread_limit_s,
            is_full=lambda: self.open >= self._most + _MOST_UNSERVED,
            serve=self._serve,
            refusals=self.refusals,
        )

    def close(self) -> None:
        """Accept nobody any more, and give up those that are not served yet."""
        if self._acceptor is not None:
            self._acceptor.close()

    def _serve(self, transport: asyncio.Transport) -> None:
        protocol = self.protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def protocol(self) -> asyncio.Protocol:
        """What serves the next connection."""
        assert self._server is not None
        if self._served < self._most:
            if self.fast_path is None:
                return self._server()
            return Connection(self.fast_path, self._server, self.limits.idle_limit_s)
        self.refusals["limit"] += 1
        return _Refusal(self._most, self._refused)


CONNECTIONS = web.AppKey("connections", Connections)
REFUSALS = ("cut", "limit", "slow", "tls", *KINDS)


def refusals(access: Access, connections: Connections) -> dict[str, float]:
    """What most processes count of requests that they refused: too many connections, too slow, not to be let in."""
    return {**connections.refusals, **access.refusals()}


def limit_unread(listener: socket.socket, seconds: float) -> None:
    """Let the operating system close connections whose peers read nothing; inherited by those that are accepted.

    Nothing here could do that for an answer that is half written, at no cost for those that are read.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, max(1, round(seconds * 1e3)))


async def body_of(request: web.Request) -> bytes:
    """The body of a request, which must come in time.

    Raises:
        TooSlow: It does not.
        web.HTTPRequestEntityTooLarge: It is longer than the application takes.
    """
    if request.content.is_eof():  # nearly always it came together with the head: no need of a clock
        return await request.read()
    connections = request.app[CONNECTIONS]
    try:
        async with asyncio.timeout(connections.limits.body_limit_s):
            return await request.read()
    except TimeoutError:
        connections.refusals["slow"] += 1
        raise TooSlow(connections.limits.body_limit_s) from None


class TooSlow(Exception):
    """The body of a request has not come in time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the body did not come within {limit_s:g} s")


class _Refusal(asyncio.Protocol):
    """One connection too many: it is told so when it asks, or closed after a moment if it does not ask."""

    def __init__(self, most: int, refused: set[_Refusal]) -> None:
        self._refused = refused
        error = {"kind": "limit", "message": f"{most} connections are open, the limit: try again later"}
        body = json.dumps({"error": error}).encode()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Retry-After: 1\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._answer = head.encode() + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self._refused.add(self)
        self._alarm = asyncio.get_running_loop().call_later(_REFUSAL_LIMIT_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        # Only now: an answer to a request that was not read would be lost, since closing then resets the connection.
        if not self._transport.is_closing():
            self._transport.write(self._answer)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._refused.discard(self)
        self._alarm.cancel()


def _files_allowed() -> int:
    """How many files this process may have open; as many as it may ask for, it gets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(1 << 20, hard) if hard != resource.RLIM_INFINITY else 1 << 20
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return 1 << 20 if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems promise more than they give
        return soft
    return wanted
