"""Static splits against golden rows, a numerical minimum, and what is obvious."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from services.models.closed import erlang_b
from services.models.loss import LossSystem
from services.models.loss_meanfield import fixed_point
from services.models.static_split import (
    marginal_loss,
    optimal_split,
    proportional_split,
    uniform_split,
    weighted_split,
)

TWO_TYPES = LossSystem((0.5, 0.5), (5, 10), 6.0)


@pytest.mark.parametrize(
    ("capacity", "offered", "blocking"),
    [(5, 4, 0.19906687), (10, 8, 0.12166106), (20, 18, 0.10921285), (100, 90, 0.02695738)],
)
def test_one_type_is_erlang_b_g5(capacity: int, offered: float, blocking: float) -> None:
    system = LossSystem.homogeneous(capacity, offered)
    for split in (uniform_split, proportional_split, optimal_split):
        assert split(system).block_probability == pytest.approx(blocking, abs=6e-9)


def test_golden_row_g84() -> None:
    assert optimal_split(TWO_TYPES).block_probability == pytest.approx(0.14667002, abs=6e-9)
    assert proportional_split(TWO_TYPES).block_probability == pytest.approx(0.14746300, abs=6e-9)
    assert uniform_split(TWO_TYPES).block_probability == pytest.approx(0.20177114, abs=6e-9)


def test_marginal_loss_is_the_derivative_of_the_lost_work() -> None:
    step = 1e-6
    for capacity, a in [(1, 0.3), (5, 4.0), (30, 50.0)]:
        difference = (a + step) * erlang_b(capacity, a + step) - (a - step) * erlang_b(capacity, a - step)
        assert marginal_loss(capacity, a) == pytest.approx(difference / (2 * step), rel=1e-7)


def test_the_optimum_is_the_minimum_found_by_search() -> None:
    system = LossSystem((0.3, 0.7), (3, 8), 10.0, service_rate=2.0)
    found = minimize_scalar(
        lambda w: weighted_split(system, [w, 1.0]).block_probability,
        bounds=(0.01, 1.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    best = optimal_split(system)
    assert best.block_probability == pytest.approx(found.fun, rel=1e-12)
    assert best.offered[0] / best.offered[1] == pytest.approx(found.x, rel=1e-4)
    assert sum(best.shares) == pytest.approx(1)


@pytest.mark.parametrize("load", [1e-3, 0.5, 1.0, 3.0, 1e4])
def test_marginal_losses_are_equal_at_the_optimum(load: float) -> None:
    shares, capacities = (0.3, 0.3, 0.4), (50, 12, 1)
    system = LossSystem(shares, capacities, load * float(np.dot(shares, capacities)))
    best = optimal_split(system)
    assert np.dot(shares, best.offered) == pytest.approx(system.offered, rel=1e-12)
    marginal = [marginal_loss(c, a) for c, a in zip(capacities, best.offered, strict=True)]
    assert marginal == pytest.approx([marginal[0]] * 3, rel=1e-6, abs=1e-14)
    for other in (uniform_split(system), proportional_split(system)):
        assert best.block_probability <= other.block_probability * (1 + 1e-12)


def test_a_type_without_room_is_left_out() -> None:
    # Its marginal loss is 1 at 0 already; all work goes to the other type, 8 Erlang for each of its servers
    # (G5).
    best = optimal_split(LossSystem((0.25, 0.75), (0, 10), 6.0))
    assert best.shares == pytest.approx((0, 1))
    assert best.block_probability == pytest.approx(0.12166106, abs=6e-9)


def test_weights_count_a_server_of_each_type() -> None:
    # Shares .2 / .8, weights 4 / 1: half of the jobs each, hence a = (.5/.2, .5/.8) lam.
    split = weighted_split(LossSystem((0.2, 0.8), (5, 5), 1.6), [4, 1])
    assert split.shares == pytest.approx((0.5, 0.5))
    assert split.offered == pytest.approx((4.0, 1.0))
    assert split.block_probability_by_type == pytest.approx((erlang_b(5, 4), erlang_b(5, 1)))
    assert split.block_probability == pytest.approx((erlang_b(5, 4) + erlang_b(5, 1)) / 2)


def test_uniform_split_is_maximum_vacancy_with_one_choice() -> None:
    split, field = uniform_split(TWO_TYPES), fixed_point(TWO_TYPES, 1)
    assert split.block_probability == pytest.approx(field.block_probability, rel=1e-12)
    assert split.mean_jobs == pytest.approx(field.mean_jobs, rel=1e-12)


def test_weights_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"weights = \(1,\): expected 2, one a type"):
        weighted_split(TWO_TYPES, [1])
    for weights in ([0, 0], [-1, 2], [float("nan"), 1]):
        with pytest.raises(ValueError, match="each must be a finite number >= 0, and one of them > 0"):
            weighted_split(TWO_TYPES, weights)
