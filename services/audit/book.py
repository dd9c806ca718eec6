"""All records that are compared, and how what is wrong with some of them is put down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from router.protocol.eventlog import ENDS, Kind
from services.audit.found import Audit, Mismatch
from services.audit.ledger import Ledger
from services.audit.tables import SHIFT, Rows, Tables
from services.measure.records import Flags, Ints

NAMED = 5
"""How many jobs of one mismatch are named."""
CLOCK_S = 1e-3
"""A log that lacks what is older than an instant says nothing about what is so close to it."""


class Book:
    """The records by what they are about.

    Args:
        ledger: Of the generator. `tables`: of all logs.

    Attributes:
        found: What is found.
        arrivals, ends: Of jobs, at routers. `dispatches`, `over`: of dispatches and their ends, at routers.
        received, left: Of dispatches, at servers.
    """

    def __init__(self, ledger: Ledger, tables: Tables) -> None:
        self.found = Audit(jobs=int(np.isfinite(ledger.sent).sum()))
        self.ledger = ledger
        self.tables = tables
        of = tables.of
        self.arrivals = of(Kind.ARRIVED)
        self.ends = of(Kind.ENDED)
        dispatches = of(Kind.ARRIVED, Kind.DISPATCHED)
        self.dispatches = dispatches.where(dispatches.dispatch >= 0)
        over = of(Kind.ENDED, Kind.RETRIED)
        self.over = over.where(over.dispatch >= 0)  # ends of dispatches, as routers know them
        received = of(Kind.RECEIVED)
        self.received = received.where(received.dispatch >= 0)
        left = of(Kind.LEFT_SERVER)
        self.left = left.where(left.dispatch >= 0)
        self.lost_word = tables.place("link_lost")

    # -- what is said -------------------------------------------------------------------------

    def wrong(self, what: str, jobs: Ints, names: Callable[[int], str] | None = None) -> None:
        """A mismatch of jobs by number; those without one by other names."""
        if len(jobs):
            shown = jobs[:NAMED].tolist()
            words = [f"job {job}" if names is None else names(place) for place, job in enumerate(shown)]
            known = [job for job in shown if job >= 0]
            self.found.mismatches.append(Mismatch(what, len(jobs), known, words))

    def wrong_files(self, what: str, names: Sequence[str]) -> None:
        """A mismatch of what was written down, whatever job it was about."""
        if names:
            self.found.mismatches.append(Mismatch(what, len(names), [], names[:NAMED]))

    def wrong_rows(self, what: str, rows: Rows) -> None:
        """A mismatch of records: jobs by the generator's number where it is known."""
        if not len(rows):
            return
        first = rows.where(np.arange(min(len(rows), NAMED)))
        jobs = self._tags(first)
        self.wrong(
            what, np.append(jobs, np.full(len(rows) - len(first), -1)), lambda place: self._name(first, place, jobs)
        )

    def _name(self, rows: Rows, place: int, jobs: Ints) -> str:
        at = f" at {self.tables.names[rows.server[place]]}" if rows.server[place] else ""
        if jobs[place] >= 0:
            return f"job {jobs[place]}{at}"
        for column, word in ((rows.job, "job"), (rows.dispatch, "dispatch")):
            if column[place] >= 0:
                router = self.tables.logs[column[place] >> SHIFT].about.id
                return f"{router}'s {word} {column[place] & ((1 << SHIFT) - 1)}{at}"
        return f"a job{at} of {self.tables.logs[rows.log[place]].about.id}"

    def _tags(self, rows: Rows) -> Ints:
        """The generator's numbers; -1: not known."""
        job = rows.job
        if (rows.dispatch >= 0).any():
            dispatch = self.dispatches.by_dispatch.first(rows.dispatch)
            job = np.where((job < 0) & (dispatch >= 0) & (rows.dispatch >= 0), take(self.dispatches.job, dispatch), job)
        arrival = self.arrivals.by_job.first(job)
        return np.where((arrival >= 0) & (job >= 0), take(self.arrivals.tag, arrival), -1)

    def account(self, why: str, count: int) -> None:
        """What looks incomplete, and why it may."""
        if count:
            self.found.accounted[why] = self.found.accounted.get(why, 0) + int(count)

    # -- what may be missing ------------------------------------------------------------------

    def has_dispatches(self, wanted: Ints) -> Flags:
        """Whether the logs of the routers of these dispatches would have them: numbers only grow."""
        first = np.where(np.isneginf(self.tables.since), 0, np.iinfo(np.int64).max)
        np.minimum.at(first, self.dispatches.log, self.dispatches.dispatch)
        found: Flags = wanted >= first[wanted >> SHIFT]
        return found

    def is_lost(self, rows: Rows, place: Ints) -> Flags:
        """Whether the router gave these dispatches up itself, so that no server's end is behind it."""
        found: Flags = (take(rows.outcome, place) == ENDS["failed"]) & (take(rows.word, place) == self.lost_word)
        return found


def take(column: Any, places: Ints) -> Any:
    """Entries at these places; at −1 something, which the caller leaves out."""
    if not len(column):
        return np.zeros(len(places), np.asarray(column).dtype)
    return np.asarray(column)[np.maximum(places, 0)]
