"""Adds up, job by job, what the generator, the routers and the servers have on record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from router.protocol.eventlog import AT_ONCE, ENDS, Kind
from router.protocol.messages import OUTCOMES
from services.audit.ledger import LOST_ON_THE_WAY, Ledger
from services.audit.log import Log
from services.audit.tables import SHIFT, Rows, Tables
from services.measure.records import Flags, Ints

NAMED = 5
"""How many jobs of one mismatch are named."""
CLOCK_S = 1e-3
"""A log that lacks what is older than an instant says nothing about what is so close to it."""
SERVED, BLOCKED = ENDS["served"], ENDS["blocked"]


@dataclass(frozen=True)
class Mismatch:
    """Something that cannot be.

    Attributes:
        what: What is wrong. `count`: with how many jobs.
        jobs: Numbers of the first ones by the generator's count, where they are known.
        names: The first ones, in words.
    """

    what: str
    count: int
    jobs: Sequence[int]
    names: Sequence[str]

    def __str__(self) -> str:
        more = f" and {self.count - len(self.names)} more" if self.count > len(self.names) else ""
        return f"{self.what}: {', '.join(self.names)}{more}"


@dataclass
class Audit:
    """What adding up has given.

    Attributes:
        jobs: Jobs that were sent.
        traced: Those of them whose whole way is on record and adds up.
        mismatches: What cannot be; none: everything adds up.
        accounted: What looks incomplete and has its reason on record, by words: how often.
        unchecked: What could not be checked, and why.
    """

    jobs: int = 0
    traced: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    accounted: dict[str, int] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything adds up, as far as it could be checked."""
        return not self.mismatches


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
    return _Auditor(ledger, Tables(logs)).run()


class _Auditor:
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

    def run(self) -> Audit:
        """All checks."""
        self._check_generator()
        self._check_routers()
        if self.ledger.tagged:
            self._check_sent()
        elif self.found.jobs:
            self.found.unchecked.append(
                "jobs came by HTTP, without a number: those of the generator and of the routers are only counted"
            )
        self._check_dispatches()
        self._check_receipts()
        self._check_pull_messages()
        self._say_what_is_missing()
        self._count_traced()
        return self.found

    # -- what is said -------------------------------------------------------------------------

    def _wrong(self, what: str, jobs: Ints, names: Callable[[int], str] | None = None) -> None:
        """A mismatch of jobs by number; those without one by other names."""
        if len(jobs):
            shown = jobs[:NAMED].tolist()
            words = [f"job {job}" if names is None else names(place) for place, job in enumerate(shown)]
            known = [job for job in shown if job >= 0]
            self.found.mismatches.append(Mismatch(what, len(jobs), known, words))

    def _wrong_rows(self, what: str, rows: Rows) -> None:
        """A mismatch of records: jobs by the generator's number where it is known."""
        if not len(rows):
            return
        first = rows.where(np.arange(min(len(rows), NAMED)))
        jobs = self._tags(first)
        self._wrong(
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
            job = np.where(
                (job < 0) & (dispatch >= 0) & (rows.dispatch >= 0), _take(self.dispatches.job, dispatch), job
            )
        arrival = self.arrivals.by_job.first(job)
        return np.where((arrival >= 0) & (job >= 0), _take(self.arrivals.tag, arrival), -1)

    def _account(self, why: str, count: int) -> None:
        if count:
            self.found.accounted[why] = self.found.accounted.get(why, 0) + int(count)

    def _covers(self, log: Ints, at: Any) -> Flags:
        """Whether logs still have all of what happened at these instants."""
        found: Flags = at > self.tables.since[log] + CLOCK_S
        return found

    # -- the generator ------------------------------------------------------------------------

    def _check_generator(self) -> None:
        ledger = self.ledger
        sent = np.isfinite(ledger.sent)
        self._wrong("sent, but without an end at the generator", np.flatnonzero(sent & (ledger.outcome < 0)))
        self._wrong("an end at the generator, but never sent", np.flatnonzero(~sent & (ledger.outcome >= 0)))
        self._wrong("two ends at the generator", np.array(ledger.doubled, np.int64))

    def _check_sent(self) -> None:
        """Each job that was sent against what its router says of it."""
        ledger, arrivals, tables = self.ledger, self.arrivals, self.tables
        self._check_tags()
        sent = np.flatnonzero(np.isfinite(ledger.sent))
        lost = np.isin(ledger.reason, [place for place, why in enumerate(ledger.reasons) if why in LOST_ON_THE_WAY])
        times = arrivals.by_tag.count(sent)
        self._wrong("sent once, but arrived more often", sent[times > 1])
        self._account("jobs that reached no router: the way there was lost", int((lost[sent] & (times == 0)).sum()))
        missing = sent[(times == 0) & ~lost[sent]]
        known = self._router_covers(missing)
        self._wrong("ended at the generator, but never arrived at its router", missing[known])

        there = sent[times == 1]
        arrival = arrivals.by_tag.first(there)
        end = self.ends.by_job.first(arrivals.job[arrival])
        has_end = end >= 0
        self._account(
            "jobs whose router was killed", int((~has_end & lost[there] & ~tables.closed[arrivals.log[arrival]]).sum())
        )
        self._wrong("an end at the generator, but none at its router", there[~has_end & ~lost[there]])
        both, end = there[has_end], end[has_end]
        self._account("ends that did not reach the generator", int(lost[both].sum()))
        heard = both[~lost[both]]
        end = end[~lost[both]]
        self._wrong(
            "ended otherwise at the generator than at its router",
            heard[(ledger.outcome[heard] != self.ends.outcome[end]) | ~self._same_words(heard, end)],
        )
        servers = np.array([tables.place(name) for name in [*ledger.servers, ""]], np.int64)
        self._wrong(
            "at another server by the generator than by its router",
            heard[servers[ledger.server[heard]] != self.ends.server[end]],
        )

    def _same_words(self, jobs: Ints, end: Ints) -> Flags:
        words = np.array([self.tables.place(reason) for reason in self.ledger.reasons], np.int64)
        found: Flags = words[self.ledger.reason[jobs]] == self.ends.word[end]
        return found

    def _check_tags(self) -> None:
        """No router has a job that the generator did not send to it."""
        ledger, arrivals = self.ledger, self.arrivals
        ours = arrivals.where(arrivals.tag >= 0)
        known = ours.tag < len(ledger.sent)
        sent = known & np.isfinite(_take(ledger.sent, np.where(known, ours.tag, -1)))
        self._wrong("arrived, but never sent", ours.tag[~sent])
        ours = ours.where(sent)
        ids = [log.about.id for log in self.tables.logs]
        place = np.array([ledger.routers.index(id) if id in ledger.routers else -1 for id in ids] or [0], np.int64)
        self._wrong(
            "arrived at another router than it was sent to", ours.tag[place[ours.log] != ledger.router[ours.tag]]
        )

    def _router_covers(self, jobs: Ints) -> Flags:
        """Whether the logs of the routers of these jobs would have them."""
        since = []
        for name in self.ledger.routers:
            mine = [place for place, log in enumerate(self.tables.logs) if log.about.id == name]
            # Of several incarnations it is not known which one the job reached.
            since.append(max((float(self.tables.since[place]) for place in mine), default=np.inf))
        found: Flags = self.ledger.sent[jobs] > np.array(since)[self.ledger.router[jobs]] + CLOCK_S
        return found

    # -- routers ------------------------------------------------------------------------------

    def _check_routers(self) -> None:
        arrivals, ends, closed = self.arrivals, self.ends, self.tables.closed
        self._wrong_rows("two ends at the router", ends.where(ends.by_job.again()))
        strange = (arrivals.by_job.first(ends.job) < 0) & np.isneginf(self.tables.since[ends.log])
        self._wrong_rows("an end at the router, but no arrival", ends.where(strange))
        open_ = arrivals.where(ends.by_job.first(arrivals.job) < 0)
        self._wrong_rows("no end at the router, which ended in order", open_.where(closed[open_.log]))
        orphans = self.tables.of(Kind.ORPHANED)
        over = self.over.by_dispatch.first(orphans.dispatch)
        lost = (over >= 0) & self._is_lost(self.over, over)
        unknown = (over < 0) & ~np.isneginf(self.tables.since[orphans.log])
        self._account("ends that came after their link was taken for lost", int(lost.sum()))
        self._wrong_rows("a second end from the server", orphans.where(~lost & ~unknown))

    def _is_lost(self, rows: Rows, place: Ints) -> Flags:
        """Whether the router gave these dispatches up itself, so that no server's end is behind it."""
        found: Flags = (_take(rows.outcome, place) == ENDS["failed"]) & (_take(rows.word, place) == self.lost_word)
        return found

    # -- between routers and servers ----------------------------------------------------------

    def _check_dispatches(self) -> None:
        dispatches, over, received = self.dispatches, self.over, self.received
        closed = self.tables.closed
        self._wrong_rows("one number for two dispatches", dispatches.where(dispatches.by_dispatch.again()))
        self._wrong_rows("two ends of a dispatch at the router", over.where(over.by_dispatch.again()))
        mine = dispatches.by_dispatch.first(over.dispatch)
        complete = np.isneginf(self.tables.since[over.log])
        self._wrong_rows("the end of a dispatch that was never made", over.where((mine < 0) & complete))
        apart = (mine >= 0) & (_take(dispatches.server, mine) != over.server)
        self._wrong_rows("dispatched to one server, ended by another", over.where(apart))
        end = over.by_dispatch.first(dispatches.dispatch)
        self._wrong_rows(
            "a dispatch without an end at the router, which ended in order",
            dispatches.where((end < 0) & closed[dispatches.log]),
        )
        place = received.by_dispatch.first(dispatches.dispatch)
        wrong = (place >= 0) & (_take(received.server, place) != dispatches.server)
        self._wrong_rows("dispatched to one server, received by another", dispatches.where(wrong))
        given_up = np.where(end >= 0, self._is_lost(over, end), ~closed[dispatches.log])
        self._account("dispatches that were lost with a link", int(((place < 0) & given_up).sum()))
        rest = dispatches.where((place < 0) & ~given_up)
        self._wrong_rows("dispatched, but never received", rest.where(self._server_covers(rest)))

    def _server_covers(self, rows: Rows) -> Flags:
        """Whether the logs of the servers of these dispatches would have them."""
        since: dict[int, float] = {}
        for server in np.unique(rows.server).tolist():
            logs = self.tables.logs_of.get(self.tables.names[server], [])
            since[server] = max((float(self.tables.since[log]) for log in logs), default=np.inf)
        found: Flags = rows.at > np.array([since[server] for server in rows.server.tolist()], float) + CLOCK_S
        return found

    def _check_receipts(self) -> None:
        received, left, over, dispatches = self.received, self.left, self.over, self.dispatches
        tables = self.tables
        self._wrong_rows("received twice", received.where(received.by_dispatch.again()))
        self._wrong_rows("ended twice by its server", left.where(left.by_dispatch.again()))
        sent = dispatches.by_dispatch.first(received.dispatch)
        known = self._covers(received.dispatch >> SHIFT, received.at)
        self._wrong_rows("received, but never dispatched", received.where((sent < 0) & known))
        came = received.by_dispatch.first(left.dispatch)
        complete = np.isneginf(tables.since[left.log])
        self._wrong_rows("ended by its server, but never received", left.where((came < 0) & complete))
        apart = (came >= 0) & (_take(received.server, came) != left.server)
        self._wrong_rows("received by one server, ended by another", left.where(apart))

        gone = left.by_dispatch.first(received.dispatch)
        end = over.by_dispatch.first(received.dispatch)
        given_up = np.where(end >= 0, self._is_lost(over, end), ~tables.closed[received.dispatch >> SHIFT])
        killed = ~tables.closed[received.log]
        self._account("jobs that were at a server which was killed", int(((gone < 0) & killed).sum()))
        stays = (gone < 0) & ~killed
        self._account("jobs left at a server whose link was lost", int((stays & given_up).sum()))
        self._wrong_rows("received, but never ended by its server", received.where(stays & ~given_up))
        told = (end >= 0) & ~given_up
        self._wrong_rows("an end at the router that its server never gave", received.where(told & (gone < 0) & killed))
        both = received.where(told & (gone >= 0))
        end, gone = end[told & (gone >= 0)], gone[told & (gone >= 0)]
        same = (over.outcome[end] == left.outcome[gone]) & (over.word[end] == left.word[gone])
        self._wrong_rows("ended otherwise at the router than at its server", both.where(~same))
        self._check_services()

    def _check_services(self) -> None:
        """Who is served has been started, once; who was turned away never."""
        received, left = self.received, self.left
        starts = self.tables.of(Kind.STARTED)
        starts = starts.where(starts.dispatch >= 0)
        place = received.by_dispatch.first(left.dispatch)
        at_once = (place >= 0) & ((_take(received.marks, place) & AT_ONCE) > 0)
        times = starts.by_dispatch.count(left.dispatch) + at_once
        wrong = (place >= 0) & (
            (times > 1) | ((left.outcome == SERVED) & (times < 1)) | ((left.outcome == BLOCKED) & (times > 0))
        )
        self._wrong_rows("served without a start, or started more than once", left.where(wrong))
        end = left.by_dispatch.first(starts.dispatch)
        after = (end >= 0) & (left.log[end] == starts.log) & (left.place[end] < starts.place)
        self._wrong_rows("started after its end", starts.where(after))

    def _check_pull_messages(self) -> None:
        """A pull-message came before it was used, and is used once. Numbers begin anew when a server does."""
        tables = self.tables
        pulls, joined = tables.of(Kind.PULLED), tables.of(Kind.JOINED)
        used = self.dispatches.where(self.dispatches.number >= 0)

        def keys(rows: Rows) -> Ints:
            return rows.log * len(tables.names) + rows.server

        pairs, times = np.unique(keys(joined), return_counts=True)
        used = used.where(np.isin(keys(used), pairs[times == 1]) & np.isneginf(tables.since[used.log]))
        ids = _numbers(np.append(keys(pulls), keys(used)), np.append(pulls.number, used.number))
        came, taken = ids[: len(pulls)], ids[len(pulls) :]
        order = np.argsort(taken, kind="stable")
        again = order[1:][taken[order][1:] == taken[order][:-1]]
        self._wrong_rows("a pull-message that was used twice", used.where(again))
        self._wrong_rows("a pull-message that never came", used.where(~np.isin(taken, came)))

    # -- the sum ------------------------------------------------------------------------------

    def _say_what_is_missing(self) -> None:
        unchecked, tables = self.found.unchecked, self.tables
        there = {log.about.id for log in tables.logs if log.about.role == "router"}
        without = [name for name in self.ledger.routers if name not in there]
        if without:
            unchecked.append(f"no event log of {', '.join(without)}: of its jobs only the generator's word is known")
        for log in tables.logs:
            if log.overwritten:
                records = f"{log.overwritten} of {log.overwritten + len(log.records)} records"
                unchecked.append(
                    f"{log.about.id}: the oldest {records} are overwritten, and what they told is not checked "
                    '([run] events = "full" keeps all)'
                )
        if tables.strangers:
            unchecked.append(f"{tables.strangers} records of servers are about routers that left no event log")

    def _count_traced(self) -> None:
        """Jobs of the generator that have their arrival and end at a router on record."""
        if not self.ledger.tagged:
            return
        sent = np.flatnonzero(np.isfinite(self.ledger.sent))
        arrival = self.arrivals.by_tag.first(sent)
        ended = self.ends.by_job.first(_take(self.arrivals.job, arrival)) >= 0
        self.found.traced = int(((arrival >= 0) & ended).sum())


def _take(column: Any, places: Ints) -> Any:
    """Entries at these places; at −1 something, which the caller leaves out."""
    if not len(column):
        return np.zeros(len(places), np.asarray(column).dtype)
    return np.asarray(column)[np.maximum(places, 0)]


def _numbers(first: Ints, second: Ints) -> Ints:
    """One number for each pair, equal for equal ones."""
    if not len(first):
        return np.empty(0, np.int64)
    _, found = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
    return found.reshape(-1)


assert tuple(ENDS) == OUTCOMES, "outcomes are written by their places"
