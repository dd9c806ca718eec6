"""Reading frames from a WebSocket, and refusing those that the protocol does not allow."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import WebSocketError, WSCloseCode, WSMsgType, web

from router.app.counts import Traffic
from router.protocol.codec import unpack
from router.protocol.errors import RemoteProtocolError

REFUSALS = (
    "duplicate", "frame", "hello", "job", "limit", "message", "notice", "slow", "text", "too_long",
    "version", "websocket",
)  # fmt: skip
"""Why a peer is refused: the label of the metric."""


class Refused(RemoteProtocolError):
    """The peer broke a rule: its WebSocket is closed with this reason, and nothing else happens.

    Args:
        kind: One of `REFUSALS`.
        reason: What was expected and what was found.
        code: The close code.
    """

    def __init__(self, kind: str, reason: str, code: int = WSCloseCode.PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.kind = kind
        self.code = int(code)


async def read_frame(ws: web.WebSocketResponse, traffic: Traffic) -> bytes | None:
    """The next frame; `None` when the peer has closed or is gone.

    Raises:
        Refused: It is text, too long, or against the rules of WebSockets.
    """
    # Frames that are there already are received without a pause; between any two, everybody else has a turn.
    await asyncio.sleep(0)
    message = await ws.receive()
    if message.type is WSMsgType.BINARY:
        data: bytes = message.data
        traffic.frames_in += 1
        traffic.bytes_in += len(data)
        return data
    if message.type is WSMsgType.TEXT:
        raise Refused("text", "a frame is binary, found text")
    if message.type is WSMsgType.ERROR and isinstance(message.data, WebSocketError):
        code = message.data.code
        raise Refused("too_long" if code == WSCloseCode.MESSAGE_TOO_BIG else "websocket", str(message.data), code)
    return None


def unpack_frame(data: bytes) -> Any:
    """The value in a frame.

    Raises:
        Refused: It is no msgpack, or beyond the limits of the protocol.
    """
    try:
        return unpack(data)
    except RemoteProtocolError as error:
        raise Refused("frame", str(error)) from None
