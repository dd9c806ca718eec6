"""The sending half of a link: messages go into a queue, and one task sends all that is there in one frame.

A message that waits for no other costs one frame; under load the frames grow by themselves, because while one is
written the next messages gather. The peer is never waited for: one that reads too slowly loses its link, or its
backlog would grow without bound here.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from aiohttp import ClientSession, ClientWebSocketResponse, WSCloseCode, web

from router.protocol.codec import MAX_FRAME_BYTES

Message = TypeVar("Message")

UNDELIVERED_HEARTBEATS = 2.0
"""For so long may bytes be undelivered; later than the heartbeat finds out, so that it is the one to tell."""

_LOOK_EVERY_S = 0.005
"""How often it is looked whether there is room; nobody does while nobody is behind."""

_log = logging.getLogger(__name__)


class WebSocket(Protocol):
    """What an outbox needs of a WebSocket: both kinds of aiohttp, the server's and the client's, have it."""

    async def send_bytes(self, data: bytes) -> None:
        """Send one binary frame; waits while the peer does not read."""

    async def close(self, *, code: int = ..., message: bytes = ...) -> bool:
        """Say goodbye with a reason and close."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Give what the transport knows, for instance its socket."""


async def accept(
    request: web.Request, *, max_frame_bytes: int = MAX_FRAME_BYTES, heartbeat_s: float | None = None
) -> web.WebSocketResponse:
    """Answer a request for a WebSocket: no compression, and no frame longer than `max_frame_bytes`."""
    ws = web.WebSocketResponse(compress=False, max_msg_size=max_frame_bytes, heartbeat=heartbeat_s)
    await ws.prepare(request)
    _bound_silence(ws, heartbeat_s)
    return ws


async def dial(
    session: ClientSession,
    url: str,
    *,
    max_frame_bytes: int = MAX_FRAME_BYTES,
    heartbeat_s: float | None = None,
) -> ClientWebSocketResponse:
    """Open a WebSocket: no compression, and no frame longer than `max_frame_bytes`.

    Raises:
        aiohttp.ClientError: Nobody listens there, or it is no WebSocket.
    """
    ws = await session.ws_connect(url, compress=0, max_msg_size=max_frame_bytes, heartbeat=heartbeat_s)
    _bound_silence(ws, heartbeat_s)
    return ws


class Outbox(Generic[Message]):
    """Sends messages over one WebSocket in batches; create it inside the running loop.

    Args:
        ws: An open WebSocket. The owner reads from it; only the outbox sends and closes.
        encode: Makes one binary frame of a list of messages. It must keep within the peer's frame limit, which
            `max_batch` messages of ordinary size are far from.
        limit: How many messages may wait; one more cuts the link.
        max_batch: The most messages in one frame.
        cut_limit_s: How long a cut waits for the peer to say goodbye.
        stall_limit_s: How long a peer may take nothing at all while more than half of `limit` waits for it and
            somebody waits for room.
        on_cut: Told the reason, once, from the loop, when the outbox gives the link up by itself: backlog over
            the limit, peer gone, or a message that cannot be encoded. Reading from `ws` ends as well then.
    """

    def __init__(
        self,
        ws: WebSocket,
        encode: Callable[[list[Message]], bytes],
        *,
        limit: int = 100_000,
        max_batch: int = 1_000,
        cut_limit_s: float = 1.0,
        stall_limit_s: float = 5.0,
        on_cut: Callable[[str], object] = lambda reason: None,
    ) -> None:
        self.frames = 0
        self.messages = 0
        self.bytes = 0
        self.overflows = 0
        self.refused = 0  # messages handed in after the end
        self._ws = ws
        self._encode = encode
        self._limit = limit
        self._max_batch = max_batch
        self._cut_limit_s = cut_limit_s
        self._half = limit // 2
        self._stall_limit_s = stall_limit_s
        self._on_cut = on_cut
        self._open = True
        self._waiting: deque[Message | _Frame] = deque()
        self._asleep: asyncio.Future[None] | None = None  # the writer, while nothing waits
        self._writer = asyncio.create_task(self._write())
        self._cutting: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a message that is put now will be sent."""
        return self._open

    def __len__(self) -> int:
        """How many messages wait for the next frame."""
        return len(self._waiting)

    def put(self, message: Message) -> bool:
        """Send a message soon. Never waits, never raises.

        Returns:
            False when the link is closed or cut, also by this very message, which is lost then.
        """
        if not self._open:
            self.refused += 1
            return False
        if len(self._waiting) >= self._limit:
            self.overflows += 1
            self.cut(f"reads too slowly: {self._limit} messages wait, the limit")
            return False
        self._waiting.append(message)
        if self._asleep is not None:
            self._wake()
        return True

    def _wake(self) -> None:
        asleep, self._asleep = self._asleep, None
        if asleep is not None and not asleep.done():
            asleep.set_result(None)

    @property
    def is_behind(self) -> bool:
        """Whether more than half of what may wait does."""
        return len(self._waiting) > self._half

    async def room(self) -> None:
        """Wait until this is behind no more: whoever makes messages of what it reads reads no further until then.

        So the backlog of a peer that reads slowly stays bounded without a cut, however much comes in; one that takes
        nothing at all is cut, since others would wait for it.
        """
        clock = asyncio.get_running_loop().time
        frames, since = self.frames, clock()
        while self._open and self.is_behind:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self.frames != frames:
                frames, since = self.frames, clock()
            elif clock() - since > self._stall_limit_s and self._open:
                self.overflows += 1
                self.cut(f"reads too slowly: it took none of {len(self)} messages for {self._stall_limit_s:g} s")

    def put_frame(self, frame: bytes) -> bool:
        """Send a frame that is ready, by itself and in its place among the messages; else as `put`."""
        return self.put(_Frame(frame))  # type: ignore[arg-type]  # the writer knows it from a message

    def cut(self, reason: str, code: int = WSCloseCode.TRY_AGAIN_LATER) -> None:
        """Give the link up: what waits is dropped, the peer is told why, and it need not answer."""
        if self._open:
            self._open = False
            self._cutting = asyncio.create_task(self._cut(reason, code))

    async def close(self, *, flush_limit_s: float = 1.0, code: int = WSCloseCode.OK, reason: str = "") -> None:
        """Send what waits, then close; cut when that takes longer than `flush_limit_s`. May be repeated."""
        if self._open:
            self._open = False
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(flush_limit_s):
                        self._waiting.append(_END)
                        self._wake()
                        await self._writer
            finally:
                self._cutting = asyncio.create_task(self._end(reason, code))
        if self._cutting is not None:
            await asyncio.wait([self._cutting])

    async def _write(self) -> None:
        waiting, encode, send = self._waiting, self._encode, self._ws.send_bytes
        loop = asyncio.get_running_loop()
        batch: list[Message] = []
        try:
            while True:
                if not waiting:
                    self._asleep = loop.create_future()
                    await self._asleep
                message = waiting.popleft()
                while not isinstance(message, _Frame):
                    batch.append(message)
                    if len(batch) == self._max_batch or not waiting:
                        break
                    message = waiting.popleft()
                if batch:
                    frame = encode(batch)
                    await send(frame)
                    self.frames += 1
                    self.messages += len(batch)
                    self.bytes += len(frame)
                    batch.clear()
                if message is _END:
                    return
                if isinstance(message, _Frame):
                    await send(message.data)
                    self.frames += 1
                    self.bytes += len(message.data)
        except ConnectionError as error:
            self.cut(f"the peer is gone: {error}")
        except Exception as error:
            _log.exception("the messages could not be sent: %r", batch[:10])
            self.cut(f"cannot send: {error!r}", WSCloseCode.INTERNAL_ERROR)

    async def _cut(self, reason: str, code: int) -> None:
        try:
            self._on_cut(reason)
        except Exception:
            _log.exception("whoever is to hear of a cut link failed")
        await self._end(reason, code)

    async def _end(self, reason: str, code: int) -> None:
        self._writer.cancel()
        # A peer that does not read takes no goodbye either, and with data still to be written its transport
        # would stay open until TCP gives up: a copy of the socket is kept to shut the connection then.
        connection = _copy_of_socket(self._ws)
        try:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(self._cut_limit_s):
                    await self._ws.close(code=code, message=_close_message(reason))
        finally:
            if connection is not None:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()


class _Frame:
    """Stands in the queue for a frame that is ready."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


_END = _Frame(b"")


def _close_message(reason: str) -> bytes:
    """Shorten a reason to what a close frame takes, 123 bytes, without breaking a letter."""
    return reason.encode()[:123].decode(errors="ignore").encode()


def _bound_silence(ws: WebSocket, heartbeat_s: float | None) -> None:
    """Let the kernel, too, give up what a silent peer does not take.

    The heartbeat gives the link up, but a transport that is closed waits for what it has still to deliver: to a host
    that is gone TCP would go on trying for a quarter of an hour, and keep the descriptor for so long.
    """
    connection = None if heartbeat_s is None else _copy_of_socket(ws)
    if connection is not None and heartbeat_s is not None:
        with connection, suppress(AttributeError, OSError):  # Linux has it, for TCP
            limit_ms = max(1, round(UNDELIVERED_HEARTBEATS * heartbeat_s * 1e3))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)


def _copy_of_socket(ws: WebSocket) -> socket.socket | None:
    original = ws.get_extra_info("socket")
    try:
        return None if original is None else socket.socket(fileno=os.dup(original.fileno()))
    except OSError:  # closed already
        return None
