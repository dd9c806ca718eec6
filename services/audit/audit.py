"""Adds up, job by job, what the generator, the routers and the servers have on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from router.protocol.eventlog import ENDS
from router.protocol.messages import OUTCOMES
from services.audit.book import NAMED, Book, take
from services.audit.dispatches import check_dispatches, check_pull_messages, check_receipts
from services.audit.found import Audit
from services.audit.jobs import check_generator, check_routers, check_sent
from services.audit.ledger import Ledger
from services.audit.log import Log
from services.audit.order import check_order
from services.audit.tables import Tables


def audit(ledger: Ledger, logs: Sequence[Log]) -> Audit:
    """Add up.

    Rule: each job that was sent has one end at the generator; if it arrived, one at its router, and the same; each
    dispatch has one end at its router, one receipt and one end at the server it was for, and the same. What may be
    missing: what a killed process did not live to do, what was under way on a link that was lost, and what a log has
    overwritten.

    Args:
        ledger: Of the generator.
        logs: All there are.
    """
    book = Book(ledger, Tables(logs))
    _check_logs(book)
    check_generator(book)
    check_routers(book)
    if ledger.tagged:
        check_sent(book)
    elif book.found.jobs:
        book.found.unchecked.append(
            "jobs came by HTTP, without a number: those of the generator and of the routers are only counted"
        )
    check_dispatches(book)
    check_receipts(book)
    check_pull_messages(book)
    check_order(book)
    _say_what_is_missing(book)
    _count_traced(book)
    return book.found


def _check_logs(book: Book) -> None:
    """Each process that was started has left a log, and each log all records that nothing has overwritten."""
    there = Counter(log.about.id for log in book.tables.logs)
    book.wrong_files(
        "started, but its event log is missing",
        [
            name if started == 1 else f"{name} ({started - there[name]} of {started})"
            for name, started in book.ledger.processes.items()
            if there[name] < started
        ],
    )
    for log in book.tables.logs:
        book.wrong_files(
            f"the event log of {log.about.id} is damaged, records are missing",
            [f"{first}" if first == last else f"{first} to {last}" for first, last in log.holes],
        )


def _say_what_is_missing(book: Book) -> None:
    unchecked, tables = book.found.unchecked, book.tables
    if not book.ledger.kept:
        unchecked.append("the generator has left no jobs.csv and ledger.json: jobs are known from their arrival on")
    if book.ledger.broken:
        unchecked.append(f"the run broke off, and nothing is known of what came after: {book.ledger.broken}")
    there = {log.about.id for log in tables.logs if log.about.role == "router"}
    without = [name for name in book.ledger.routers if name not in there]
    if without:
        unchecked.append(f"no event log of {', '.join(without)}: of its jobs only the generator's word is known")
    silent = {tables.names[server] for server in np.unique(book.dispatches.server).tolist()} - tables.logs_of.keys()
    if silent:
        some = ", ".join(sorted(silent)[:NAMED])
        unchecked.append(
            f"no event log of the processes of {len(silent)} servers ({some}): only routers' word is known"
        )
    for log in tables.logs:
        if log.overwritten:
            records = f"{log.overwritten} of {log.overwritten + len(log.records)} records"
            unchecked.append(
                f"{log.about.id}: the oldest {records} are overwritten, and what they told is not checked "
                '([run] events = "full" keeps all)'
            )
    if tables.strangers:
        unchecked.append(f"{tables.strangers} records of servers are about routers that left no event log")


def _count_traced(book: Book) -> None:
    """Jobs of the generator whose whole way is on record."""
    if not book.ledger.tagged:
        return
    arrival = book.arrivals.by_tag.first(np.flatnonzero(np.isfinite(book.ledger.sent)))
    job = take(book.arrivals.job, arrival[arrival >= 0])
    ended = book.ends.by_job.first(job) >= 0
    dispatch = book.dispatches.dispatch
    seen = (book.received.by_dispatch.first(dispatch) >= 0) & (book.left.by_dispatch.first(dispatch) >= 0)
    book.found.traced = int((ended & ~np.isin(job, book.dispatches.job[~seen])).sum())


assert tuple(ENDS) == OUTCOMES, "outcomes are written by their places"
