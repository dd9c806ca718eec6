"""A process in virtual time, which may stand still, end, and come back as another incarnation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from router.core import EndJob
from router.protocol.timer import StartTimer
from services.simulator.links import LOST, Port

if TYPE_CHECKING:
    from services.simulator.faulty_world import FaultyWorld


class Process(ABC):
    """What both kinds have in common: timers, and standing still.

    Rule: while a process hangs, what comes waits unread and its timers do not ring. When it goes on, timers come
    first, each with its own instant and in their order, then what has come, at the instant at which it goes on.

    Attributes:
        name: Of all its incarnations. `epoch`: of this one.
        alive: Whether it runs; one that has ended never comes back.
        hung: Whether it stands still.
        draining: Whether it ends as soon as it is empty.
    """

    def __init__(self, world: FaultyWorld, name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.alive = True
        self.hung = False
        self.draining = False
        self.world = world
        self._agenda = world.agenda
        self._unread: deque[tuple[Callable[[Any, Any, float], None], Any, Any]] = deque()
        self._late: list[tuple[float, int, Any, Any]] = []
        self._catching_up = False
        self._sequence = count()

    @abstractmethod
    def ports(self) -> list[Port]:
        """Its ends of links, those included that are not up yet."""

    def drain(self, now: float) -> None:
        """Take nothing new, and end when all is done."""
        self.meanwhile(self._drain, None, None, now)

    def receive(self, port: Port, what: Any, now: float) -> None:
        """Something has come by a link."""
        self.meanwhile(self._take, port, what, now)

    def meanwhile(self, act: Callable[[Any, Any, float], None], about: Any, what: Any, now: float) -> None:
        """Do something, or when the process goes on if it stands still; nothing if it has ended."""
        if self.hung:
            self._unread.append((act, about, what))
        elif self.alive:
            act(about, what, now)

    def hang(self, now: float) -> None:
        """Stand still; those at the other ends of its links hear nothing from now on."""
        self.hung = True
        for port in self.ports():
            if port.peer.up:
                port.peer.watch(now, self.world.heartbeat, self.world.silence)

    def resume(self, now: float) -> None:
        """Go on."""
        self.hung = False
        self._catching_up = True
        while self._late:
            at, _, core, event = heappop(self._late)
            self._hand_over(core, event, at, now)
        self._catching_up = False
        for port in self.ports():
            if port.hears_nothing:
                port.watch_until(now + self.world.silence - self.world.heartbeat)  # it has been asking for long
            else:
                port.heard = port.peer.heard = now
        unread, self._unread = self._unread, deque()
        for act, about, what in unread:
            self.meanwhile(act, about, what, now)
        self._end_if_empty(now)

    def end(self, now: float) -> None:
        """Be gone: whatever it was doing is not done, and its peers are told behind all that it has said."""
        self.alive = self.hung = False
        self._unread.clear()
        self._late.clear()
        for port in self.ports():
            port.close()
            port.send(LOST, now)

    def drain_is_over(self, _: None, now: float) -> None:
        """It has had time enough."""
        self.meanwhile(lambda *_: self.world.end_process(self, self._agenda.now), None, None, now)

    def ring(self, core_and_event: tuple[Any, Any], at: float) -> None:
        """A timer is due."""
        core, event = core_and_event
        if self.hung:
            heappush(self._late, (at, next(self._sequence), core, event))
        elif self.alive:
            self._hand_over(core, event, at, at)

    def _hand_over(self, core: Any, event: Any, at: float, now: float) -> None:
        """Hand an event to a core as of `at`; what comes of it is sent at `now`."""
        effects = core.handle(event, at)
        for effect in effects:
            if type(effect) is StartTimer:
                if self._catching_up and effect.at <= now:
                    heappush(self._late, (effect.at, next(self._sequence), core, effect.event))
                else:
                    self._agenda.at(effect.at, self.ring, (core, effect.event))
            elif type(effect) is EndJob:
                self.world.end_job(self, effect, now)
            else:
                self.world.sent[type(effect)] += 1
                self._port_of(effect).send(effect, now)

    @abstractmethod
    def _port_of(self, message: Any) -> Port: ...

    @abstractmethod
    def _take(self, port: Port, what: Any, now: float) -> None: ...

    def give_up(self, port: Port, now: float) -> None:
        """Close an end, and say so to the other one."""
        self._lose(port, now)
        port.send(LOST, now)

    @abstractmethod
    def _lose(self, port: Port, now: float) -> None: ...

    @abstractmethod
    def _end_if_empty(self, now: float) -> None: ...

    @abstractmethod
    def _drain(self, _: None, __: None, now: float) -> None: ...
