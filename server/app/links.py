"""The links to all routers: who is dialled, who is linked, and when the servers open."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from aiohttp import ClientSession

from router.process.client import open_session
from router.process.identity import Identity, make_identity
from router.protocol.notices import VERSION, Drains, Hello, Rated, ServerEntry, encode_notice
from server.app.discovery import Address, Discovery, Resolve, parse_target, resolve
from server.app.driver import ServerDriver
from server.app.link import Link, LinkCounts
from server.app.settings import ServerSettings

_log = logging.getLogger(__name__)


class Links:
    """One link to each router; create it inside the running loop.

    Rule: every address that discovery names is dialled for as long as it is named; an address that is named no
    longer is given up once its link is down. A router that is reached by two addresses keeps the first link.

    Args:
        settings: Whom to dial and how.
        driver: Is told of links and messages.
        resolve: Looks up a name.
        identity: Who this process is; left out: who it becomes now.

    Attributes:
        epoch: Which incarnation of this process it is. `boot`: which clock it reads.
        counts: What happened on the links so far.
    """

    def __init__(
        self,
        settings: ServerSettings,
        driver: ServerDriver,
        *,
        resolve: Resolve = resolve,
        identity: Identity | None = None,
    ) -> None:
        _, self.epoch, self.boot = identity or make_identity(settings.id)
        self.counts = LinkCounts()
        self.driver = driver
        self.settings = settings
        self.places = {server: place for place, server in enumerate(driver.cores)}
        self.hello = encode_notice(self._hello())
        self._by_router: dict[str, Link] = {}
        self._by_address: dict[Address, Link] = {}
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self.session: ClientSession
        self._discovery = Discovery(
            [parse_target(text) for text in settings.routers],
            self._dial_these,
            every_s=settings.resolve_every_s,
            resolve=resolve,
        )
        self._discovering: asyncio.Task[None] | None = None
        self._opening: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to look for routers."""
        self.session = open_session()
        self._discovering = asyncio.create_task(self._discovery.run())

    async def close(self) -> None:
        """Send what waits, say goodbye and dial no more."""
        if self._opening is not None:
            self._opening.cancel()
        if self._discovering is not None:
            self._discovering.cancel()
            await asyncio.wait([self._discovering])
        for link in self._by_address.values():
            link.wanted = False  # one that is closed must not dial again while another one is still closing
        await asyncio.gather(*(link.close() for link in self._by_router.values()))
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.session.close()

    # -- what is there ------------------------------------------------------------------------

    @property
    def up(self) -> int:
        """Links that are up."""
        return len(self._by_router)

    @property
    def all_up(self) -> bool:
        """Whether every router that is known has its link, and there is one."""
        links = [link for link in self._by_address.values() if link.wanted]
        return self.up > 0 and all(link.up or link.duplicate for link in links)

    # -- told by a link -----------------------------------------------------------------------

    def linked_by(self, router: str) -> Link | None:
        """The link that a router has."""
        return self._by_router.get(router)

    def joined(self, link: Link) -> None:
        """A link is up and registered under its router; open when it was the last one that was missing."""
        self._by_router[link.router] = link
        if self.driver.opened:
            return
        if self.all_up:
            self._open()
        elif self._opening is None:
            self._opening = asyncio.get_running_loop().call_later(self.settings.open_after_s, self._open)

    def settled(self) -> None:
        """An address turned out to lead to a router that has its link: perhaps no other is missing."""
        if not self.driver.opened and self.all_up:
            self._open()

    def left(self, link: Link) -> None:
        """A link is down."""
        del self._by_router[link.router]

    # -- draining -----------------------------------------------------------------------------

    def drain(self, servers: list[str]) -> None:
        """Tell servers and routers that these servers take nothing new."""
        self.driver.drain(servers)
        for link in self._by_router.values():
            link.tell(self.drains(servers))

    def rate(self, server: str, rate: float) -> None:
        """Tell a server, and the routers, that it has another rate from now on."""
        self.driver.rate(server, rate)
        for link in self._by_router.values():
            link.tell(self.rated(server))

    def rated(self, server: str) -> bytes:
        """The notice, as a frame."""
        return encode_notice(Rated(server=self.places[server], rate=self.driver.cores[server].spec.rate))

    def drains(self, servers: list[str]) -> bytes:
        """The notice, as a frame."""
        return encode_notice(Drains(servers=[self.places[server] for server in servers]))

    # -- inside -------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self.driver.open()

    def _dial_these(self, addresses: list[Address]) -> None:
        most = self.settings.max_links
        if len(addresses) > most:
            self.counts.refusals["limit"] += len(addresses) - most
            _log.warning("%d routers are named: only the first %d are dialled (max_links)", len(addresses), most)
            addresses = addresses[:most]
        for address in addresses:
            link = self._by_address.get(address)
            if link is None:
                self._by_address[address] = link = Link(self, address)
                self._tasks[address] = task = asyncio.create_task(link.run())
                task.add_done_callback(partial(self._forget, address))
            link.wanted = True
        named = set(addresses)
        for address, link in self._by_address.items():
            if address not in named:
                link.wanted = False
                if not link.up:
                    self._tasks[address].cancel()
        self.settled()

    def _forget(self, address: Address, task: asyncio.Task[None]) -> None:
        del self._tasks[address]
        link = self._by_address.pop(address)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the link to %s ended for a reason that is ours", address, exc_info=error)
        elif link.wanted and self._discovering is not None and not self._discovering.cancelled():
            self._dial_these(self._discovery.addresses)  # named again while it was given up

    def _hello(self) -> Hello:
        servers = [ServerEntry(**core.spec._asdict()) for core in self.driver.cores.values()]
        return Hello(
            version=VERSION, process=self.settings.id, epoch=self.epoch, boot=self.boot, servers=servers
        )  # fmt: skip
