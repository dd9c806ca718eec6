"""Event logs of a simulated run, the same that processes write: `simulate(scenario, wrap=recording.watch)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from router.core import RouterCore
from router.protocol.eventlog import About
from router.recorder import recorded as recorded_router
from server.core import ServerCore
from server.recorder import recorded as recorded_server
from services.audit.ledger import VIRTUAL, Ledger
from services.audit.log import DTYPE, Log
from services.measure.records import Run


class MemoryLog:
    """An event log in memory, which keeps everything.

    Args:
        about: Whose it is.
    """

    def __init__(self, about: About) -> None:
        self.about = about
        self.names = [""]
        self._places = {"": 0}
        self._records: list[tuple[Any, ...]] = []

    def name(self, text: str) -> int:
        """The place of a name."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.names)
            self.names.append(text)
        return place

    def append(self, *fields: Any) -> None:
        """Keep one record."""
        self._records.append((*fields, len(self._records) + 1))

    def so_far(self) -> Log:
        """Everything so far, as of a process that has ended in order."""
        return Log(self.about, list(self.names), np.array(self._records, DTYPE), 0, 1.0)


class Entrance:
    """What the loop knows of a core that is recorded."""

    def __init__(self, recorded: Callable[[Any, float], list[Any]]) -> None:
        self._recorded = recorded

    def handle(self, event: Any, now: float) -> list[Any]:
        """As the core's, and on record."""
        return self._recorded(event, now)


class Recording:
    """The logs of all cores of one run; jobs are known by their numbers in the workload."""

    def __init__(self) -> None:
        self._logs: dict[str, MemoryLog] = {}

    def watch(self, core: Any) -> Entrance:
        """Put a recorder before a core; servers of a pool share a log, as those of a process do."""
        if isinstance(core, RouterCore):
            return Entrance(recorded_router(core, self._log_of(core.id, "router"), lambda job: job))
        assert isinstance(core, ServerCore)
        return Entrance(recorded_server(core, core.handle, self._log_of(f"servers-{core.spec.pool}", "server")))

    def logs(self) -> list[Log]:
        """All logs."""
        return [log.so_far() for log in self._logs.values()]

    def _log_of(self, id: str, role: str) -> MemoryLog:
        log = self._logs.get(id)
        if log is None:
            log = self._logs[id] = MemoryLog(About(id, role, 0, VIRTUAL))
        return log


def ledger_of(run: Run) -> Ledger:
    """What a generator would have on record of a simulated run without faults; a time unit is a second there."""
    records = run.records
    return Ledger(
        intended=records.intended,
        sent=records.sent,
        ended=records.ended,
        router=records.router,
        server=records.server,
        outcome=records.outcome,
        reason=np.zeros(len(records.sent), np.int64),
        routers=run.fleet.routers,
        servers=run.fleet.servers,
        reasons=["", "link_lost"],
        doubled=[],
        tagged=True,
        time_unit_s=1.0,
        boot=VIRTUAL,
    )
