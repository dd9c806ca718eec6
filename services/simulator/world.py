"""Virtual time: one heap of timers and messages under way, and the cores that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

from router.core import EndJob
from router.protocol.codec import FROM_ROUTER, FROM_SERVER
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
"""A core's entrance, or that for one kind of event: a bound method that takes an event in and returns effects."""


def entrance(core: Core, kind: type) -> Handle:
    """The quickest way to hand this kind of event to a core; one that is wrapped, to be watched, has only `handle`."""
    of_kind = getattr(core, "entrance", None)
    return core.handle if of_kind is None else of_kind(kind)


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
        # Of each kind of message: the place of its receiver's name in it, the receivers, and the delay.
        delay = delays.by_kind()
        self._receivers = {
            kind: (place, {name: entrance(core, kind) for name, core in cores.items()}, delay[kind])
            for place, cores, kinds in ((0, servers, FROM_ROUTER), (1, routers, FROM_SERVER))
            for kind in kinds
        }
        self._on_end = ended
        self._heap: list[tuple[float, int, Handle, Any]] = []
        self._sequence = count()

    def schedule(self, at: float, handle: Handle, event: Any) -> None:
        """Hand over `event` at instant `at`."""
        heappush(self._heap, (at, next(self._sequence), handle, event))

    def run(self, arrivals: Iterable[tuple[float, Handle, Any]]) -> None:
        """Hand over each of these events at its instant, and before it everything that is due by then.

        Args:
            arrivals: Instant, entrance of a core, event; in order of instants.
        """
        # One loop for everything, all names local: this is where a simulation spends its time.
        heap, sent, sequence = self._heap, self.sent, self._sequence
        receivers, on_end = self._receivers, self._on_end
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
                            core = handle.__self__  # type: ignore[attr-defined]  # a bound method
                            heappush(heap, (effect[0], next(sequence), core.handle, effect[1]))
                        elif kind is EndJob:
                            self.ended += 1
                            on_end(effect, now)
                        else:
                            sent[kind] += 1
                            place, entrances, delay = receivers[kind]
                            to = entrances[effect[place]]
                            if delay:
                                heappush(heap, (now + delay, next(sequence), to, effect))
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
