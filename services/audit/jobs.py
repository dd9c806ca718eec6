"""Jobs: the generator's word against that of the routers, and a router's against its own."""

from __future__ import annotations

import numpy as np

from router.protocol.eventlog import Kind
from services.audit.book import CLOCK_S, Book, take
from services.audit.ledger import lost_on_the_way
from services.measure.records import Flags, Ints


def check_generator(book: Book) -> None:
    """Each job that was sent has one end, and no other job has."""
    ledger = book.ledger
    sent = np.isfinite(ledger.sent)
    book.wrong("sent, but without an end at the generator", np.flatnonzero(sent & (ledger.outcome < 0)))
    book.wrong("an end at the generator, but never sent", np.flatnonzero(~sent & (ledger.outcome >= 0)))
    book.wrong("two ends at the generator", np.array(ledger.doubled, np.int64))


def check_sent(book: Book) -> None:
    """Each job that was sent against what its router says of it."""
    ledger, arrivals, tables = book.ledger, book.arrivals, book.tables
    _check_tags(book)
    sent = np.flatnonzero(np.isfinite(ledger.sent))
    lost = np.isin(ledger.reason, lost_on_the_way(ledger))
    times = arrivals.by_tag.count(sent)
    book.wrong("sent once, but arrived more often", sent[times > 1])
    book.account("jobs that reached no router: the way there was lost", int((lost[sent] & (times == 0)).sum()))
    told = ledger.outcome >= 0  # of the others it is said already that they have no end
    missing = sent[(times == 0) & ~lost[sent] & told[sent]]
    known = _router_covers(book, missing)
    book.wrong("ended at the generator, but never arrived at its router", missing[known])

    there = sent[times == 1]
    arrival = arrivals.by_tag.first(there)
    end = book.ends.by_job.first(arrivals.job[arrival])
    has_end = end >= 0
    book.account(
        "jobs whose router was killed", int((~has_end & lost[there] & ~tables.closed[arrivals.log[arrival]]).sum())
    )
    book.wrong("an end at the generator, but none at its router", there[~has_end & ~lost[there] & told[there]])
    both, end = there[has_end], end[has_end]
    same = (ledger.outcome[both] == book.ends.outcome[end]) & _same_words(book, both, end)
    book.wrong("ended otherwise at the generator than at its router", both[~lost[both] & ~same & told[both]])
    servers = np.array([tables.place(name) for name in [*ledger.servers, ""]], np.int64)
    apart = servers[ledger.server[both]] != book.ends.server[end]
    # A router says of a job that was lost at which server; one that the generator gave up itself was at none it knows.
    unheard = lost[both] & (~same | (apart & (ledger.server[both] < 0)))
    book.account("ends that did not reach the generator", int(unheard.sum()))
    book.wrong("at another server by the generator than by its router", both[same & apart & ~unheard])


def _check_tags(book: Book) -> None:
    """No router has a job that the generator did not send to it."""
    ledger, arrivals = book.ledger, book.arrivals
    ours = arrivals.where(arrivals.tag >= 0)
    known = ours.tag < len(ledger.sent)
    sent = known & np.isfinite(take(ledger.sent, np.where(known, ours.tag, -1)))
    book.wrong("arrived, but never sent", ours.tag[~sent])
    ours = ours.where(sent)
    ids = [log.about.id for log in book.tables.logs]
    place = np.array([ledger.routers.index(id) if id in ledger.routers else -1 for id in ids] or [0], np.int64)
    book.wrong("arrived at another router than it was sent to", ours.tag[place[ours.log] != ledger.router[ours.tag]])


def _same_words(book: Book, jobs: Ints, end: Ints) -> Flags:
    words = np.array([book.tables.place(reason) for reason in book.ledger.reasons], np.int64)
    found: Flags = words[book.ledger.reason[jobs]] == book.ends.word[end]
    return found


def _router_covers(book: Book, jobs: Ints) -> Flags:
    """Whether the logs of the routers of these jobs would have them."""
    since = []
    for name in book.ledger.routers:
        mine = [place for place, log in enumerate(book.tables.logs) if log.about.id == name]
        # Of several incarnations it is not known which one the job reached.
        since.append(max((book.tables.since_by(place, book.ledger.boot) for place in mine), default=np.inf))
    found: Flags = book.ledger.sent[jobs] > np.array(since)[book.ledger.router[jobs]] + CLOCK_S
    return found


def check_routers(book: Book) -> None:
    """Each job that arrived has one end at its router."""
    arrivals, ends, closed = book.arrivals, book.ends, book.tables.closed
    book.wrong_rows("two ends at the router", ends.where(ends.by_job.again()))
    strange = (arrivals.by_job.first(ends.job) < 0) & np.isneginf(book.tables.since[ends.log])
    book.wrong_rows("an end at the router, but no arrival", ends.where(strange))
    open_ = arrivals.where(ends.by_job.first(arrivals.job) < 0)
    book.wrong_rows("no end at the router, which ended in order", open_.where(closed[open_.log]))
    orphans = book.tables.of(Kind.ORPHANED)
    over = book.over.by_dispatch.first(orphans.dispatch)
    lost = (over >= 0) & book.is_lost(book.over, over)
    unknown = (over < 0) & ~np.isneginf(book.tables.since[orphans.log])
    book.account("ends that came after their link was taken for lost", int(lost.sum()))
    book.wrong_rows("a second end from the server", orphans.where(~lost & ~unknown))
