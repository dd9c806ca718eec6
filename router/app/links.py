"""Links to server processes (`GET /v1/link`): handshake, messages, and what happens when one breaks a rule."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Any

from aiohttp import WSCloseCode, web

from router.app.driver import RouterDriver
from router.app.settings import RouterSettings
from router.app.wire import Refused, read_frame, unpack_frame
from router.policy import Server
from router.process.identity import Identity
from router.process.outbox import Outbox, accept
from router.protocol.codec import FROM_SERVER, LinkCodec
from router.protocol.errors import RemoteProtocolError
from router.protocol.messages import End, Message, Report
from router.protocol.notices import (
    VERSION,
    Drains,
    Hello,
    Rated,
    ServerEntry,
    Welcome,
    check_version,
    encode_notice,
    read_notice,
)

POLICY_VIOLATION = int(WSCloseCode.POLICY_VIOLATION)

_log = logging.getLogger(__name__)


class Link:
    """One link, from the WebSocket's opening to its loss.

    Args:
        ws: The WebSocket.
        router: This router's name.
        settings: How much may wait.
    """

    def __init__(self, ws: web.WebSocketResponse, router: str, settings: RouterSettings) -> None:
        self.outbox: Outbox[Message] = Outbox(
            ws, self._encode, limit=settings.most_waiting, stall_limit_s=settings.stall_limit_s
        )
        self.process = ""
        self.epoch = 0
        self.servers: list[Server] = []
        self.same_clock = False
        self.up = False
        self.codec = LinkCodec(router, (), FROM_SERVER)
        self._router = router

    def introduce(self, hello: Hello, boot: str) -> None:
        """Take over what the hello says."""
        self.process = hello.process
        self.epoch = hello.epoch
        self.servers = [_server(entry) for entry in hello.servers]
        self.same_clock = hello.boot == boot
        self.codec = LinkCodec(self._router, [server.id for server in self.servers], FROM_SERVER)

    def _encode(self, messages: list[Message]) -> bytes:
        return self.codec.encode(messages, monotonic())


class Links:
    """All links of this router.

    Args:
        driver: Is told of servers and messages.
        identity: Who this router is.
        settings: Heartbeats and limits.
    """

    def __init__(self, driver: RouterDriver, identity: Identity, settings: RouterSettings) -> None:
        self._driver = driver
        self._identity = identity
        self._settings = settings
        self._traffic = driver.counts.traffic["server"]
        self._open: set[Link] = set()
        self._by_process: dict[str, Link] = {}
        self._owner: dict[str, Link] = {}

    def __len__(self) -> int:
        """How many WebSockets are open, those without a hello yet included."""
        return len(self._open)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one link until it ends."""
        ws = await accept(request, heartbeat_s=self._settings.heartbeat_s)
        link = Link(ws, self._identity.id, self._settings)
        self._open.add(link)
        self._traffic.opened(link.outbox)
        code, reason = int(WSCloseCode.OK), ""
        try:
            self._admit(link, await self._hello(ws))
            while link.up and (data := await read_frame(ws, self._traffic)) is not None:
                if link.up:  # another one may have superseded it while this one waited for the frame
                    self._take(link, unpack_frame(data))
        except Refused as refusal:
            code, reason = refusal.code, str(refusal)
            self._traffic.refusals[refusal.kind] += 1
            _log.warning("the link of %s is refused: %s", link.process or "a stranger", refusal)
        except Exception:
            code, reason = int(WSCloseCode.INTERNAL_ERROR), "internal error: see the router's log"
            _log.exception("the link of %s ends for a reason that is ours", link.process or "a stranger")
        finally:
            self._lose(link)
            try:
                await link.outbox.close(code=code, reason=reason)
            finally:
                self._open.discard(link)
                self._traffic.closed(link.outbox)
        return ws

    async def close(self, reason: str) -> None:
        """End all links; what waits in their outboxes is sent first. Jobs that are still there end as `link_lost`."""
        for link in list(self._open):
            self._lose(link)
        await asyncio.gather(
            *(link.outbox.close(code=WSCloseCode.GOING_AWAY, reason=reason) for link in list(self._open))
        )

    # -- handshake ----------------------------------------------------------------------------

    async def _hello(self, ws: web.WebSocketResponse) -> Hello | None:
        limit_s = self._settings.hello_limit_s
        try:
            async with asyncio.timeout(limit_s):
                data = await read_frame(ws, self._traffic)
        except TimeoutError:
            raise Refused("hello", f"no hello within {limit_s:g} s", POLICY_VIOLATION) from None
        if data is None:
            return None
        frame = unpack_frame(data)
        if type(frame) is dict and type(frame.get("version")) is int:
            # First of all: the hello of another version may have another shape.
            try:
                check_version(frame["version"])
            except RemoteProtocolError as error:
                raise Refused("version", str(error), POLICY_VIOLATION) from None
        try:
            notice = read_notice(frame)
        except RemoteProtocolError as error:
            raise Refused("hello", f"a link begins with a hello: {error}") from None
        if type(notice) is not Hello:
            raise Refused("hello", f"a link begins with a hello, found the notice {notice.notice!r}")
        return notice

    def _admit(self, link: Link, hello: Hello | None) -> None:
        """Let the servers of a hello join, all of them or none."""
        if hello is None:
            return
        self._check_names(hello)
        former = self._by_process.get(hello.process)
        self._check_room(hello, () if former is None else former.servers)
        if former is not None:
            self._supersede(former, link, hello)
        link.introduce(hello, self._identity.boot)
        # Nothing comes between this welcome and the joining, so no change of needs is missed.
        self._welcome(link)
        link.up = True
        self._by_process[hello.process] = link
        self._owner.update({server.id: link for server in link.servers})
        self._driver.join(link.servers, link.outbox)

    def _welcome(self, link: Link) -> None:
        id, epoch, boot = self._identity
        welcome = Welcome(version=VERSION, router=id, epoch=epoch, boot=boot, needs=self._driver.needs)
        link.outbox.put_frame(encode_notice(welcome))

    def _supersede(self, former: Link, link: Link, hello: Hello) -> None:
        """A newer incarnation takes the place of the former one, whose link is not yet known to be lost.

        Nothing else does: a process that reaches this router under two addresses, or two processes of one name,
        would push each other out for ever, and each time the jobs in flight would be lost.
        """
        if hello.epoch == former.epoch:
            self._welcome(link)  # before it is refused, it learns whom it has reached by this address too
            raise Refused("duplicate", f"{hello.process} is linked already", POLICY_VIOLATION)
        if hello.epoch < former.epoch:
            raise Refused("duplicate", f"a newer incarnation of {hello.process} is linked", POLICY_VIOLATION)
        self._lose(former)
        former.outbox.cut(f"a newer incarnation of {hello.process} is linked", POLICY_VIOLATION)

    def _check_names(self, hello: Hello) -> None:
        for entry in hello.servers:
            owner = self._owner.get(entry.id)
            if owner is not None and owner.process != hello.process:
                raise Refused(
                    "duplicate",
                    f"server {entry.id} belongs to {owner.process}, which is linked: number them apart",
                    POLICY_VIOLATION,
                )

    def _check_room(self, hello: Hello, leaving: Sequence[Server]) -> None:
        """There is a place for all servers of a hello and for their pools, once those of its former link have left."""
        core, settings = self._driver.core, self._settings
        there, more = len(core.servers) - len(leaving), len(hello.servers)
        if there + more > settings.max_servers:
            reason = f"{more} servers beside {there}: max_servers is {settings.max_servers}"
            raise Refused("limit", reason, WSCloseCode.TRY_AGAIN_LATER)
        gone = {server.id for server in leaving}
        pools = {server.pool for server in core.servers.values() if server.id not in gone}
        pools.update(entry.pool for entry in hello.servers)
        if len(pools) > settings.max_pools:
            reason = f"{len(pools)} pools: max_pools is {settings.max_pools}"
            raise Refused("limit", reason, WSCloseCode.TRY_AGAIN_LATER)

    def _lose(self, link: Link) -> None:
        if link.up:
            link.up = False
            del self._by_process[link.process]
            for server in link.servers:
                del self._owner[server.id]
            self._driver.leave(link.servers, link.outbox)

    # -- frames -------------------------------------------------------------------------------

    def _take(self, link: Link, frame: Any) -> None:
        if type(frame) is dict:
            self._take_notice(link, frame)
            return
        now = monotonic()
        try:
            stamp_s, messages = link.codec.read(frame)
            self._check_seen(messages)
            if link.same_clock:
                self._traffic.under_way(now - stamp_s, len(messages))
            self._driver.receive(messages, now)
        except RemoteProtocolError as error:
            raise Refused("message", str(error)) from None
        if (held := self._driver.core.held_total) > self._settings.max_pull_messages:
            raise Refused("limit", f"{held} pull-messages: max_pull_messages is {self._settings.max_pull_messages}")

    def _take_notice(self, link: Link, frame: dict[Any, Any]) -> None:
        try:
            notice = read_notice(frame)
        except RemoteProtocolError as error:
            raise Refused("notice", str(error)) from None
        if type(notice) is Drains:
            self._driver.drain_servers([_named(link, notice.notice, place) for place in notice.servers])
        elif type(notice) is Rated:
            self._driver.rate_server(_named(link, notice.notice, notice.server), notice.rate)
        else:
            raise Refused("notice", f"the notice {notice.notice!r} is not allowed here, only drains and rated")

    def _check_seen(self, messages: Sequence[Message]) -> None:
        """Nobody has seen more dispatches than were sent; the core would find out after earlier messages were taken."""
        servers = self._driver.core.servers
        for message in messages:
            # mypy does not follow `type(x) is C` through a variable; isinstance would, at a cost for every job.
            kind = type(message)
            if kind is Report or kind is End:
                seen = message.seen  # type: ignore[union-attr]
                if seen is not None and seen > servers[message.server].sent:
                    sent = servers[message.server].sent
                    raise RemoteProtocolError(f"{message.server} has seen {seen} dispatches, of {sent} sent to it")


def _server(entry: ServerEntry) -> Server:
    return Server(entry.id, entry.pool, entry.rate, entry.slots, entry.capacity, entry.pool_index)


def _named(link: Link, notice: str, place: int) -> Server:
    if not 0 <= place < len(link.servers):
        raise Refused("notice", f"{notice} names server {place}, of {len(link.servers)} on the link")
    return link.servers[place]
