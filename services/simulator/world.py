"""Virtual time: one heap of timers and messages under way, and the cores that they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

from router.core import EndJob
from router.protocol.messages import Dispatch, End, Message, Probe, Pull, Report, Withdraw
from router.protocol.timer import StartTimer
from services.simulator.network import NO_DELAY, Delays

KINDS: dict[type[Message], str] = {
    Pull: "pull",
    Withdraw: "withdraw",
    Probe: "probe",
    Report: "report",
    Dispatch: "dispatch",
    End: "end",
}


class Core(Protocol):
    """What the loop knows of a core; a test may wrap one to watch it."""

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take an event in; return effects."""


class World:
    """Runs cores in virtual time.

    Events fire in order of `(instant, sequence of scheduling)`. A message without delay is handed over at
    once, before anything else happens, in the order of sending; so with `NO_DELAY` routers know the truth
    as soon as it is sent. What is due at an instant comes before the job that arrives at it.

    Units: time units.

    Args:
        routers: Router cores by name.
        servers: Server cores by name.
        ended: Called with each `EndJob` and its instant.
        delays: Of messages.

    Attributes:
        sent: Messages sent so far, by class.
        now: The instant of the latest event.
    """

    def __init__(
        self,
        routers: dict[str, Core],
        servers: dict[str, Core],
        ended: Callable[[EndJob, float], None],
        delays: Delays = NO_DELAY,
    ) -> None:
        self.sent: dict[type, int] = dict.fromkeys(KINDS, 0)
        self.now = 0.0
        self._routers = routers
        self._servers = servers
        self._ended = ended
        self._heap: list[tuple[float, int, Core, Any]] = []
        self._sequence = count()
        self._at_hand: deque[Message] = deque()
        self._delay = {kind: delay for kind, delay in delays.by_kind().items() if delay > 0.0}

    def schedule(self, at: float, core: Core, event: Any) -> None:
        """Hand `event` to `core` at instant `at`."""
        heappush(self._heap, (at, next(self._sequence), core, event))

    def run_until(self, instant: float) -> None:
        """Let everything happen that is due at or before `instant`."""
        heap = self._heap
        give = self.give
        while heap and heap[0][0] <= instant:
            at, _, core, event = heappop(heap)
            give(core, event, at)

    def run_out(self) -> None:
        """Let everything happen that is due at all."""
        self.run_until(float("inf"))

    def give(self, core: Core, event: Any, now: float) -> None:
        """Hand over one event, and then every message that follows from it without delay."""
        self.now = now
        effects: Sequence[Any] = core.handle(event, now)
        at_hand = self._at_hand
        sent = self.sent
        delay = self._delay
        heap = self._heap
        while True:
            for effect in effects:
                kind = type(effect)
                if kind is StartTimer:
                    heappush(heap, (effect[0], next(self._sequence), core, effect[1]))
                elif kind is EndJob:
                    self._ended(effect, now)
                else:
                    sent[kind] += 1
                    if kind in delay:
                        heappush(heap, (now + delay[kind], next(self._sequence), self._receiver(effect), effect))
                    else:
                        at_hand.append(effect)
            if not at_hand:
                return
            message = at_hand.popleft()
            core = self._receiver(message)
            effects = core.handle(message, now)

    def _receiver(self, message: Message) -> Core:
        kind = type(message)
        if kind is Dispatch or kind is Probe:
            return self._servers[message[0]]
        return self._routers[message[1]]
