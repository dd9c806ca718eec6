"""Frames that a router reads from a WebSocket."""

from __future__ import annotations

import asyncio

from aiohttp import WSMessage, WSMsgType

from router.app.counts import Traffic
from router.app.wire import read_frame


class _Full:
    """A WebSocket that always has a frame ready, so that reading it never pauses."""

    async def receive(self) -> WSMessage:
        return WSMessage(WSMsgType.BINARY, b"x", None)


async def test_a_peer_that_sends_without_a_pause_leaves_everybody_else_a_turn_between_two_frames():
    order: list[str] = []

    async def read(name: str) -> None:
        for _ in range(3):
            assert await read_frame(_Full(), Traffic()) == b"x"  # type: ignore[arg-type]
            order.append(name)

    await asyncio.gather(read("a"), read("b"))
    assert order == ["a", "b"] * 3
