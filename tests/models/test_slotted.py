import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from services.models import slotted


def test_single_server_golden_row_g51() -> None:
    result = slotted.weighted_random([10.0], 9.0)
    assert result.queue_lengths[0] == pytest.approx(49.5, rel=1e-12)
    assert result.sojourn_mean == pytest.approx(6.5, rel=1e-12)


def test_two_speeds_golden_row_g53() -> None:
    result = slotted.weighted_random([1.0] * 50 + [0.1] * 50, 0.9 * 55)
    assert result.jobs_in_system_mean == pytest.approx(1122.75, rel=1e-12)
    assert result.sojourn_mean == pytest.approx(23.681818, abs=6e-7)


def test_slow_servers_golden_row_g57() -> None:
    # JCT 1 + (ρ + 2/mean(μ)) / (2 (1 - ρ)) = 1 + (.9 + 10)/.2.
    assert slotted.weighted_random([0.2] * 100, 18.0).sojourn_mean == pytest.approx(55.5, rel=1e-12)


@pytest.mark.parametrize(("rate", "arrivals"), [(1.0, 0.5), (3.0, 2.0), (0.3, 0.2)])
def test_single_server_against_its_chain(rate: float, arrivals: float) -> None:
    # Q' = max(Q + A - S, 0), cut at 300 jobs, iterated to its stationary law.
    size = 300
    k = np.arange(size)
    batch = np.exp(k * math.log(arrivals) - arrivals - np.array([math.lgamma(j + 1) for j in k]))
    success = 1 / (1 + rate)
    matrix = np.zeros((size, size))
    for q in range(size):
        for more in range(min(60, size - q)):
            x = q + more
            # P(S = s) = success (1 - success)^s; all that serve x or more leave nothing.
            matrix[q, 1 : x + 1] += batch[more] * success * (1 - success) ** (x - np.arange(1, x + 1))
            matrix[q, 0] += batch[more] * (1 - success) ** x
    matrix /= matrix.sum(axis=1, keepdims=True)
    law = np.linalg.solve(np.vstack([(matrix.T - np.eye(size))[:-1], np.ones(size)]), np.eye(size)[-1])
    result = slotted.weighted_random([rate], arrivals)
    assert law @ k == pytest.approx(result.queue_lengths[0], rel=1e-8)
    assert law @ k**2 - (law @ k) ** 2 == pytest.approx(result.jobs_in_system_variance, rel=1e-7)
    assert law[0] == pytest.approx(1 - result.utilisation[0], rel=1e-8)


def test_weights_of_ones_choice() -> None:
    result = slotted.weighted_random([1.0, 3.0], 1.2, [1, 1])
    alone = [slotted.weighted_random([rate], 0.6) for rate in (1.0, 3.0)]
    assert result.queue_lengths == pytest.approx([one.queue_lengths[0] for one in alone], rel=1e-12)
    assert result.sojourn_mean == pytest.approx(sum(one.sojourn_mean for one in alone) / 2, rel=1e-12)
    assert result.job_shares == (0.5, 0.5)


def test_light_traffic_still_takes_the_services_that_come() -> None:
    # Alone, a job ends in a slot with chance μ/(1+μ): (1+μ)/μ slots on average.
    assert slotted.weighted_random([0.25], 1e-9).sojourn_mean == pytest.approx(5, rel=1e-8)


def test_message_budgets() -> None:
    # Golden row G59: 10 routers, 49.5 jobs a slot, 100 servers: JSQ 40.1 messages a job.
    assert slotted.full_information_messages(100, 4.95) == pytest.approx(40.1, abs=0.05)
    assert slotted.sampling_messages(100, 2, 4.95, asks_always=True) == pytest.approx(4 / 4.95, rel=1e-12)
    fresh = slotted.sampling_messages(100, 2, 4.95, asks_always=False)
    assert fresh == pytest.approx(4 * (1 - math.exp(-4.95)) / 4.95, rel=1e-12)
    # Hardly any jobs: each of them alone asks its d servers.
    assert slotted.sampling_messages(9, 3, 1e-9, asks_always=False) == pytest.approx(6, rel=1e-8)


def test_update_budget() -> None:
    assert slotted.update_messages(1.0, 0.2) == 1
    assert slotted.update_messages(0.0, 0.2) == pytest.approx(0.2)
    assert slotted.update_messages(0.5, 0.2) == pytest.approx(0.6)


def test_entry_error_bound() -> None:
    assert slotted.entry_error_bound(0.02, 0.45, 0.55) == pytest.approx(50, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: slotted.weighted_random([], 1), "rates = [], but at least one is needed, all finite and above 0"),
        (lambda: slotted.weighted_random([1], 0), "arrival_rate = 0, but a finite rate > 0 is needed"),
        (lambda: slotted.weighted_random([1], 0.5, [1, 2]), "2 weights for 1 servers: give one a server"),
        (lambda: slotted.weighted_random([1], 0.5, [-1]), "weights = [-1.0], but weights are finite, >= 0"),
        (lambda: slotted.weighted_random([3, 1], 3, [1, 1]), "server 1: load = 1.5, but it must be below 1"),
        (lambda: slotted.sampling_messages(3, 4, 1, True), "d = 4 of 3 servers: choose 1 <= d <= 3"),
        (lambda: slotted.full_information_messages(3, 0), "jobs_per_router = 0, but a finite mean > 0 is needed"),
        (lambda: slotted.update_messages(1.5, 0), "p = 1.5, leaves_idle = 0, but both are in [0, 1]"),
        (lambda: slotted.entry_error_bound(0, 1, 1), "refresh_probability = 0, but it is above 0 and at most 1"),
        (lambda: slotted.entry_error_bound(1, 1, 0), "jobs_of_others = 1, rate = 0, but they are >= 0 and > 0"),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
