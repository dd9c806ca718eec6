"""Shortest queues with abandonment against exact chains, at patience rates that a short run can follow."""

from __future__ import annotations

import pytest

from services.models.abandonment import AbandonmentSystem, erlang_a, single_server
from services.models.abandonment_jsq import jsq_with_abandonment
from tests.simulation.golden import Case, Estimate, check, compare, simulated

ABANDON = "abandon_probability"
LENGTH = "jobs_in_system_mean"


def system_of(servers: int, rate: float, patience: float, in_service: bool, policy: str, jobs: int) -> Case:
    """So many servers of rate 1, and jobs that leave."""
    pool = f'{{name = "a", servers = {servers}}}'
    more = f"patience = {{rate = {patience}, in_service = {str(in_service).lower()}}}"
    return Case("abandonment", policy, pool, f"rate_total = {rate}", {}, jobs, more=more)


def agrees(found: dict[str, Estimate], exact: dict[str, float | None], error: float) -> None:
    """Hold each of these against its exact value."""
    for name, value in exact.items():
        if value is not None:
            compare(name, found[name], value, error=error)


@pytest.mark.parametrize("in_service", [False, True])
@pytest.mark.parametrize("rate", [0.8, 1.5])
def test_a_single_server_is_the_exact_chain(rate: float, in_service: bool) -> None:
    exact = single_server(rate, 1.0, 0.2, in_service)
    found = simulated(system_of(1, rate, 0.2, in_service, 'name = "random"', 50_000))
    agrees(
        found,
        {
            ABANDON: exact.abandon_probability,
            LENGTH: exact.jobs_in_system_mean,
            "wait_probability": exact.wait_probability,
            "waiting_mean": exact.waiting_mean,
            "sojourn_mean": exact.sojourn_mean,
            "jobs_in_system_variance": exact.jobs_in_system_variance,
        },
        error=0.04,
    )


@pytest.mark.parametrize("in_service", [False, True])
def test_one_server_of_many_slots_is_erlang_a(in_service: bool) -> None:
    exact = erlang_a(AbandonmentSystem(5, 5.5, 1.0, 0.3, in_service))
    case = system_of(1, 5.5, 0.3, in_service, 'name = "random"', 60_000)
    slots = Case(**{**vars(case), "pools": '{name = "a", servers = 1, slots = 5}'})
    agrees(simulated(slots), {ABANDON: exact.abandon_probability, LENGTH: exact.jobs_in_system_mean}, error=0.03)


def test_shortest_queues_are_the_exact_chain() -> None:
    exact = jsq_with_abandonment(AbandonmentSystem(2, 2.0, 1.0, 0.1))
    found = simulated(system_of(2, 2.0, 0.1, False, 'name = "jsq"', 100_000))
    agrees(
        found,
        {
            ABANDON: exact.abandon_probability,
            LENGTH: exact.jobs_in_system_mean,
            "jobs_in_system_variance": exact.jobs_in_system_variance,
            "perpendicular_second_moment": exact.perpendicular_second_moment,
        },
        error=0.04,
    )


def test_each_arrival_is_served_or_abandons() -> None:
    """P(abandon) = 1 - busy servers / arrival rate = patience rate · E[waiting jobs] / arrival rate, by any policy."""
    rate, patience = 3.3, 0.25
    case = system_of(3, rate, patience, False, 'name = "power_of_d", replacement = true', 60_000)
    found = simulated(case)
    busy = 3 * found["utilisation.a"].value
    waiting = found[LENGTH].value - busy
    # Both sides come from the same run; what differs is one window's edges and the patience that was drawn.
    assert found[ABANDON].value == pytest.approx(1 - busy / rate, abs=0.01)
    assert found[ABANDON].value == pytest.approx(patience * waiting / rate, rel=0.04)


LONG = [
    Case("G62", 'name = "random"', '{name = "a", servers = 1}', "rate_total = 1.0",
         {ABANDON: 0.07206055, LENGTH: 8.13399405, "jobs_in_system_variance": 41.97213492},
         2_000_000, error=0.04, more="patience = {rate = 0.01}"),
    Case("G64", 'name = "random"', '{name = "a", servers = 1}', "rate_total = 1.5",
         {ABANDON: 0.33333472, LENGTH: 51.00020630, "jobs_in_system_variance": 149.98947875},
         1_000_000, error=0.04, more="patience = {rate = 0.01}"),
    Case("G66", 'name = "jsq"', '{name = "a", servers = 2}', "rate_total = 1.8",
         {ABANDON: 0.02794912, LENGTH: 6.78053255}, 2_000_000, error=0.04, more="patience = {rate = 0.01}"),
    Case("G67", 'name = "jsq"', '{name = "a", servers = 2}', "rate_total = 2.0",
         {ABANDON: 0.05249657, LENGTH: 12.39432005, "perpendicular_second_moment": 0.87605713},
         2_000_000, error=0.04, more="patience = {rate = 0.01}"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("case", LONG, ids=str)
def test_golden_row_that_takes_long(case: Case) -> None:
    check(case)
