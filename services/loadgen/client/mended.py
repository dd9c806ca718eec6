"""A stream of jobs to one router that is opened again whenever it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import aiohttp

from router.protocol.errors import HerdlessError
from router.protocol.stream import Request
from services.loadgen.client.links import Book, RouterLink, StreamLink, failed

PAUSE_S = 0.1


class MendedStream(RouterLink):
    """Jobs to one router, as long as it can be reached.

    Rule: jobs that are under way when the stream is lost end as `failed: link_lost`, those that are due while there
    is none as `failed: no_router`. An open loop waits for no router, so none is kept for later.
    """

    @classmethod
    async def connect(cls, session: aiohttp.ClientSession, url: str, ledger: Book, boot: str) -> MendedStream:
        """Open the first stream.

        Raises:
            TransportError: Nobody answers there, or nobody that speaks this protocol.
        """
        return cls(session, await StreamLink.connect(session, url, ledger, boot), boot)

    def __init__(self, session: aiohttp.ClientSession, link: StreamLink, boot: str) -> None:
        super().__init__(link.url, link.ledger)
        self._session = session
        self._boot = boot
        self._link = link
        self._mending = asyncio.create_task(self._mend())

    @property
    def is_up(self) -> bool:
        """Whether a job that is sent now may reach the router."""
        return self._link.is_up

    def send(self, requests: Sequence[Request], now: float) -> None:
        """Send these jobs, or book that there is no router."""
        if self.is_up:
            self._link.send(requests, now)
            return
        now = time.monotonic()
        for request in requests:
            self.ledger.ends(failed(request[0], "no_router"), now)

    async def close(self) -> None:
        """Give the stream up; jobs that are still open end as lost."""
        self._mending.cancel()
        with suppress(asyncio.CancelledError):
            await self._mending
        await self._link.close()

    async def _mend(self) -> None:
        while True:
            await self._link.lost()
            await self._link.close()
            with suppress(HerdlessError):
                self._link = await StreamLink.connect(self._session, self.url, self.ledger, self._boot)
            await asyncio.sleep(PAUSE_S)
