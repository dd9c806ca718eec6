"""Writes down what happens in a simulated run, in the form that a live run leaves behind."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from router.core import EndJob, RouterCore
from router.protocol.messages import OUTCOMES
from services.loadgen.workload import Workload
from services.measure.records import NOT_ITS_DOING, Fleet, MessageLog, Records
from services.simulator.network import Delays
from services.simulator.world import KINDS

NAN = float("nan")
_OUTCOME = {outcome: place for place, outcome in enumerate(OUTCOMES)}


class Recorder:
    """One row a job; the job's id is its place in the workload."""

    def __init__(self, fleet: Fleet, jobs: int, delays: Delays) -> None:
        self._place = {server: place for place, server in enumerate(fleet.servers)}
        self._back = delays.router_generator
        self._ended = array("d", [NAN]) * jobs
        self._arrived = array("d", [NAN]) * jobs
        self._waiting = array("d", [NAN]) * jobs
        self._service = array("d", [NAN]) * jobs
        self._server = array("q", [-1]) * jobs
        self._outcome = array("q", [-1]) * jobs
        self._flags = bytearray(jobs)

    def ended(self, effect: EndJob, now: float) -> None:
        """Book the end of one job."""
        job, outcome, reason, _, end, _, fallback = effect
        row = job[0]
        self._ended[row] = now + self._back
        self._outcome[row] = _OUTCOME[outcome]
        if end is not None:
            server, _, _, _, _, self._arrived[row], self._waiting[row], self._service[row], stale, _, _ = end
            self._server[row] = self._place[server]
            if fallback or stale or reason:
                self._flags[row] = fallback + 2 * stale + 4 * (reason not in NOT_ITS_DOING)

    def records(self, workload: Workload, sent: Any) -> Records:
        """All rows.

        Args:
            workload: What was asked for.
            sent: Shape (jobs,): when each job was really sent, in time units.
        """
        flags = np.frombuffer(self._flags, np.uint8)
        return Records(
            intended=workload.instants,
            sent=np.asarray(sent, float),
            arrived=np.frombuffer(self._arrived),
            ended=np.frombuffer(self._ended),
            waiting=np.frombuffer(self._waiting),
            service=np.frombuffer(self._service),
            size=workload.sizes,
            patience=workload.patience,
            router=workload.routers,
            server=np.frombuffer(self._server, np.int64),
            outcome=np.frombuffer(self._outcome, np.int64),
            fallback=(flags & 1).astype(bool),
            stale=(flags & 2).astype(bool),
            faulted=(flags & 4).astype(bool),
        )


class Sends(Protocol):
    """What the reader knows of a world."""

    sent: dict[type, int]


class Reader:
    """Reads the message counters at the instants that it is scheduled for; a core to the loop.

    Args:
        world: Counts messages.
        routers: All that ever were; the list may grow.
    """

    def __init__(self, world: Sends, routers: Sequence[RouterCore]) -> None:
        self._world = world
        self._routers = routers
        self._instants: list[float] = []
        self._jobs: list[int] = []
        self._counts: dict[str, list[int]] = {kind: [] for kind in KINDS.values()}

    def handle(self, event: None, now: float) -> list[Any]:
        """Read all counters once."""
        self._instants.append(now)
        self._jobs.append(sum(tally.arrivals for core in self._routers for tally in core.tallies.values()))
        for kind, name in KINDS.items():
            self._counts[name].append(self._world.sent[kind])
        return []

    def log(self) -> MessageLog:
        """All readings so far."""
        return MessageLog(
            np.array(self._instants, float),
            np.array(self._jobs, np.int64),
            {kind: np.array(readings, np.int64) for kind, readings in self._counts.items()},
        )
