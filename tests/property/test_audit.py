"""The audit: silent about a run that adds up; what does not is called by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from router.protocol.eventlog import ENDS, Kind
from services.audit.audit import audit
from services.audit.story import tell
from services.simulator.recording import Recording
from tests.property.audited import (
    LONG_S,
    SYSTEMS,
    Books,
    altered,
    books,
    doubled,
    dropped,
    killed_router,
    rows_of,
    starts_at_once,
)

systems = st.sampled_from(sorted(SYSTEMS))
numbers = st.integers(0, 10**6)


def of(kind: Kind, change: Callable[[Books, int, np.ndarray], Books]) -> Callable[[Books, int], Books | None]:
    """A change of a job's records of one kind; `None`: it has none."""

    def spoil(found: Books, job: int) -> Books | None:
        place, rows = rows_of(found, job, kind)
        return change(found, place, rows) if len(rows) else None

    return spoil


def elsewhere(found: Books, place: int, rows: np.ndarray) -> Books:
    """The records name another server."""
    log = found.logs[place]
    names = [place for place, name in enumerate(log.names) if name.startswith(("slow-", "fast-"))]
    now = int(log.records["server"][rows[0]])
    return altered(found, place, rows, server=next(other for other in names if other != now))


def otherwise(found: Books, place: int, rows: np.ndarray) -> Books:
    """The records tell another outcome."""
    code = int(found.logs[place].records["code"][rows[0]])
    other = ENDS["failed"] if code >> 8 & 255 != ENDS["failed"] else ENDS["served"]
    return altered(found, place, rows, code=code & ~0xFF00 | other << 8)


def renumbered(found: Books, place: int, rows: np.ndarray) -> Books:
    """The records are of a dispatch that there never was."""
    return altered(found, place, rows, dispatch=10**9)


def too_early(found: Books, place: int, rows: np.ndarray) -> Books:
    """The records tell an instant before everything else."""
    return altered(found, place, rows, at=found.logs[place].records["at"][rows] - LONG_S)


def by_another_message(found: Books, place: int, rows: np.ndarray) -> Books:
    """The records name another pull-message."""
    return altered(found, place, rows, number=found.logs[place].records["number"][rows] + 1)


def mistagged(found: Books, place: int, rows: np.ndarray) -> Books:
    """The router takes the job for another one of the generator's."""
    tag = int(found.logs[place].records["tag"][rows[0]])
    return altered(found, place, rows, tag=(tag + 1) % len(found.ledger.sent))


def by_no_message(found: Books, job: int) -> Books | None:
    """It was dispatched by a pull-message that never came."""
    place, rows = rows_of(found, job, Kind.ARRIVED)
    at_once = found.logs[place].records["dispatch"][rows[0]] >= 0
    return altered(found, place, rows, number=10**6) if at_once else None


def unstarted(found: Books, job: int) -> Books | None:
    """A served job whose service never began."""
    if starts_at_once(found, job) or found.ledger.outcome[job] != ENDS["served"]:
        return None
    return dropped(found, *rows_of(found, job, Kind.STARTED))


def otherwise_told(found: Books, job: int) -> Books:
    """The generator has heard of another outcome."""
    return found.with_column("outcome", job, (found.ledger.outcome[job] + 1) % len(ENDS))


def told_of_another_server(found: Books, job: int) -> Books:
    """The generator has heard of another server."""
    return found.with_column("server", job, (found.ledger.server[job] + 1) % len(found.ledger.servers))


def never_told(found: Books, job: int) -> Books:
    """The generator never heard of its end."""
    return found.with_column("outcome", job, -1)


def told_twice(found: Books, job: int) -> Books:
    """The generator has heard of its end twice."""
    return Books(replace(found.ledger, doubled=[job]), found.logs)


def sent_elsewhere(found: Books, job: int) -> Books:
    """The generator had sent it to the other router."""
    return found.with_column("router", job, 1 - found.ledger.router[job])


def sent_late(found: Books, job: int) -> Books:
    """The generator sent it when it had arrived."""
    return found.with_column("sent", job, found.ledger.sent[job] + LONG_S)


def told_early(found: Books, job: int) -> Books:
    """The generator has heard of its end before there was one."""
    return found.with_column("ended", job, found.ledger.ended[job] - LONG_S)


def never_sent(found: Books, job: int) -> Books:
    """The generator never sent it."""
    return found.with_column("sent", job, np.nan)


MISTAKES: dict[str, Callable[[Books, int], Books | None]] = {
    "arrival lost": of(Kind.ARRIVED, dropped),
    "arrival doubled": of(Kind.ARRIVED, doubled),
    "arrival of another job": of(Kind.ARRIVED, mistagged),
    "end lost at the router": of(Kind.ENDED, dropped),
    "end doubled at the router": of(Kind.ENDED, doubled),
    "end of another server at the router": of(Kind.ENDED, elsewhere),
    "end otherwise at the router": of(Kind.ENDED, otherwise),
    "a pull-message out of thin air": by_no_message,
    "receipt lost": of(Kind.RECEIVED, dropped),
    "receipt doubled": of(Kind.RECEIVED, doubled),
    "receipt by another server": of(Kind.RECEIVED, elsewhere),
    "receipt of nothing": of(Kind.RECEIVED, renumbered),
    "end lost at the server": of(Kind.LEFT_SERVER, dropped),
    "end doubled at the server": of(Kind.LEFT_SERVER, doubled),
    "end at another server": of(Kind.LEFT_SERVER, elsewhere),
    "end otherwise at the server": of(Kind.LEFT_SERVER, otherwise),
    "end of nothing": of(Kind.LEFT_SERVER, renumbered),
    "start lost": unstarted,
    "start doubled": of(Kind.STARTED, doubled),
    "start at another server": of(Kind.STARTED, elsewhere),
    "start of nothing": of(Kind.STARTED, renumbered),
    "receipt for another pull-message": of(Kind.RECEIVED, by_another_message),
    "arrival before it was sent": of(Kind.ARRIVED, too_early),
    "receipt before its dispatch": of(Kind.RECEIVED, too_early),
    "start before its receipt": of(Kind.STARTED, too_early),
    "end at the server before its receipt": of(Kind.LEFT_SERVER, too_early),
    "end at the router before that at the server": of(Kind.ENDED, too_early),
    "sent after its arrival": sent_late,
    "end at the generator before that at the router": told_early,
    "another outcome at the generator": otherwise_told,
    "another server at the generator": told_of_another_server,
    "no end at the generator": never_told,
    "two ends at the generator": told_twice,
    "sent to another router": sent_elsewhere,
    "never sent": never_sent,
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_that_adds_up_is_followed_from_end_to_end(system: str) -> None:
    found = audit(books(system).ledger, books(system).logs)

    jobs = len(books(system).ledger.sent)
    assert found.holds and (found.jobs, found.traced) == (jobs, jobs) and jobs > 100
    assert found.accounted == {} and found.unchecked == []


@pytest.mark.parametrize("mistake", MISTAKES)
@settings(max_examples=8, deadline=None)
@given(system=systems, number=numbers)
def test_a_mistake_is_found_and_named(mistake: str, system: str, number: int) -> None:
    good = books(system)
    job = number % len(good.ledger.sent)
    spoilt = MISTAKES[mistake](good, job)
    assume(spoilt is not None)
    assert spoilt is not None

    found = audit(spoilt.ledger, spoilt.logs)
    named = {job for mismatch in found.mismatches for job in mismatch.jobs}
    # Where a record is of another job now, the other one is named as well.
    assert job in named and named <= {job, (job + 1) % len(good.ledger.sent)}
    assert all(str(mismatch) for mismatch in found.mismatches)


@settings(max_examples=30, deadline=None)
@given(system=systems, mistakes=st.lists(st.tuples(st.sampled_from(sorted(MISTAKES)), numbers), min_size=2, max_size=5))
def test_several_mistakes_do_not_hide_one_another(system: str, mistakes: list[tuple[str, int]]) -> None:
    spoilt = books(system)
    jobs: list[int] = []
    for name, number in mistakes:
        job = number % len(spoilt.ledger.sent)
        if any(abs(job - other) <= 1 for other in jobs):
            continue  # two mistakes about one job may undo each other
        changed = MISTAKES[name](spoilt, job)
        if changed is not None:
            twice = [*spoilt.ledger.doubled, *changed.ledger.doubled]
            spoilt = Books(replace(changed.ledger, doubled=list(dict.fromkeys(twice))), changed.logs)
            jobs.append(job)
    assume(len(jobs) > 1)

    named = {job for mismatch in audit(spoilt.ledger, spoilt.logs).mismatches for job in mismatch.jobs}
    assert set(jobs) <= named


@settings(max_examples=15, deadline=None)
@given(system=systems, number=numbers)
def test_a_story_has_everything_in_order(system: str, number: int) -> None:
    found = books(system)
    job = number % len(found.ledger.sent)
    story = tell(found.ledger, found.logs, job)

    instants = [event.at_s for event in story.events]
    words = [event.event for event in story.events]
    assert instants == sorted(instants) and story.missing == []
    assert words[0] == "sent" and words[1] == "arrived" and words[-2:] == ["ended", "end"]
    assert words[-3] == "left_server" and "received" in words
    places = {event.server for event in story.events} - {""}
    assert places == {found.ledger.servers[found.ledger.server[job]]}
    assert (f"job {job}:" in str(story)) and story.json()["events"][0]["process"] == "generator"


def test_a_story_that_breaks_off_says_whose_log_does() -> None:
    good = books("pull")
    spoilt = killed_router(good, 0, len(good.logs[0].records) // 2)
    killed = "router-1 did not end in order, its log ends with it"
    told = [tell(spoilt.ledger, spoilt.logs, job) for job in range(len(spoilt.ledger.sent))]

    broken = [story for story in told if story.missing]
    assert 0 < len(broken) < len(told)
    for story in broken:
        assert story.missing[-1] == killed and spoilt.ledger.router[story.job] == 0
        assert spoilt.ledger.outcome[story.job] == ENDS["failed"] and "its end: failed: link_lost" in str(story)


def test_jobs_without_numbers_are_counted_and_nothing_else() -> None:
    found = books("pull")
    untagged = [
        replace(log, records=_without_tags(log.records)) if log.about.role == "router" else log for log in found.logs
    ]
    result = audit(replace(found.ledger, tagged=False), untagged)

    assert result.holds and result.traced == 0 and "HTTP" in result.unchecked[0]


def test_without_logs_only_the_generator_is_known() -> None:
    found = audit(books("pull").ledger, [])

    assert found.holds and found.traced == 0
    assert found.unchecked == [
        "no event log of router-1, router-2: of its jobs only the generator's word is known"
    ]  # fmt: skip


def test_a_recording_has_no_clock_but_virtual_time() -> None:
    assert Recording().logs() == []
    assert {log.about.boot for log in books("pull").logs} == {"virtual"}


def _without_tags(records: np.ndarray) -> np.ndarray:
    records = records.copy()
    records["tag"] = -1
    return records
