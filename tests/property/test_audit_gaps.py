"""What may be missing for the audit, and what may not: kills, what logs have overwritten, clocks of other hosts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from router.protocol.eventlog import Kind
from services.audit.audit import audit
from tests.property.audited import (
    LONG_S,
    SYSTEMS,
    books,
    dispatch_of,
    dropped,
    killed_router,
    killed_servers,
    rows_of,
)

systems = st.sampled_from(sorted(SYSTEMS))
numbers = st.integers(0, 10**6)


@settings(max_examples=30, deadline=None)
@given(system=systems, cuts=st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4))
def test_what_logs_have_overwritten_is_no_mistake(system: str, cuts: list[float]) -> None:
    """Whatever is left: the newest records of each log. What was cut off is said."""
    found = books(system)
    for place, (log, share) in enumerate(zip(found.logs, cuts, strict=True)):
        gone = int(share * len(log.records))
        found = found.with_log(place, log.records[gone:], overwritten=gone)

    result = audit(found.ledger, found.logs)
    assert result.mismatches == []
    assert len(result.unchecked) == sum(log.overwritten > 0 for log in found.logs)


@settings(max_examples=30, deadline=None)
@given(system=systems, number=numbers, share=st.floats(0.0, 0.9))
def test_what_lies_after_the_gap_of_one_log_is_still_checked(system: str, number: int, share: float) -> None:
    good = books(system)
    job = number % len(good.ledger.sent)
    router, _ = dispatch_of(good, job)
    arrival, end = (rows_of(good, job, kind)[1][0] for kind in (Kind.ARRIVED, Kind.ENDED))
    gone = int(share * arrival)
    spoilt = dropped(good, router, [end])
    spoilt = spoilt.with_log(router, spoilt.logs[router].records[gone:], overwritten=gone)

    assert job in {job for mismatch in audit(spoilt.ledger, spoilt.logs).mismatches for job in mismatch.jobs}


@settings(max_examples=30, deadline=None)
@given(system=systems, number=numbers, router=st.integers(0, 1))
def test_a_router_that_was_killed_accounts_for_its_jobs(system: str, number: int, router: int) -> None:
    good = books(system)
    at = number % len(good.logs[router].records)
    spoilt = killed_router(good, router, at)

    found = audit(spoilt.ledger, spoilt.logs)
    assert found.mismatches == []
    lost = int((spoilt.ledger.reason == 1).sum())
    keys = "jobs whose router was killed", "jobs that reached no router: the way there was lost"
    assert sum(found.accounted.get(key, 0) for key in keys) == lost
    assert found.traced == found.jobs - lost


@settings(max_examples=30, deadline=None)
@given(system=systems, number=numbers, place=st.integers(2, 3))
def test_a_server_that_was_killed_accounts_for_its_jobs(system: str, number: int, place: int) -> None:
    good = books(system)
    spoilt = killed_servers(good, place, number % len(good.logs[place].records))

    found = audit(spoilt.ledger, spoilt.logs)
    gone = int((spoilt.ledger.reason == 1).sum())
    assert found.mismatches == [] and found.traced == found.jobs - gone
    keys = "jobs that were at a server which was killed", "dispatches that were lost with a link"
    assert sum(found.accounted.get(key, 0) for key in keys) == gone


@settings(max_examples=30, deadline=None)
@given(
    system=systems, number=numbers, place=st.integers(2, 3), later=numbers, router=st.integers(0, 1),
    unheard=st.integers(0, 20),
)  # fmt: skip
def test_so_do_a_server_and_a_router_that_were_both_killed(
    system: str, number: int, place: int, later: int, router: int, unheard: int
) -> None:
    """The router says of some jobs that they were lost at that server, the generator only that they were lost."""
    good = books(system)
    spoilt = killed_servers(good, place, number % len(good.logs[place].records))
    spoilt = killed_router(spoilt, router, later % len(good.logs[router].records), unheard)

    found = audit(spoilt.ledger, spoilt.logs)
    assert found.mismatches == []
    lost = int(((spoilt.ledger.reason == 1) & (spoilt.ledger.server < 0)).sum())
    keys = ("jobs whose router was killed", "jobs that reached no router: the way there was lost",
            "ends that did not reach the generator")  # fmt: skip
    assert sum(found.accounted.get(key, 0) for key in keys) == lost


def test_servers_of_which_no_end_is_on_record_are_no_trouble_but_their_jobs() -> None:
    spoilt = books("pull")
    for place in (2, 3):
        ends = np.flatnonzero(spoilt.logs[place].records["code"] & 255 == Kind.LEFT_SERVER)
        spoilt = dropped(spoilt, place, ends)

    found = audit(spoilt.ledger, spoilt.logs)
    assert "received, but never ended by its server" in {mismatch.what for mismatch in found.mismatches}
    assert found.traced == 0


@settings(max_examples=15, deadline=None)
@given(
    system=systems,
    place=st.integers(0, 3),
    by_s=st.floats(-LONG_S, LONG_S),
    at=st.integers(0, 3),
    share=st.floats(0.0, 1.0),
)
def test_instants_of_different_clocks_are_not_compared(
    system: str, place: int, by_s: float, at: int, share: float
) -> None:
    """One log is of another host; nor is what one has overwritten told by a clock that is not its own."""
    found = books(system)
    log = found.logs[place]
    records = log.records.copy()
    records["at"] += by_s
    found = found.with_log(place, records, about=log.about._replace(boot="another host's"))
    gone = int(share * len(found.logs[at].records))
    found = found.with_log(at, found.logs[at].records[gone:], overwritten=gone)

    assert audit(found.ledger, found.logs).mismatches == []


def test_logs_of_processes_that_were_started_must_be_there() -> None:
    good = books("pull")
    processes = {log.about.id: 1 for log in good.logs}
    assert audit(replace(good.ledger, processes=processes), good.logs).holds

    found = audit(replace(good.ledger, processes=processes | {"servers-slow": 3}), good.logs[1:])
    assert [str(mismatch) for mismatch in found.mismatches] == [
        "started, but its event log is missing: router-1, servers-slow (2 of 3)"
    ]


def test_records_that_nothing_has_overwritten_must_be_there() -> None:
    good = books("pull")
    number = int(np.flatnonzero(good.logs[0].records["code"] & 255 == Kind.PULLED)[0])
    records = np.delete(good.logs[0].records, number)
    spoilt = good.with_log(0, records, holes=[(number + 1, number + 1), (10**6, 10**6 + 9)])

    found = audit(spoilt.ledger, spoilt.logs)
    whats = [mismatch.what for mismatch in found.mismatches]
    assert str(found.mismatches[0]) == (
        f"the event log of router-1 is damaged, records are missing: {number + 1}, 1000000 to 1000009"
    )
    assert whats[1:] == ["a pull-message that never came"] and found.mismatches[1].jobs


def test_without_a_kill_the_same_is_a_mistake() -> None:
    good = books("pull")
    spoilt = killed_router(good, 0, len(good.logs[0].records) // 2)
    logs = [replace(log, closed_at=1.0) for log in spoilt.logs]

    whats = {mismatch.what for mismatch in audit(spoilt.ledger, logs).mismatches}
    assert "no end at the router, which ended in order" in whats
