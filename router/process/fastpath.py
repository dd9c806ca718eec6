"""A short way for the plain requests of one route; all others go to aiohttp, together with their connection.

A server that is ready for everything spends most of its time on what hardly any request has. Clients that send one job
after the other over a connection send nearly the same bytes each time: such a request is known here by its head, which
was looked at once, and answered without a task, a request and a response. The first that is not plain in any respect,
and be it cut in two, is handed over as it came, and its connection stays with aiohttp from then on. So nothing is done
here that aiohttp does better, and what is doubtful is decided there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from time import monotonic, time
from typing import cast

from router.process.access import Access

MAX_HEAD_BYTES = 4096
MOST_HEADS = 1_000

_PLAIN_FIELDS = frozenset((
    b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection", b"content-length",
    b"content-type", b"host", b"user-agent",
))  # fmt: skip
"""Fields that change nothing here, and those that are looked at; a request with any other is not plain."""
_PLAIN_VALUE = re.compile(rb"[\t -~]*")
_LENGTH = re.compile(rb"[0-9]{1,6}")


class FastPath:
    """The plain requests of one route, and the connections of a process that have brought no others yet.

    Rule: a request is plain if it comes whole and alone, in HTTP/1.1, while the answer to the one before is written
    and read; if it has no other fields than a few well-known ones, each once; and if it may come in.

    Args:
        method: Of the route. `path`: its path.
        take: Takes a body, to answer it on that connection at once or later; false: it is not plain after all.
        max_body_bytes: Longer bodies are not plain.
        access: Whom to let in.

    Attributes:
        connections: Those that are here.
    """

    def __init__(
        self, method: str, path: str, take: Callable[[bytes, Connection], bool], max_body_bytes: int, access: Access
    ) -> None:
        self.take = take
        self.connections: set[Connection] = set()
        self._first_line = f"{method} {path} HTTP/1.1".encode()
        self._max_body_bytes = max_body_bytes
        self._access = access
        self._lengths: dict[bytes, int] = {}
        self._second = 0
        self._answer_heads: dict[int, bytes] = {}

    def close(self) -> None:
        """Close the connections that are here; what was written is sent first."""
        for connection in list(self.connections):
            connection.close()

    def body_bytes(self, head: bytes) -> int | None:
        """How long the body behind this head is; `None`: the request is not plain."""
        length = self._lengths.get(head)
        if length is None:
            length = self._read(head)
            if length is not None:
                if len(self._lengths) == MOST_HEADS:
                    self._lengths.clear()
                self._lengths[head] = length
        return length

    def _read(self, head: bytes) -> int | None:
        first_line, *lines = head.split(b"\r\n")
        if first_line != self._first_line or len(head) > MAX_HEAD_BYTES or lines[-2:] != [b"", b""]:
            return None
        fields: dict[bytes, bytes] = {}
        for line in lines[:-2]:
            name, colon, value = line.partition(b":")
            name = name.lower()
            if not colon or name not in _PLAIN_FIELDS or name in fields or not _PLAIN_VALUE.fullmatch(value):
                return None
            fields[name] = value.strip(b" \t")
        length = fields.get(b"content-length", b"0")
        if b"host" not in fields or fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return None
        if not _LENGTH.fullmatch(length) or int(length) > self._max_body_bytes:
            return None
        if not self._access.allows({"Authorization": fields.get(b"authorization", b"").decode()}):
            return None
        return int(length)

    def answer_head(self, status: int) -> bytes:
        """An answer in JSON, up to the number of bytes of its body."""
        second = int(time())
        if second != self._second:
            self._second = second
            self._answer_heads.clear()
        head = self._answer_heads.get(status)
        if head is None:
            head = self._answer_heads[status] = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {formatdate(second, usegmt=True)}\r\n"
                "Content-Type: application/json\r\nContent-Length: "
            ).encode()
        return head


class Connection(asyncio.Protocol):
    """One connection, as long as all that comes is plain.

    Args:
        path: What all connections share.
        other: Makes the protocol that everything else is handed over to.
        idle_limit_s: When nothing has come for so long since the last answer, the connection is closed.
    """

    __slots__ = (
        "_alarm", "_idle_limit_s", "_idle_since", "_later", "_other", "_path", "_taken", "_transport", "_unread"
    )  # fmt: skip

    _alarm: asyncio.TimerHandle
    _transport: asyncio.Transport

    def __init__(self, path: FastPath, other: Callable[[], asyncio.Protocol], idle_limit_s: float) -> None:
        self._path = path
        self._other = other
        self._idle_limit_s = idle_limit_s
        self._idle_since = monotonic()
        self._taken = False
        self._unread = False
        self._later = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast(asyncio.Transport, transport)  # which that of uvloop is no subclass of
        self._path.connections.add(self)
        self._look_in(self._idle_limit_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone; whoever has taken its request learns it by `answer`."""
        self._forget()

    def data_received(self, data: bytes) -> None:
        """Take a plain request, or hand the connection over."""
        if self._taken:  # one by one: what comes before the answer is left to aiohttp, after it
            self._later += data
            self._transport.pause_reading()
            return
        path = self._path
        begin = data.find(b"\r\n\r\n") + 4
        length = path.body_bytes(data[:begin])
        if length is not None and begin + length == len(data) and not self._unread:
            self._taken = True
            if path.take(data[begin:], self):
                return
            self._taken = False
        self._hand_over(data)

    def answer(self, status: int, body: bytes) -> bool:
        """Answer the request that was taken; false: the client is gone."""
        self._taken = False
        self._idle_since = monotonic()
        if self._transport.is_closing():
            return False
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._path.answer_head(status), len(body), body))
        if self._later:
            self._transport.resume_reading()
            self._hand_over(self._later)
        return True

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self._unread = True

    def resume_writing(self) -> None:
        """It has read them."""
        self._unread = False

    def close(self) -> None:
        """Send what was written, and close; until then the connection counts."""
        self._alarm.cancel()
        self._transport.close()

    def _hand_over(self, data: bytes) -> None:
        self._forget()
        other = self._other()
        self._transport.set_protocol(other)
        other.connection_made(self._transport)
        if self._unread:
            other.pause_writing()
        other.data_received(data)

    def _forget(self) -> None:
        self._path.connections.discard(self)
        self._alarm.cancel()

    def _look_in(self, seconds: float) -> None:
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        left_s = self._idle_since + self._idle_limit_s - monotonic()
        if self._taken:
            self._look_in(self._idle_limit_s)
        elif left_s > 0.0:
            self._look_in(left_s)
        else:
            self.close()
