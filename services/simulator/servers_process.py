"""A process of servers in virtual time: it dials all routers, and does what the live one does around its cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from router.protocol.needs import Needs
from server.core import Drain, NeedsChanged, Open, RateChanged, RouterJoined, RouterLeft
from services.simulator.links import Drains, Hello, Lost, NewNeeds, Port, Rated, Welcome
from services.simulator.process import Process

if TYPE_CHECKING:
    from services.simulator.faulty_world import FaultyWorld


class ServersProcess(Process):
    """A process of servers, which dials all routers.

    Attributes:
        cores: Its servers, by name.
        by_router: The ends of its links, those included that are only dialled.
        opened: Whether the first pull-messages were posted.
    """

    def __init__(self, world: FaultyWorld, name: str, epoch: int, cores: dict[str, Any], hello: Hello) -> None:
        super().__init__(world, name, epoch)
        self.cores = cores
        self.opened = False
        self.hello = hello
        self.by_router: dict[str, Port] = {}  # by router, those that are up or dialled
        self._began: dict[str, float] = {}
        self._backoffs = {router: world.backoff(name, router) for router in world.routers}
        self._opening = False
        self._rated: dict[str, Rated] = {}  # servers whose rate is not what the hello says

    def ports(self) -> list[Port]:
        """Its ends of links."""
        return list(self.by_router.values())

    def dial_all(self, now: float) -> None:
        """Dial all routers."""
        for router in self.world.routers:
            self.dial(router, now)

    def dial(self, router: str, now: float) -> None:
        """Dial a router; again after a pause if it is in vain."""
        self.meanwhile(self._dial, router, None, now)

    def _dial(self, router: str, _: None, now: float) -> None:
        link = self.world.connect(router, self)
        self._began[router] = now
        if link is None:
            self._dial_later(router, now)
            return
        port = self.by_router[router] = link.to_router
        port.send(self.hello, now)
        self._agenda.at(now + self.world.handshake_limit, self._check_welcome, port)

    def join(self, port: Port, needs: Needs, epoch: int, now: float) -> None:
        """The link is up."""
        port.up = True
        router = port.peer.party.name
        self.by_router[router] = port
        self._began.setdefault(router, now)
        self._all(RouterJoined(router, needs, epoch), now)
        if self.opened:
            pass
        elif len(self.by_router) == len(self._backoffs) and all(port.up for port in self.by_router.values()):
            self.open(now)
        elif not self._opening:
            self._opening = True
            self._agenda.at(now + self.world.open_after, self._open_due, None)
        if self.draining:
            port.send(Drains(list(self.cores)), now)
        for rated in self._rated.values():
            port.send(rated, now)

    def open(self, now: float) -> None:
        """Post the first pull-messages."""
        self.opened = True
        self._all(Open(), now)

    def disturb(self, server: str, change: dict[str, Any], now: float) -> None:
        """Make a server misbehave in a further way; no change: in no way any more. Who stands still is not told."""
        if self.alive and not self.hung:
            core = self.cores[server]
            former = core.disturbance
            self._hand_over(core, former._replace(**change) if change else type(former)(), now, now)

    def rate(self, server: str, rate: float, now: float) -> None:
        """Let a server have another rate, and tell the routers."""
        self.meanwhile(self._rate, server, rate, now)

    def _rate(self, server: str, rate: float, now: float) -> None:
        rated = self._rated[server] = Rated(server, rate)
        self._hand_over(self.cores[server], RateChanged(rate), now, now)
        for port in self.by_router.values():
            if port.up:
                port.send(rated, now)

    def _drain(self, _: None, __: None, now: float) -> None:
        if not self.draining:
            self._all(Drain(), now)
            for port in self.by_router.values():
                if port.up:
                    port.send(Drains(list(self.cores)), now)
            self.draining = True
            self._agenda.at(now + self.world.drain_limit, self.drain_is_over, None)
            self._end_if_empty(now)

    def _end_if_empty(self, now: float) -> None:
        if self.draining and self.alive and not any(core.length for core in self.cores.values()):
            self.world.end_process(self, now)

    def _all(self, event: Any, now: float) -> None:
        for core in self.cores.values():
            self._hand_over(core, event, now, now)

    def _hand_over(self, core: Any, event: Any, at: float, now: float) -> None:
        super()._hand_over(core, event, at, now)
        if self.draining and not core.length and not self._catching_up:
            self._end_if_empty(now)

    def _port_of(self, message: Any) -> Port:
        return self.by_router[message.router]

    def _take(self, port: Port, what: Any, now: float) -> None:
        kind = type(what)
        if port.closed:
            pass
        elif kind is Lost:
            self._lose(port, now)
        elif kind is Welcome:
            self.join(port, what.needs, what.epoch, now)
        elif kind is NewNeeds:
            self._all(NeedsChanged(port.peer.party.name, what.needs), now)
        else:
            self._hand_over(self.cores[what.server], what, now, now)

    def _lose(self, port: Port, now: float) -> None:
        router = port.peer.party.name
        was_up = port.up
        port.close()
        if was_up:
            self._all(RouterLeft(router), now)
        del self.by_router[router]
        self._dial_later(router, now)

    def _dial_later(self, router: str, now: float) -> None:
        pause = self._backoffs[router].pause(now - self._began[router])
        self._agenda.at(now + pause, self.dial, router)

    def _check_welcome(self, port: Port, now: float) -> None:
        self.meanwhile(self._give_up_dialling, port, None, now)

    def _give_up_dialling(self, port: Port, _: None, now: float) -> None:
        if not port.up and not port.closed:
            self.give_up(port, now)

    def _open_due(self, _: None, now: float) -> None:
        self.meanwhile(self._open_if_closed, None, None, now)

    def _open_if_closed(self, _: None, __: None, now: float) -> None:
        if not self.opened:
            self.open(now)
