import math
import re
from collections.abc import Callable

import pytest

from services.models import closed
from services.models.split import Pool, random_split


def test_uniform_split_of_equal_servers_is_one_of_them() -> None:
    fleet, one = random_split([Pool(50, 1.0)], 25.0), closed.mm1(0.5)
    assert fleet.sojourn_mean == pytest.approx(one.sojourn_mean, rel=1e-12)
    assert fleet.wait_probability == pytest.approx(one.wait_probability, rel=1e-12)
    assert fleet.sojourn_quantile(0.95) == pytest.approx(one.sojourn_quantile(0.95), rel=1e-9)
    assert fleet.jobs_in_system_mean == pytest.approx(50, rel=1e-12)
    assert fleet.jobs_in_system_variance == pytest.approx(50 * 2, rel=1e-12)
    assert fleet.queue_tail(3) == pytest.approx(0.125, rel=1e-12)


def test_random_split_golden_row_g17() -> None:
    fleet = random_split([Pool(2, 1.0, capacity=2)], 1.8)
    assert fleet.block_probability == pytest.approx(0.29889299, abs=5e-9)


def test_rate_weighted_split_golden_row_g19() -> None:
    fleet = random_split([Pool(1, 1.0), Pool(1, 4.0)], 4.0, [1.0, 4.0])
    assert fleet.sojourn_mean == pytest.approx(2, rel=1e-12)  # (1/5) 1/(.2) + (4/5) 1/(.8)
    assert fleet.utilisation == pytest.approx((0.8, 0.8), rel=1e-12)
    assert fleet.job_shares == pytest.approx((0.2, 0.8), rel=1e-12)
    # The mixture .2 e^{-t/5} + .8 e^{-4t/5} at its own quantile.
    t = fleet.sojourn_quantile(0.95)
    assert 0.2 * math.exp(-0.2 * t) + 0.8 * math.exp(-0.8 * t) == pytest.approx(0.05, rel=1e-9)


def test_rate_weighted_split_golden_row_g22() -> None:
    fleet = random_split([Pool(1, 1.0, capacity=2), Pool(1, 4.0, capacity=3)], 4.0, [1.0, 4.0])
    assert fleet.block_probability == pytest.approx(0.19121240, abs=5e-9)
    served = 4.0 * (1 - fleet.block_probability)
    assert fleet.jobs_in_system_mean == pytest.approx(served * fleet.sojourn_mean, rel=1e-12)  # Little
    assert fleet.utilisation[0] == pytest.approx(served * fleet.job_shares[0], rel=1e-12)
    assert fleet.utilisation[1] == pytest.approx(served * fleet.job_shares[1] / 4, rel=1e-12)


def test_a_pool_of_weight_zero_gets_nothing() -> None:
    fleet = random_split([Pool(2, 1.0), Pool(3, 9.0)], 1.0, [1.0, 0.0])
    assert fleet.job_shares == pytest.approx((1, 0))
    assert fleet.utilisation == pytest.approx((0.5, 0))
    assert fleet.queue_tail(1) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_split([], 1.0), "pools is empty, but a split needs at least one pool"),
        (lambda: random_split([Pool(1, 1.0)], 0.0), "arrival_rate = 0.0, but a split needs"),
        (lambda: random_split([Pool(0, 1.0)], 1.0), "pool 0: servers = 0, but a pool needs servers >= 1"),
        (lambda: random_split([Pool(1, 1.0)], 1.0, [1, 2]), "2 weights for 1 pools: give one weight a pool"),
        (lambda: random_split([Pool(1, 1.0)], 1.0, [-1]), "pool 0: weight = -1, but a weight is finite"),
        (lambda: random_split([Pool(1, 1.0)], 1.0, [0]), "all weights are 0, so no server would get a job"),
        (
            lambda: random_split([Pool(1, 9.0), Pool(1, 1.0)], 4.0),
            "pool 1: load = 2, but a station of infinite capacity needs a load below 1",
        ),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
