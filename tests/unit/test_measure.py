"""Quantities of a run that can be computed by hand, and of random runs by brute force."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from services.measure.occupancy import occupancy
from services.measure.quantities import ABANDONED, BLOCKED, SERVED, Window, measure
from services.measure.records import Fleet, MessageLog, Records, Run, select

KINDS = ("pull", "withdraw", "probe", "report")


def records(rows, *, way_back=0.0):
    """Rows of (intended, server, waiting, service, outcome)."""
    intended, server, waiting, service, outcome = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.zeros(len(rows), bool)
    return Records(
        intended=intended.astype(float), sent=intended.astype(float), arrived=intended.astype(float),
        ended=intended + waiting + service + way_back, waiting=waiting.astype(float), service=service.astype(float),
        size=np.ones(len(rows)), patience=np.full(len(rows), np.nan), router=np.zeros(len(rows), int),
        server=server, outcome=outcome, faulted=nothing, fallback=nothing, stale=nothing,
    )  # fmt: skip


def fleet(slots=(1, 2), servers=(1, 1)):
    pools = ["a", "b"]
    return Fleet(
        servers=[f"{pool}-{n + 1}" for pool, count in zip(pools, servers, strict=True) for n in range(count)],
        pool_of=np.repeat([0, 1], servers), pools=pools, rates=np.ones(2), slots=np.array(slots),
        capacities=np.full(2, np.inf), routers=["router-1"],
    )  # fmt: skip


def no_messages():
    return MessageLog(np.array([0.0, 4.0]), np.array([0, 5]), {kind: np.array([0, 0]) for kind in KINDS})


@pytest.fixture
def by_hand():
    """Server a-1 has [0, 2) one job, [1, 3) a second one, and from 1.5 to 2 one that gives up; b-1 has [1, 4) one."""
    rows = [
        (0.0, 0, 0.0, 2.0, SERVED),
        (1.0, 0, 1.0, 1.0, SERVED),
        (1.0, 1, 0.0, 3.0, SERVED),
        (1.5, 0, 0.5, 0.0, ABANDONED),
        (2.0, 1, 0.0, 0.0, BLOCKED),
    ]
    log = MessageLog(
        np.array([0.0, 2.0, 4.0]),
        np.array([0, 4, 5]),
        {"pull": np.array([0, 4, 10]), "withdraw": np.array([0, 0, 1]), "probe": np.zeros(3, int),
         "report": np.zeros(3, int)},
    )  # fmt: skip
    return measure(Run(fleet(), records(rows, way_back=0.1), log), Window(0.0, 4.0, 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_probability", 1 / 5),
        ("wait_probability", 2 / 5),
        ("abandon_probability", 1 / 5),
        ("failed_probability", 0.0),
        ("waiting_mean", (0 + 1 + 0 + 0.5) / 4),  # the admitted ones, zero waits and the abandoned one included
        ("sojourn_mean", (2.1 + 2.1 + 3.1) / 3),  # the served ones, until the generator knows
        ("sojourn_p50", 2.1),
        # a-1 has 1 job for 1, 2 for 0.5, 3 for 0.5, 1 for 1, 0 for 1; b-1 has 0 for 1, 1 for 3.
        ("jobs_in_system_mean", (4.5 + 3) / 4),
        ("queue_length_mean", (4.5 + 3) / 8),
        ("queue_length_variance", 11.5 / 8 - (7.5 / 8) ** 2),
        # Together 1 for 1, 3 for 0.5, 4 for 0.5, 2 for 1, 1 for 1.
        ("jobs_in_system_variance", (1 + 4.5 + 8 + 4 + 1) / 4 - (7.5 / 4) ** 2),
        ("perpendicular_second_moment", 11.5 / 4 - 18.5 / 4 / 2),
        ("queue_tail", [1.0, 6 / 8, 1 / 8, 0.5 / 8]),
        ("queue_tail.a", [1.0, 3 / 4, 1 / 4, 0.5 / 4]),
        ("queue_tail.b", [1.0, 3 / 4, 0.0, 0.0]),
        ("utilisation.a", 3 / 4),
        ("utilisation.b", 3 / 4 / 2),  # one of two slots
        ("job_share.a", 2 / 3),
        ("job_share.b", 1 / 3),
        ("queue_length_mean.a", 4.5 / 4),
        ("messages.pull", 10 / 5),
        ("messages.withdraw", 1 / 5),
        ("messages.total", 11 / 5),
    ],
)
def test_quantities_computed_by_hand(by_hand, name, value):
    assert by_hand[name].value == pytest.approx(value)


def test_what_batches_add_averages_to_the_value(by_hand):
    for name, quantity in by_hand.items():
        if np.isfinite(quantity.batches).all():
            assert quantity.batches.mean(axis=0) == pytest.approx(quantity.value), name


def test_a_ratio_is_that_of_the_sums_and_its_batches_are_linear():
    # One job waits 0 in the first half, three wait 4 in the second: the mean is 3, not the mean (0 + 4) / 2 of halves.
    rows = [(0.5, 0, 0.0, 1.0, SERVED), *[(3.0, 0, 4.0, 1.0, SERVED)] * 3]
    found = measure(Run(fleet(), records(rows), no_messages()), Window(0.0, 4.0, 2))["waiting_mean"]
    assert found.value == 3.0
    # R + (sum_b − R·n_b) / (mean n_b): 3 + (0 − 3) / 2 and 3 + (12 − 9) / 2.
    assert found.batches == pytest.approx([1.5, 4.5])


def test_jobs_count_by_their_intended_instant_and_queues_by_the_window():
    rows = [(0.5, 0, 0.0, 2.0, SERVED), (1.5, 1, 0.0, 1.0, SERVED), (3.0, 0, 0.0, 1.0, SERVED)]
    found = measure(Run(fleet(), records(rows), no_messages()), Window(1.0, 3.0, 2))
    assert found["job_share.b"].value == 1.0  # the first came before the window, the last not before its end
    assert found["jobs_in_system_mean"].value == pytest.approx((1.5 + 1.0) / 2)  # in [1, 2.5) and in [1.5, 2.5)


def test_too_few_jobs_beyond_a_quantile_say_nothing_of_its_uncertainty():
    draw = Random(1)
    rows = [(float(n) / 500, 0, draw.expovariate(1.0), 0.0, SERVED) for n in range(1000)]
    found = measure(Run(fleet(), records(rows), no_messages()), Window(0.0, 2.0, 10))
    assert np.isfinite(found["sojourn_p50"].batches).all()
    assert np.isfinite(found["sojourn_p99"].value) and np.isnan(found["sojourn_p99"].batches).all()


def test_batches_of_a_quantile_show_its_error():
    # The median of n exponential draws has the standard error 1 / (2 f √n) with density f = 1/2 there: 1/√n.
    draw, jobs, errors, medians = Random(2), 4000, [], []
    for _ in range(60):
        rows = [(float(n), 0, draw.expovariate(1.0), 0.0, SERVED) for n in range(jobs)]
        run = Run(fleet(), records(rows), no_messages())
        quantity = measure(run, Window(0.0, float(jobs), 40))["sojourn_p50"]
        medians.append(float(quantity.value))
        errors.append(quantity.batches.std(ddof=1) / np.sqrt(40))
    assert np.mean(errors) == pytest.approx(1 / np.sqrt(jobs), rel=0.1)
    # 60 medians: their spread is known to 1/√120 = 9%; four of these.
    assert np.std(medians) == pytest.approx(1 / np.sqrt(jobs), rel=0.37)


def test_occupancy_is_what_an_observer_would_see():
    draw = Random(3)
    places = fleet(servers=(2, 3))
    rows = [
        (draw.uniform(0.0, 10.0), draw.randrange(5), draw.expovariate(2.0), draw.expovariate(1.0), SERVED)
        for _ in range(60)
    ]
    run = Run(places, records(sorted(rows)), no_messages())
    edges = np.linspace(2.0, 12.0, 6)
    seen = occupancy(run, edges)
    step = 1e-3
    looks = np.arange(2.0 + step / 2, 12.0, step)
    start = run.records.arrived
    end = start + run.records.waiting + run.records.service
    for pool in range(2):
        for server in np.flatnonzero(places.pool_of == pool):
            mine = run.records.server == server
            lengths = ((start[mine] <= looks[:, None]) & (looks[:, None] < end[mine])).sum(axis=1)
            for length in range(seen.by_pool.shape[2]):
                at = np.histogram(looks[lengths == length], edges)[0] * step
                seen.by_pool[:, pool, length] -= at
    assert np.abs(seen.by_pool).max() < 0.1  # a look is 0.001 apart from the next, and 60 jobs come and go
    assert seen.total.sum(axis=1) == pytest.approx(np.diff(edges))


def test_a_job_that_went_nowhere_changes_no_queue():
    rows = [(0.0, 0, 0.0, 2.0, SERVED), (1.0, -1, np.nan, np.nan, BLOCKED)]
    found = measure(Run(fleet(), records(rows), no_messages()), Window(0.0, 4.0, 2))
    assert found["jobs_in_system_mean"].value == pytest.approx(0.5)
    assert found["block_probability"].value == 0.5


def test_nothing_to_measure_is_no_number():
    empty = select(records([(9.0, 0, 0.0, 1.0, SERVED)]), np.zeros(1, bool))
    found = measure(Run(fleet(), empty, replace(no_messages(), jobs=np.array([0, 0]))), Window(0.0, 4.0, 2))
    assert np.isnan(found["sojourn_mean"].value) and np.isnan(found["messages.pull"].value)
    assert found["jobs_in_system_mean"].value == 0.0
