"""Who looks on: each viewer has a short queue, and one that does not keep up is dropped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

MOST_VIEWERS = 50
MOST_WAITING = 20
"""Some three seconds: a page that is further behind shows the past."""


def encode(event: str, value: Any) -> bytes:
    """One server-sent event."""
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"event: {event}\ndata: {data}\n\n".encode()


class Viewer:
    """One open page."""

    def __init__(self) -> None:
        self.dropped = False
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)

    def offer(self, data: bytes) -> bool:
        """Queue what is to be sent next; `False`: it is too far behind, and dropped."""
        if self.dropped:
            return False
        try:
            self._waiting.put_nowait(data)
        except asyncio.QueueFull:
            self.dropped = True
            self.end()
        return not self.dropped

    def end(self) -> None:
        """Let it finish: nothing that still waits is worth sending."""
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)

    async def next(self) -> bytes | None:
        """What is to be sent next; `None`: nothing more."""
        return await self._waiting.get()


class Viewers:
    """All open pages. What is sent is encoded once, however many there are.

    Args:
        hello: What a new viewer is told first.
    """

    def __init__(self, hello: Callable[[], Any]) -> None:
        self.open: set[Viewer] = set()
        self.dropped = 0
        self._hello = hello

    def join(self) -> Viewer | None:
        """Open another page; `None`: there are too many."""
        if len(self.open) >= MOST_VIEWERS:
            return None
        viewer = Viewer()
        viewer.offer(encode("hello", self._hello()))
        self.open.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """A page is closed."""
        self.open.discard(viewer)

    def tell(self, event: str, value: Any) -> None:
        """Send to all; whoever is too slow is dropped."""
        if not self.open:
            return
        data = encode(event, value)
        for viewer in list(self.open):
            if not viewer.offer(data):
                self.dropped += 1
                self.open.discard(viewer)

    def end_all(self) -> None:
        """The console ends."""
        for viewer in list(self.open):
            viewer.end()
