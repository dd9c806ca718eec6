"""How jobs reach a router and their ends come back: a stream of batches, or one HTTP request each."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import aiohttp

from router.process.client import failure, is_refusal
from router.process.outbox import Outbox, dial
from router.protocol.errors import RemoteProtocolError, SettingsError, TransportError
from router.protocol.messages import OUTCOMES
from router.protocol.stream import (
    MAX_FRAME_MESSAGES,
    Answer,
    Request,
    decode_answers,
    decode_greeting,
    encode,
)

GREETING_LIMIT_S = 5.0
MOST_OPEN = 1_000_000
"""Jobs under way by one stream: a router that falls behind leaves what it is sent unread."""

_log = logging.getLogger(__name__)


class Book(Protocol):
    """Where the ends of jobs are booked.

    Attributes:
        one_clock: Whether the instants in answers are on this host's clock.
        delay_s: Sum of the one-way delays of answers, of which there are `delays`.
    """

    one_clock: bool
    delay_s: float
    delays: int

    def ends(self, answer: Answer, now: float) -> None:
        """The job has come back.

        Raises:
            RemoteProtocolError: There can be no such job.
        """


class RouterLink(ABC):
    """Jobs to one router, ends into the ledger. Jobs that the link loses end as `failed: link_lost`."""

    def __init__(self, url: str, ledger: Book) -> None:
        self.url = url
        self.ledger = ledger
        self._open: set[int] = set()

    @abstractmethod
    def send(self, requests: Sequence[Request], now: float) -> None:
        """Send these jobs; never waits."""

    @abstractmethod
    async def close(self) -> None:
        """Give the link up; jobs that are still open end as lost."""

    def _lose(self, reason: str = "link_lost") -> None:
        now = time.monotonic()
        for job in sorted(self._open):
            self.ledger.ends(failed(job, reason), now)
        self._open.clear()


class StreamLink(RouterLink):
    """One WebSocket, batches both ways."""

    @classmethod
    async def connect(
        cls, session: aiohttp.ClientSession, url: str, ledger: Book, boot: str, heartbeat_s: float | None = None
    ) -> StreamLink:
        """Open the stream and read the router's greeting.

        Args:
            session: To dial with.
            url: Of the router.
            ledger: Where ends are booked.
            boot: Identifies this host's clock.
            heartbeat_s: How often a silent router is asked whether it is still there; left out: its jobs wait.

        Raises:
            TransportError: Nobody answers there, or nobody that speaks this protocol.
            SettingsError: It refuses the token, or its certificate is not believed.
        """
        try:
            async with asyncio.timeout(GREETING_LIMIT_S):
                ws = await dial(session, f"{url}/v1/stream?boot={boot}", heartbeat_s=heartbeat_s)
                outbox: Outbox[Request] = Outbox(ws, lambda batch: encode(batch, time.monotonic()))
                try:
                    greeting = decode_greeting(await ws.receive_bytes())
                except BaseException as error:  # nobody else knows of this stream, whatever ends the waiting
                    await outbox.close(reason=str(error))
                    raise
        except (aiohttp.ClientError, OSError, TypeError, TimeoutError, RemoteProtocolError) as error:
            why = f"router {url}: no stream of jobs there ({failure(error)})"
            if is_refusal(error):
                raise SettingsError(
                    f"{why}: it has another token, or another authority signs its certificate"
                ) from None
            raise TransportError(f"{why}; is a router listening?") from None
        return cls(url, ledger, ws, outbox, greeting.boot == boot)

    def __init__(
        self,
        url: str,
        ledger: Book,
        ws: aiohttp.ClientWebSocketResponse,
        outbox: Outbox[Request],
        one_clock: bool,
    ) -> None:
        super().__init__(url, ledger)
        self._ws = ws
        self._one_clock = one_clock
        self._outbox = outbox
        self._reader = asyncio.create_task(self._read())
        ledger.one_clock = ledger.one_clock and one_clock

    @property
    def is_up(self) -> bool:
        """Whether a job that is sent now may reach the router."""
        return self._outbox.is_open and not self._reader.done()

    async def lost(self) -> None:
        """Wait until it is up no more."""
        await asyncio.wait([self._reader])

    def send(self, requests: Sequence[Request], now: float) -> None:
        """One frame; a long batch makes several. Jobs beyond the limit are not sent: they end as `failed: backlog`."""
        if len(self._open) + len(requests) > MOST_OPEN:
            for request in requests:
                self.ledger.ends(failed(request[0], "backlog"), now)
            return
        self._open.update(request[0] for request in requests)
        for start in range(0, len(requests), MAX_FRAME_MESSAGES):
            if not self._outbox.put_frame(encode(requests[start : start + MAX_FRAME_MESSAGES], now)):
                self._lose()

    async def close(self) -> None:
        """Send what waits, say goodbye, and book what has no end as lost."""
        await self._outbox.close()
        self._reader.cancel()
        await asyncio.wait([self._reader])
        self._lose()

    async def _read(self) -> None:
        ledger, still_open = self.ledger, self._open
        try:
            async for message in self._ws:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    continue
                now = time.monotonic()
                stamp, answers = decode_answers(message.data)
                if self._one_clock:
                    ledger.delay_s += now - stamp
                    ledger.delays += 1
                for answer in answers:
                    still_open.discard(answer[0])
                    ledger.ends(answer, now)
        except RemoteProtocolError as error:
            self._outbox.cut(str(error), aiohttp.WSCloseCode.PROTOCOL_ERROR)
        except Exception as error:
            _log.exception("the stream of router %s could not be read", self.url)
            self._outbox.cut(f"cannot read: {error!r}", aiohttp.WSCloseCode.INTERNAL_ERROR)
        finally:
            self._lose()


class HttpLink(RouterLink):
    """One `POST /v1/jobs` for each job, like any plain client; the server's clock stays unknown."""

    @classmethod
    async def connect(cls, session: aiohttp.ClientSession, url: str, ledger: Book) -> HttpLink:
        """Make sure that there is a router; connections are opened as jobs need them.

        Raises:
            TransportError: Nobody answers there, or nobody that is a router.
        """
        try:
            async with asyncio.timeout(GREETING_LIMIT_S), session.get(f"{url}/health") as response:
                health = await response.json(content_type=None)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise TransportError(f"router {url}: no answer as of a router ({failure(error)})") from None
        if type(health) is not dict or health.get("role") != "router":
            raise TransportError(f"router {url}: something else listens there: {health!r:.80}")
        return cls(url, ledger, session)

    def __init__(self, url: str, ledger: Book, session: aiohttp.ClientSession) -> None:
        super().__init__(url, ledger)
        self._session = session
        self._tasks: set[asyncio.Task[None]] = set()
        ledger.one_clock = False

    def send(self, requests: Sequence[Request], now: float) -> None:
        """One task a job: an open loop waits for no answer before it sends the next."""
        for request in requests:
            self._open.add(request.id)
            task = asyncio.create_task(self._post(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up on what has no answer, and book it as lost."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._lose()

    async def _post(self, request: Request) -> None:
        body: dict[str, float] = {"size": request.size}
        if request.patience is not None:
            body["patience"] = request.patience
        try:
            async with self._session.post(self.url + "/v1/jobs", json=body) as response:
                refused = response.status == 401
                end = failed(request.id, "token") if refused else _answer(request.id, await response.json())
        except (aiohttp.ClientError, OSError):
            end = failed(request.id, "link_lost")
        except (KeyError, TypeError, ValueError):
            end = failed(request.id, "no_answer")
        self._open.discard(request.id)
        self.ledger.ends(end, time.monotonic())


def _answer(id: int, body: dict[str, object]) -> Answer:
    outcome, reason, server, pool = (str(body[key] or "") for key in ("outcome", "reason", "server", "pool"))
    if outcome not in OUTCOMES:
        raise ValueError(outcome)
    waiting, service = (float(str(body[key] or 0.0)) for key in ("waiting_s", "service_s"))
    return Answer(id, outcome, reason, server, pool, "", math.nan, waiting, service, False, False)


def failed(id: int, reason: str) -> Answer:
    """The end of a job that no router gave back."""
    return Answer(id, "failed", reason, "", "", "", 0.0, 0.0, 0.0, False, False)
