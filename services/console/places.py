"""Where the processes of a cluster are, and how they are asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import aiohttp

from router.process.client import open_session
from router.protocol.errors import HerdlessError
from services.lab.attach import addresses

LOOK_UP_EVERY_S = 2.0
ANSWER_LIMIT_S = 2.0


class Places(Protocol):
    """The URLs of the processes that there are now."""

    async def routers(self) -> Sequence[str]:
        """Of the routers."""

    async def servers(self) -> Sequence[str]:
        """Of the server processes; none where only routers are known."""

    async def generators(self) -> Sequence[str]:
        """Of the endless generators."""

    def name(self, url: str) -> str:
        """What a process is called; empty: not known."""


class Attached:
    """Processes that run already, found again and again by URL, `host:port` or name.

    Args:
        routers, servers, generators: Lists with commas between; servers and generators may be empty.
    """

    def __init__(self, routers: str, servers: str = "", generators: str = "") -> None:
        self._lists = {"routers": routers, "servers": servers, "generators": generators}
        self._found: dict[str, tuple[float, list[str]]] = {}

    async def routers(self) -> Sequence[str]:
        """Of the routers."""
        return await self._look_up("routers")

    async def servers(self) -> Sequence[str]:
        """Of the server processes."""
        return await self._look_up("servers")

    async def generators(self) -> Sequence[str]:
        """Of the endless generators."""
        return await self._look_up("generators")

    def name(self, url: str) -> str:
        """Nobody has told."""
        return ""

    async def _look_up(self, role: str) -> list[str]:
        """A name that cannot be looked up now keeps the addresses that it had."""
        text, now = self._lists[role], time.monotonic()
        looked_s, urls = self._found.get(role, (-LOOK_UP_EVERY_S, []))
        if text and now - looked_s >= LOOK_UP_EVERY_S:
            with suppress(HerdlessError):
                urls = await addresses(text)
            self._found[role] = now, urls
        return urls


class Asks(Protocol):
    """Asks a process by HTTP. `None`: it does not answer as it should."""

    async def json(self, url: str) -> Any:
        """What it answers, read as JSON."""

    async def text(self, url: str) -> str | None:
        """What it answers."""

    async def send(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        """Send a body; return the status and the answer, read as JSON."""


class Http:
    """Asks over the network.

    Args:
        session: What it uses.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def json(self, url: str) -> Any:
        """What it answers, read as JSON."""
        try:
            async with self._session.get(url) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return None

    async def text(self, url: str) -> str | None:
        """What it answers."""
        try:
            async with self._session.get(url) as response:
                return await response.text() if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return None

    async def send(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        """Send a body; return the status and the answer; 502 where there is none."""
        try:
            async with self._session.request(method, url, json=body) as response:
                return response.status, await response.json()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return 502, {"error": {"kind": "unreachable", "message": f"{url}: no answer ({type(error).__name__})"}}


def make_session() -> aiohttp.ClientSession:
    """A session for asking processes of a cluster."""
    return open_session(ANSWER_LIMIT_S)


async def ask_all(urls: Sequence[str], path: str, ask: Any) -> dict[str, Any]:
    """Ask several processes the same; leave out those that do not answer."""
    answers = await asyncio.gather(*(ask(url + path) for url in urls))
    return {url: answer for url, answer in zip(urls, answers, strict=True) if answer is not None}
