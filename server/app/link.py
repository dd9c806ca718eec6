"""One link: dial a router's address, greet, carry messages both ways, and dial again when it is lost."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import ClientError, ClientWebSocketResponse, WSCloseCode, WSMsgType

from router.process.client import failure, is_refusal, was_cut
from router.process.outbox import Outbox, dial
from router.protocol.codec import FROM_ROUTER, LinkCodec, unpack
from router.protocol.errors import RemoteProtocolError
from router.protocol.messages import Message
from router.protocol.needs import Needs, too_often
from router.protocol.notices import NewNeeds, Welcome, check_version, read_notice
from server.app.discovery import Address
from server.backoff import Backoff

if TYPE_CHECKING:
    from server.app.links import Links

REFUSALS = ("protocol", "duplicate", "limit", "internal")

_log = logging.getLogger(__name__)


@dataclass
class LinkCounts:
    """What happened on the links so far.

    Attributes:
        ups: Links that came up. `losses`: those of them that are down again.
        failures: Attempts that brought no link.
        refusals: Links closed from this side, by cause: `protocol`: the router said what is not allowed;
            `duplicate`: it has a link already; `limit`: it is one router too many, and was not dialled;
            `internal`: a mistake of ours.
        delays: Messages from routers that share our clock. `delay_s`: the sum of their one-way delays.
    """

    ups: int = 0
    losses: int = 0
    failures: int = 0
    refusals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REFUSALS, 0))
    delays: int = 0
    delay_s: float = 0.0


class Link:
    """The link to one address.

    Attributes:
        address: Where the router is.
        router: Its name, while the link is up. `epoch`: its incarnation.
        up: Whether messages flow.
        wanted: Whether discovery still names the address.
        duplicate: Whether the address leads to a router that is linked by another one.
    """

    def __init__(self, links: Links, address: Address) -> None:
        self.address = address
        self.router = ""
        self.epoch = 0
        self.up = False
        self.wanted = True
        self.duplicate = False
        self._warned = False
        self._links = links
        self._driver = links.driver
        settings = links.settings
        rng = settings.stream(settings.id, f"backoff:{address}")
        self._backoff = Backoff(settings.reconnect_first_s, settings.reconnect_most_s, rng)
        self._codec: LinkCodec
        self._shares_clock = False
        self._ws: ClientWebSocketResponse
        self._outbox: Outbox[Message]

    async def run(self) -> None:
        """Dial, serve, and dial again, as long as the address is wanted."""
        clock = self._driver.clock
        while self.wanted:
            began = clock()
            try:
                await self._once()
            except (ClientError, OSError, TimeoutError) as error:
                self._links.counts.failures += 1
                # What waiting hardly mends is told at once, but not each time.
                lasts = is_refusal(error) or was_cut(error)
                level = logging.WARNING if lasts and not self._warned else logging.INFO
                self._warned = level == logging.WARNING or self._warned
                _log.log(level, "no link to %s: %s", self.address, failure(error))
            if self.wanted:
                await asyncio.sleep(self._backoff.pause(clock() - began))

    async def close(self) -> None:
        """Send what waits, then say goodbye."""
        if self.up:
            await self._outbox.close(reason="the server process ends", code=WSCloseCode.GOING_AWAY)

    def tell(self, frame: bytes) -> None:
        """Send a notice, in its place among the messages."""
        self._outbox.put_frame(frame)

    # -- one connection -----------------------------------------------------------------------

    async def _once(self) -> None:
        settings = self._links.settings
        async with asyncio.timeout(settings.handshake_limit_s):
            url = f"{self.address.url}/v1/link"
            self._ws = await dial(self._links.session, url, heartbeat_s=settings.heartbeat_s)
        self._outbox = Outbox(self._ws, self._encode, limit=settings.backlog, on_cut=self._lose)
        try:
            async with asyncio.timeout(settings.handshake_limit_s):
                await self._ws.send_bytes(self._links.hello)
                welcome = await self._receive_welcome()
            if welcome is not None and self._join(welcome):
                await self._serve()
        except RemoteProtocolError as error:
            self._refuse("protocol", str(error), WSCloseCode.PROTOCOL_ERROR)
        except (ClientError, OSError, TimeoutError):
            raise
        except Exception:
            _log.exception("the link to %s failed for a reason that is ours", self.address)
            self._refuse("internal", "mistake in the server process", WSCloseCode.INTERNAL_ERROR)
        finally:
            self._lose("the link is lost")
            self._outbox.cut("the link is lost")
            await self._outbox.close()

    async def _receive_welcome(self) -> Welcome | None:
        data = await self._receive()
        if data is None:
            self._links.counts.failures += 1
            _log.info("router at %s closed before its welcome (code %s)", self.address, self._ws.close_code)
            return None
        welcome = read_notice(unpack(data))
        if not isinstance(welcome, Welcome):
            raise RemoteProtocolError(f"expected the welcome first, found notice {welcome.notice!r}")
        check_version(welcome.version)
        self._check(welcome.needs)
        return welcome

    def _join(self, welcome: Welcome) -> bool:
        """Register the router, unless it has a link already."""
        other = self._links.linked_by(welcome.router)
        self.duplicate = other is not None and welcome.epoch <= other.epoch
        if other is not None:
            if self.duplicate:
                reason = f"router {welcome.router} is linked already, by {other.address}"
                self._refuse("duplicate", reason, WSCloseCode.POLICY_VIOLATION)
                self._links.settled()
                return False
            other.replace()
        self.router = welcome.router
        self.epoch = welcome.epoch
        self._shares_clock = welcome.boot == self._links.boot
        self._codec = LinkCodec(welcome.router, list(self._driver.cores), FROM_ROUTER)
        self.up = True
        self._warned = False
        self._links.counts.ups += 1
        self._driver.router_joined(welcome.router, welcome.needs, self._outbox.put, welcome.epoch)
        self._links.joined(self)
        return True

    async def _serve(self) -> None:
        if draining := self._driver.draining:
            self.tell(self._links.drains(draining))
        for server in self._driver.rerated:  # the hello has said the rates of the start
            self.tell(self._links.rated(server))
        while (data := await self._receive()) is not None:
            if not self.up:
                return  # frames that were on their way when the link was lost
            value = unpack(data)
            if type(value) is list:
                self._take(value)
            else:
                self._take_notice(value)

    def _take(self, frame: list[Any]) -> None:
        stamp_s, messages = self._codec.read(frame)
        if self._shares_clock:
            counts = self._links.counts
            counts.delays += len(messages)
            counts.delay_s += max(0.0, self._driver.clock() - stamp_s) * len(messages)
        self._driver.receive(messages)

    def _take_notice(self, value: Any) -> None:
        notice = read_notice(value)
        if not isinstance(notice, NewNeeds):
            raise RemoteProtocolError(f"expected messages or new needs, found notice {notice.notice!r}")
        self._check(notice.needs)
        self._driver.needs_changed(self.router, notice.needs)

    def _check(self, needs: Needs) -> None:
        if wrong := too_often(needs, self._links.settings.time_unit_s):
            raise RemoteProtocolError(wrong)

    # -- bytes --------------------------------------------------------------------------------

    def _encode(self, messages: list[Message]) -> bytes:
        return self._codec.encode(messages, self._driver.clock())

    async def _receive(self) -> bytes | None:
        """The next frame; `None`: the link is closed.

        Raises:
            RemoteProtocolError: The router sent what is no binary frame, or a frame that is too long.
        """
        await asyncio.sleep(0)  # frames that are there already are received without a pause: others have their turn
        message = await self._ws.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is WSMsgType.TEXT:
            raise RemoteProtocolError("expected a binary frame, found text")
        if message.type is WSMsgType.ERROR and self._ws.close_code in _PEER_IS_WRONG:
            raise RemoteProtocolError(f"no valid WebSocket frame: {message.data}")
        return None

    # -- the end ------------------------------------------------------------------------------

    def replace(self) -> None:
        """A newer incarnation of the router has a link of its own."""
        self._lose("a newer incarnation of the router is linked")
        self._outbox.cut("a newer incarnation of this router is linked", WSCloseCode.GOING_AWAY)

    def _refuse(self, cause: str, reason: str, code: int) -> None:
        self._links.counts.refusals[cause] += 1
        _log.warning("link to %s refused: %s", self.address, reason)
        self._lose(reason)
        self._outbox.cut(reason, code)

    def _lose(self, reason: str) -> None:
        """Tell the servers, once; later frames and messages of this link are void."""
        if self.up:
            self.up = False
            self._links.counts.losses += 1
            _log.info("link to router %s at %s is down: %s", self.router, self.address, reason)
            self._links.left(self)
            self._driver.router_left(self.router)


_PEER_IS_WRONG = (
    WSCloseCode.PROTOCOL_ERROR, WSCloseCode.UNSUPPORTED_DATA, WSCloseCode.INVALID_TEXT, WSCloseCode.MESSAGE_TOO_BIG
)  # fmt: skip
