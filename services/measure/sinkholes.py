"""Servers that fail far more of their jobs than the others do: by failing fast they look idle, and draw more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.measure.records import Run

FEWEST = 10
"""Fewer failed jobs at a server say nothing."""
FACTOR = 5.0
"""A server is told when the share of its jobs that failed is so many times that of all others together."""


class Sinkhole(NamedTuple):
    """A server that fails its jobs.

    Attributes:
        server: Its name.
        jobs: Jobs that were dispatched to it. `failed`: those of them that it failed by its own doing.
        share: Its share of all dispatches.
    """

    server: str
    jobs: int
    failed: int
    share: float

    def sentence(self) -> str:
        """For people."""
        return (
            f"sinkhole: {self.server} failed {self.failed} of its {self.jobs} jobs, and got {self.share:.1%} of all "
            "dispatches: routers.memory sets a server aside that fails several jobs in a row"
        )


def sinkholes(run: Run) -> list[Sinkhole]:
    """The sinkholes of a run, the worst one first.

    Rule: what a server turns away because it drains or is full, or is lost with its link, is no failure of its own.

    The records tell where each job was last. Those that failed elsewhere before and were tried again are known to the
    routers alone.
    """
    fleet, records = run.fleet, run.records
    placed = records.server >= 0
    jobs = np.bincount(records.server[placed], minlength=len(fleet.servers))
    failed = np.bincount(records.server[placed & records.faulted], minlength=len(fleet.servers))
    told = np.array([run.failed.get(server, 0) for server in fleet.servers])
    tried_again = np.maximum(told - failed, 0)
    jobs, failed = jobs + tried_again, failed + tried_again
    others, others_failed = jobs.sum() - jobs, failed.sum() - failed
    # Cross-multiplied, since others may have no jobs at all.
    outsized = (failed >= FEWEST) & (others > 0) & (failed * others >= FACTOR * others_failed * jobs)
    found = [
        Sinkhole(fleet.servers[place], int(jobs[place]), int(failed[place]), float(jobs[place] / jobs.sum()))
        for place in np.flatnonzero(outsized)
    ]
    return sorted(found, key=lambda sinkhole: -sinkhole.failed)
