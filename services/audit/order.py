"""Instants: no clock goes back, and nothing happens before what it follows from, where one clock tells of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from router.protocol.eventlog import Kind
from services.audit.book import CLOCK_S, Book, take
from services.audit.ledger import lost_on_the_way
from services.audit.tables import Rows
from services.measure.records import Ints

WRITTEN_UNITS = 1e-6
"""To how much of a time unit `jobs.csv` gives instants."""


def check_order(book: Book) -> None:
    """The records of a process, and those of a job on its way through processes, are in order of time."""
    _check_processes(book)
    _check_dispatches(book)
    if book.ledger.tagged:
        _check_jobs(book)


def _check_processes(book: Book) -> None:
    rows = book.tables.all
    earlier = (np.diff(rows.at, prepend=0.0) < -CLOCK_S) & (np.diff(rows.log, prepend=-1) == 0)
    book.wrong_rows("earlier than the record before it", rows.where(earlier))


def _check_dispatches(book: Book) -> None:
    received, left, over = book.received, book.left, book.over
    sent = book.dispatches.by_dispatch.first(received.dispatch)
    _check(book, "received before it was dispatched", received, book.dispatches, sent)
    starts = book.tables.of(Kind.STARTED)
    starts = starts.where(starts.dispatch >= 0)
    _check(book, "started before it was received", starts, received, received.by_dispatch.first(starts.dispatch))
    _check(
        book, "ended by its server before it was received", left, received, received.by_dispatch.first(left.dispatch)
    )
    heard = over.where(~book.is_lost(over, np.arange(len(over))))  # of what it gave up itself it heard nothing
    gone = left.by_dispatch.first(heard.dispatch)
    _check(book, "ended at the router before its server had ended it", heard, left, gone)


def _check(book: Book, what: str, after: Rows, before: Rows, place: Ints) -> None:
    one_clock = _clocks(book)[after.log] == _clocks(book)[take(before.log, place)]
    wrong = (place >= 0) & one_clock & (after.at < take(before.at, place) - CLOCK_S)
    book.wrong_rows(what, after.where(wrong))


def _check_jobs(book: Book) -> None:
    """What the generator knows against what routers have on record."""
    ledger, arrivals, ends = book.ledger, book.arrivals, book.ends
    slack_s = CLOCK_S + WRITTEN_UNITS * ledger.time_unit_s
    one_clock = _clocks(book) == ledger.boot
    jobs = np.flatnonzero(np.isfinite(ledger.sent))
    arrival = arrivals.by_tag.first(jobs)
    known = (arrival >= 0) & one_clock[take(arrivals.log, arrival)]
    jobs, arrival = jobs[known], arrival[known]
    book.wrong("arrived before it was sent", jobs[arrivals.at[arrival] < ledger.sent[jobs] - slack_s])
    end = ends.by_job.first(arrivals.job[arrival])
    heard = (end >= 0) & ~np.isin(ledger.reason[jobs], lost_on_the_way(ledger))
    jobs, end = jobs[heard], end[heard]
    book.wrong(
        "ended at the generator before it had ended at its router", jobs[ledger.ended[jobs] < ends.at[end] - slack_s]
    )


def _clocks(book: Book) -> Any:
    """Shape (logs,): identifies the clock of each."""
    return np.array([log.about.boot for log in book.tables.logs] or [""])
