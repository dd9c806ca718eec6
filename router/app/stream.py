"""Streams of generators (`GET /v1/stream`): jobs come in batches, and so do their ends go out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from aiohttp import WSCloseCode, web

from router.app.driver import OnEnd, Outlet, RouterDriver
from router.app.settings import RouterSettings
from router.app.wire import Refused, read_frame
from router.events import EndJob
from router.process.identity import Identity
from router.process.outbox import Outbox, accept
from router.protocol.errors import RemoteProtocolError
from router.protocol.stream import VERSION, Answer, Greeting, Request, decode_requests, encode, encode_greeting

JOBS_A_TURN = 256
"""Jobs of streams that are taken in before the links have their turn: as many ends and reports as follow from them
reach this router in about one frame of each link, so that links never fall behind streams."""

_log = logging.getLogger(__name__)


class Streams:
    """All streams of this router.

    A stream has no limit of its own on the jobs that are under way, so it could bury the links: what comes in faster
    than the router and its servers get on with is left unread, and the sender feels it.

    Args:
        driver: Takes the jobs.
        identity: Who this router is.
        settings: Heartbeats, and how much may wait.
    """

    def __init__(self, driver: RouterDriver, identity: Identity, settings: RouterSettings) -> None:
        self._driver = driver
        self._identity = identity
        self._settings = settings
        self._traffic = driver.counts.traffic["generator"]
        self._turn = asyncio.Lock()
        self._taken = 0

    def __len__(self) -> int:
        """How many are open."""
        return len(self._traffic.outboxes)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one stream until it ends; jobs that are in the system then run on, and nobody hears of their ends."""
        ws = await accept(request, heartbeat_s=self._settings.heartbeat_s)
        settings = self._settings
        outbox: Outbox[Answer] = Outbox(ws, _encode, limit=settings.most_waiting, stall_limit_s=settings.stall_limit_s)
        self._traffic.opened(outbox)
        same_clock = request.query.get("boot") == self._identity.boot
        unheard = self._driver.counts.unheard

        def on_end(effect: EndJob, id: int) -> None:
            if not outbox.put(_answer(effect, id)):
                unheard["stream"] += 1

        code, reason = int(WSCloseCode.OK), ""
        try:
            outbox.put_frame(encode_greeting(Greeting(VERSION, self._identity.id, self._identity.boot)))
            while (data := await read_frame(ws, self._traffic)) is not None:
                now = monotonic()
                try:
                    stamp_s, requests = decode_requests(data)
                except RemoteProtocolError as error:
                    raise Refused("job", str(error)) from None
                if same_clock:
                    self._traffic.under_way(now - stamp_s, len(requests))
                await self._take(requests, on_end, outbox)
        except Refused as refusal:
            code, reason = refusal.code, str(refusal)
            self._traffic.refusals[refusal.kind] += 1
            _log.warning("a stream is refused: %s", refusal)
        except Exception:
            code, reason = int(WSCloseCode.INTERNAL_ERROR), "internal error: see the router's log"
            _log.exception("a stream ends for a reason that is ours")
        finally:
            try:
                await outbox.close(code=code, reason=reason)
            finally:
                self._traffic.closed(outbox)
        return ws

    async def _take(self, requests: Sequence[Request], on_end: OnEnd, outbox: Outbox[Answer]) -> None:
        """Take jobs in, a turn's worth at a time; wait while their ends or the messages about them pile up."""
        taken = self._taken + len(requests)
        if taken < JOBS_A_TURN and not (outbox.is_behind or self._turn.locked()):
            self._taken = taken
            self._driver.submit(requests, on_end, monotonic())
            return
        for start in range(0, len(requests), JOBS_A_TURN):
            if outbox.is_behind:
                await self._wait_for(outbox)
            part = requests[start : start + JOBS_A_TURN]
            async with self._turn:
                self._driver.submit(part, on_end, monotonic())
                self._taken += len(part)
                if self._taken >= JOBS_A_TURN:
                    self._taken = 0
                    await asyncio.sleep(0)
                    for link in self._driver.behind():
                        await self._wait_for(link)

    async def _wait_for(self, outbox: Outlet | Outbox[Answer]) -> None:
        self._traffic.pauses += 1
        await outbox.room()

    async def close(self, reason: str) -> None:
        """End all streams; answers that wait are sent first."""
        await asyncio.gather(
            *(outbox.close(code=WSCloseCode.GOING_AWAY, reason=reason) for outbox in list(self._traffic.outboxes))
        )


def _encode(answers: list[Answer]) -> bytes:
    return encode(answers, monotonic())


def _answer(effect: EndJob, id: int) -> Answer:
    _, outcome, reason, server, end, policy, fallback = effect
    name, pool = ("", "") if server is None else (server.id, server.pool)
    if end is None:
        return Answer(id, outcome, reason, name, pool, policy, 0.0, 0.0, 0.0, fallback, False)
    return Answer(id, outcome, reason, name, pool, policy, end.arrived, end.waiting, end.service, fallback, end.stale)
