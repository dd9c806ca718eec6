"""A router process in virtual time: what the live one does around its core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from router.core import Draining, JobArrived, PolicyChanged, ServerDraining, ServerJoined, ServerLeft, ServerRated
from router.policy import Job, Policy, Server
from router.protocol.messages import Dispatch, Probe
from router.protocol.needs import Needs
from services.simulator.links import LOST, Drains, Hello, Lost, NewNeeds, Port, Rated, Welcome
from services.simulator.process import Process

if TYPE_CHECKING:
    from services.simulator.faulty_world import FaultyWorld

NO_NEEDS = Needs()


class RouterProcess(Process):
    """A router.

    Attributes:
        core: Its core. `policy`: that in force.
        open: Jobs that it has taken and not given back, by id.
        by_server: The end of the link by which each server is reached.
    """

    def __init__(self, world: FaultyWorld, name: str, epoch: int, core: Any, policy: Policy) -> None:
        super().__init__(world, name, epoch)
        self.core = core
        self.policy = policy
        self.open: dict[int, Job] = {}
        self._ports: dict[str, Port] = {}  # by server process, those that are up
        self._all: dict[Port, None] = {}
        self.by_server: dict[str, Port] = {}

    def ports(self) -> list[Port]:
        """Its ends of links."""
        return list(self._all)

    @property
    def needs(self) -> Needs:
        """What servers must send now."""
        return NO_NEEDS if self.draining else self.policy.needs

    def submit(self, event: JobArrived, now: float) -> None:
        """A job comes from its generator."""
        self.open[event.job.id] = event.job
        self.meanwhile(self._handle, event, None, now)

    def switch(self, policy: Policy, now: float) -> None:
        """Put another policy in force, and tell all servers what it needs."""
        self.meanwhile(self._switch, policy, None, now)

    def accept(self, port: Port) -> None:
        """Somebody dials."""
        self._all[port] = None

    def introduce(self, port: Port, hello: Hello, now: float) -> None:
        """Let the servers of a hello join."""
        port.up = True
        self._ports[hello.process] = port
        for spec in hello.servers:
            self.by_server[spec.id] = port
            self._handle(ServerJoined(Server(*spec)), None, now)

    def _admit(self, port: Port, hello: Hello, now: float) -> None:
        former = self._ports.get(hello.process)
        if former is not None and former.peer.party.epoch >= hello.epoch:
            self._all.pop(port)
            port.close()
            port.send(LOST, now)  # refused: this incarnation is linked, or a newer one
            return
        if former is not None:
            self.give_up(former, now)
        self.introduce(port, hello, now)
        port.send(Welcome(self.needs, self.epoch), now)

    def _handle(self, event: Any, _: None, now: float) -> None:
        self._hand_over(self.core, event, now, now)

    def _port_of(self, message: Dispatch | Probe) -> Port:
        return self.by_server[message.server]

    def _take(self, port: Port, what: Any, now: float) -> None:
        kind = type(what)
        if port.closed:
            pass
        elif kind is Hello:
            self._admit(port, what, now)
        elif kind is Lost:
            self._lose(port, now)
        elif kind is Drains:
            for server in what.servers:
                self._handle(ServerDraining(server), None, now)
        elif kind is Rated:
            self._handle(ServerRated(what.server, what.rate), None, now)
        else:
            self._handle(what, None, now)

    def _lose(self, port: Port, now: float) -> None:
        del self._all[port]
        was_up = port.up
        port.close()
        if not was_up:
            return
        servers = [id for id, other in self.by_server.items() if other is port]
        del self._ports[port.peer.party.name]
        # All are taken out of the choice before the first one leaves, as in the live driver.
        for id in servers:
            self._handle(ServerDraining(id), None, now)
        for id in servers:
            self._handle(ServerLeft(id), None, now)
            del self.by_server[id]

    def _switch(self, policy: Policy, _: None, now: float) -> None:
        self._handle(PolicyChanged(policy), None, now)
        self.policy = policy
        self._announce(now)

    def _drain(self, _: None, __: None, now: float) -> None:
        if not self.draining:
            self.draining = True
            self._handle(Draining(), None, now)
            self._announce(now)
            self._agenda.at(now + self.world.drain_limit, self.drain_is_over, None)
            self._end_if_empty(now)

    def ended(self, job: int) -> None:
        """A job is given back."""
        del self.open[job]
        if self.draining:
            self._agenda.soon(self._look_if_empty, None)

    def _look_if_empty(self, _: None, now: float) -> None:
        self._end_if_empty(now)

    def _end_if_empty(self, now: float) -> None:
        if self.draining and self.alive and not self.hung and not self.open:
            self.world.end_process(self, now)

    def _announce(self, now: float) -> None:
        for port in self._ports.values():
            port.send(NewNeeds(self.needs), now)
