"""Virtual time: one heap of timers and messages under way, and the cores that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


Handle = Callable[[Any, float], Sequence[Any]]
"""A core's entrance: takes an event in, returns effects."""


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
        ended: Jobs ended so far.
    """

    def __init__(
        self,
        routers: dict[str, Core],
        servers: dict[str, Core],
        ended: Callable[[EndJob, float], None],
        delays: Delays = NO_DELAY,
    ) -> None:
        self.sent: dict[type, int] = dict.fromkeys(KINDS, 0)
        self.ended = 0
        self._routers = {name: core.handle for name, core in routers.items()}
        self._servers = {name: core.handle for name, core in servers.items()}
        self._on_end = ended
        self._heap: list[tuple[float, int, Handle, Any]] = []
        self._sequence = count()
        self._delay = {kind: delay for kind, delay in delays.by_kind().items() if delay > 0.0}

    def schedule(self, at: float, handle: Handle, event: Any) -> None:
        """Hand over `event` at instant `at`."""
        heappush(self._heap, (at, next(self._sequence), handle, event))

    def run(self, arrivals: Iterable[tuple[float, Handle, Any]]) -> None:
        """Hand over each of these events at its instant, and before it everything that is due by then.

        Args:
            arrivals: Instant, entrance of a core, event; in order of instants.
        """
        # One loop for everything, all names local: this is where a simulation spends its time.
        heap, sent, delay, sequence = self._heap, self.sent, self._delay, self._sequence
        routers, servers, on_end = self._routers, self._servers, self._on_end
        at_hand: list[tuple[Handle, Any]] = []
        for arrives_at, arrives_where, arrival in arrivals:
            arrived = False
            while not arrived:
                if heap and heap[0][0] <= arrives_at:
                    now, _, handle, event = heappop(heap)
                else:
                    now, handle, event = arrives_at, arrives_where, arrival
                    arrived = True
                at_hand.append((handle, event))
                for handle, event in at_hand:  # it grows meanwhile by the messages that have no delay
                    for effect in handle(event, now):
                        kind = type(effect)
                        if kind is StartTimer:
                            heappush(heap, (effect[0], next(sequence), handle, effect[1]))
                        elif kind is EndJob:
                            self.ended += 1
                            on_end(effect, now)
                        else:
                            sent[kind] += 1
                            to = servers[effect[0]] if kind is Probe or kind is Dispatch else routers[effect[1]]
                            if kind in delay:
                                heappush(heap, (now + delay[kind], next(sequence), to, effect))
                            else:
                                at_hand.append((to, effect))
                at_hand.clear()

    def run_until(self, instant: float) -> None:
        """Let everything happen that is due at or before `instant`."""
        self.run([(instant, _nothing, None)])

    def run_out(self, jobs: int) -> None:
        """Let things happen until so many jobs have ended; timers that repeat would go on for ever."""
        while self.ended < jobs:
            self.run_until(self._heap[0][0])


def _nothing(event: None, now: float) -> Sequence[Any]:
    return ()
