"""Links between simulated processes: in order, slow, silent or lost, as those of the live system are."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any, Literal, NamedTuple, Protocol

from router.protocol.needs import Needs
from server.core import ServerSpec
from services.simulator.agenda import Agenda


class Hello(NamedTuple):
    """The server process introduces its servers. `epoch`: its incarnation."""

    process: str
    epoch: int
    servers: Sequence[ServerSpec]


class Welcome(NamedTuple):
    """The router says what its policy needs. `epoch`: its incarnation."""

    needs: Needs
    epoch: int


class NewNeeds(NamedTuple):
    """The router has another policy, or drains."""

    needs: Needs


class Drains(NamedTuple):
    """These servers take nothing new."""

    servers: Sequence[str]


class Rated(NamedTuple):
    """This server has another rate from now on."""

    server: str
    rate: float


class Lost(NamedTuple):
    """The other end is closed; nothing comes after this."""


LOST = Lost()


class Party(Protocol):
    """What a link knows of the process at an end."""

    name: str
    epoch: int
    alive: bool
    hung: bool

    def receive(self, port: Port, what: Any, now: float) -> None:
        """Something has come by this end."""

    def give_up(self, port: Port, now: float) -> None:
        """The other end has been silent for too long."""


class Path:
    """The way between a router and a server process, by which one link after another may lead.

    Attributes:
        cut: `lost`: nothing passes, and both ends are told; `silent`: nothing passes for now, and nobody is told.
        delay: What each message takes longer, each way.
        links: Those that are not gone.
    """

    def __init__(self) -> None:
        self.cut: Literal["", "lost", "silent"] = ""
        self.delay = 0.0
        self.links: list[Link] = []

    def break_off(self, now: float) -> None:
        """Nothing passes any more, and what is under way never arrives."""
        self.cut = "lost"
        links, self.links = self.links, []
        for link in links:
            link.gone = True
            for port in link.ports:
                if not port.closed and port.party.alive:
                    port.party.receive(port, LOST, now)

    def fall_silent(self, now: float, heartbeat: float, silence: float) -> None:
        """Nothing passes for now, which both ends find out by themselves."""
        if not self.cut:
            self.cut = "silent"
            for port in self._ports_that_are_up():
                port.watch(now, heartbeat, silence)

    def heal(self, now: float) -> None:
        """Everything passes again, and as fast as ever."""
        self.cut = ""
        self.delay = 0.0
        for port in self._ports_that_are_up():
            if not port.hears_nothing:
                port.heard = now
        for link in self.links:
            for port in link.ports:
                port.release()

    def _ports_that_are_up(self) -> list[Port]:
        return [port for link in self.links for port in link.ports if port.up]


class Port:
    """One end of a link, and what it sends.

    Rule: what is sent arrives in order: what is faster than what was sent before waits for it. While the path is
    silent it waits at the end of the path, as bytes do that are sent again and again.

    Attributes:
        party: The process at this end. `peer`: the other end.
        up: Whether messages pass; before that it is dialled. `closed`: for good.
        heard: When something came here last.
    """

    __slots__ = (
        "_agenda", "_delay", "_last", "_under_way", "closed", "heard", "held", "link", "party", "peer", "up",
    )  # fmt: skip

    def __init__(self, agenda: Agenda, link: Link, party: Party, delay: float) -> None:
        self.link = link
        self.party = party
        self.peer = self
        self.up = False
        self.closed = False
        self.heard = agenda.now
        self.held: list[Any] = []
        self._agenda = agenda
        self._delay = delay
        self._last = 0.0
        self._under_way = 0

    @property
    def hears_nothing(self) -> bool:
        """Whether the other end could not answer just now, and does not say so."""
        return self.link.path.cut == "silent" or (self.peer.party.alive and self.peer.party.hung)

    def close(self) -> None:
        """Nothing passes any more."""
        self.up = False
        self.closed = True

    def send(self, what: Any, now: float) -> None:
        """Send a message or notice."""
        at = max(now + self._delay + self.link.path.delay, self._last)
        if at > now or self._under_way:
            self._last = at
            self._under_way += 1
            self._agenda.at(at, self._arrive, what)
        else:
            self._agenda.soon(self._reach, what)

    def release(self) -> None:
        """The path is silent no more."""
        held, self.held = self.held, []
        for what in held:
            self._agenda.soon(self._reach, what)

    def watch(self, now: float, heartbeat: float, silence: float) -> None:
        """From now on this end hears nothing: find out in time. So far it has been asking, and was answered."""
        self.heard += floor((now - self.heard) / heartbeat) * heartbeat
        self._agenda.at(self.heard + silence, self._find_out, self.heard)

    def watch_until(self, instant: float) -> None:
        """Find out at this instant, unless something comes before."""
        self._agenda.at(instant, self._find_out, self.heard)

    def _find_out(self, heard: float, now: float) -> None:
        if self.up and self.heard == heard and self.party.alive and not self.party.hung and self.hears_nothing:
            self.party.give_up(self, now)

    def _arrive(self, what: Any, now: float) -> None:
        self._under_way -= 1
        self._reach(what, now)

    def _reach(self, what: Any, now: float) -> None:
        if self.link.path.cut == "silent" or self.held:
            self.held.append(what)
        elif not self.link.gone:
            peer = self.peer
            peer.heard = now
            peer.party.receive(peer, what, now)


class Link:
    """A connection; a new one has nothing of the former one.

    Attributes:
        gone: Cut: what was under way never arrives.
        to_servers: The router's end. `to_router`: the server process's end.
    """

    def __init__(
        self,
        agenda: Agenda,
        path: Path,
        router: Party,
        servers: Party,
        delays: tuple[float, float],
    ) -> None:
        self.path = path
        self.gone = False
        self.to_servers = Port(agenda, self, router, delays[0])
        self.to_router = Port(agenda, self, servers, delays[1])
        self.to_servers.peer, self.to_router.peer = self.to_router, self.to_servers
        path.links.append(self)

    @property
    def ports(self) -> tuple[Port, Port]:
        """Both ends."""
        return self.to_servers, self.to_router
