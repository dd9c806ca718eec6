"""Dispatches: what routers have sent against what servers have received and ended."""

from __future__ import annotations

import numpy as np

from router.protocol.eventlog import AT_ONCE, ENDS, Kind
from services.audit.book import CLOCK_S, Book, take
from services.audit.tables import SHIFT, Rows
from services.measure.records import Flags, Ints

SERVED, BLOCKED = ENDS["served"], ENDS["blocked"]


def check_dispatches(book: Book) -> None:
    """Each dispatch has one end at its router, and one receipt at the server that it was for."""
    dispatches, over, received = book.dispatches, book.over, book.received
    closed = book.tables.closed
    book.wrong_rows("one number for two dispatches", dispatches.where(dispatches.by_dispatch.again()))
    book.wrong_rows("two ends of a dispatch at the router", over.where(over.by_dispatch.again()))
    mine = dispatches.by_dispatch.first(over.dispatch)
    complete = np.isneginf(book.tables.since[over.log])
    book.wrong_rows("the end of a dispatch that was never made", over.where((mine < 0) & complete))
    apart = (mine >= 0) & (take(dispatches.server, mine) != over.server)
    book.wrong_rows("dispatched to one server, ended by another", over.where(apart))
    end = over.by_dispatch.first(dispatches.dispatch)
    book.wrong_rows(
        "a dispatch without an end at the router, which ended in order",
        dispatches.where((end < 0) & closed[dispatches.log]),
    )
    place = received.by_dispatch.first(dispatches.dispatch)
    wrong = (place >= 0) & (take(received.server, place) != dispatches.server)
    book.wrong_rows("dispatched to one server, received by another", dispatches.where(wrong))
    other = (place >= 0) & (take(received.number, place) != dispatches.number)
    book.wrong_rows("dispatched by one pull-message, received for another", dispatches.where(other))
    given_up = np.where(end >= 0, book.is_lost(over, end), ~closed[dispatches.log])
    book.account("dispatches that were lost with a link", int(((place < 0) & given_up).sum()))
    rest = dispatches.where((place < 0) & ~given_up)
    book.wrong_rows("dispatched, but never received", rest.where(_server_covers(book, rest)))


def _server_covers(book: Book, rows: Rows) -> Flags:
    """Whether the logs of the servers of these dispatches would have them."""
    tables = book.tables
    ways = list(zip(rows.log.tolist(), rows.server.tolist(), strict=True))
    since: dict[tuple[int, int], float] = {}
    for router, server in dict.fromkeys(ways):
        boot = tables.logs[router].about.boot
        logs = tables.logs_of.get(tables.names[server], [])
        since[router, server] = max((tables.since_by(log, boot) for log in logs), default=np.inf)
    found: Flags = rows.at > np.array([since[way] for way in ways], float) + CLOCK_S
    return found


def check_receipts(book: Book) -> None:
    """Each receipt has its dispatch and one end, the same that the router knows."""
    received, left, over, dispatches = book.received, book.left, book.over, book.dispatches
    tables = book.tables
    book.wrong_rows("received twice", received.where(received.by_dispatch.again()))
    book.wrong_rows("ended twice by its server", left.where(left.by_dispatch.again()))
    sent = dispatches.by_dispatch.first(received.dispatch)
    known = book.has_dispatches(received.dispatch)
    book.wrong_rows("received, but never dispatched", received.where((sent < 0) & known))
    came = received.by_dispatch.first(left.dispatch)
    complete = np.isneginf(tables.since[left.log])
    book.wrong_rows("ended by its server, but never received", left.where((came < 0) & complete))
    apart = (came >= 0) & (take(received.server, came) != left.server)
    book.wrong_rows("received by one server, ended by another", left.where(apart))

    gone = left.by_dispatch.first(received.dispatch)
    end = over.by_dispatch.first(received.dispatch)
    given_up = np.where(end >= 0, book.is_lost(over, end), ~known | ~tables.closed[received.dispatch >> SHIFT])
    killed = ~tables.closed[received.log]
    book.account("jobs that were at a server which was killed", int(((gone < 0) & killed).sum()))
    stays = (gone < 0) & ~killed
    book.account("jobs left at a server whose link was lost", int((stays & given_up).sum()))
    book.wrong_rows("received, but never ended by its server", received.where(stays & ~given_up))
    told = (end >= 0) & ~given_up
    book.wrong_rows("an end at the router that its server never gave", received.where(told & (gone < 0) & killed))
    both = received.where(told & (gone >= 0))
    end, gone = end[told & (gone >= 0)], gone[told & (gone >= 0)]
    same = (over.outcome[end] == left.outcome[gone]) & (over.word[end] == left.word[gone])
    book.wrong_rows("ended otherwise at the router than at its server", both.where(~same))
    _check_services(book)


def _check_services(book: Book) -> None:
    """Who is served has been started, once; who was turned away never."""
    received, left = book.received, book.left
    starts = book.tables.of(Kind.STARTED)
    starts = starts.where(starts.dispatch >= 0)
    place = received.by_dispatch.first(left.dispatch)
    at_once = (place >= 0) & ((take(received.marks, place) & AT_ONCE) > 0)
    times = starts.by_dispatch.count(left.dispatch) + at_once
    wrong = (place >= 0) & (
        (times > 1) | ((left.outcome == SERVED) & (times < 1)) | ((left.outcome == BLOCKED) & (times > 0))
    )
    book.wrong_rows("served without a start, or started more than once", left.where(wrong))
    came = received.by_dispatch.first(starts.dispatch)
    complete = np.isneginf(book.tables.since[starts.log])
    book.wrong_rows("started, but never received", starts.where((came < 0) & complete))
    apart = (came >= 0) & (take(received.server, came) != starts.server)
    book.wrong_rows("received by one server, started by another", starts.where(apart))
    end = left.by_dispatch.first(starts.dispatch)
    after = (end >= 0) & (take(left.log, end) == starts.log) & (take(left.place, end) < starts.place)
    book.wrong_rows("started after its end", starts.where(after))


def check_pull_messages(book: Book) -> None:
    """A pull-message came before it was used, and is used once. Numbers begin anew when a server does."""
    tables = book.tables
    pulls, joined = tables.of(Kind.PULLED), tables.of(Kind.JOINED)
    used = book.dispatches.where(book.dispatches.number >= 0)

    def keys(rows: Rows) -> Ints:
        return rows.log * len(tables.names) + rows.server

    pairs, times = np.unique(keys(joined), return_counts=True)
    used = used.where(np.isin(keys(used), pairs[times == 1]) & np.isneginf(tables.since[used.log]))
    ids = _numbers(np.append(keys(pulls), keys(used)), np.append(pulls.number, used.number))
    came, taken = ids[: len(pulls)], ids[len(pulls) :]
    order = np.argsort(taken, kind="stable")
    again = order[1:][taken[order][1:] == taken[order][:-1]]
    book.wrong_rows("a pull-message that was used twice", used.where(again))
    book.wrong_rows("a pull-message that never came", used.where(~np.isin(taken, came)))


def _numbers(first: Ints, second: Ints) -> Ints:
    """One number for each pair, equal for equal ones."""
    if not len(first):
        return np.empty(0, np.int64)
    _, found = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
    return found.reshape(-1)
