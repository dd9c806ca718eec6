"""The loss mean field against Erlang's formula, golden rows, its own trajectory and its own derivatives."""

import numpy as np
import pytest

from services.models.closed import erlang_b
from services.models.loss import LossSystem, tail_bound
from services.models.loss_field import LossField
from services.models.loss_meanfield import fixed_point, trajectory

TWO_TYPES = LossSystem((0.5, 0.5), (5, 10), 6.0)


@pytest.mark.parametrize(
    ("system", "choices", "blocking"),
    [
        (LossSystem.homogeneous(2, 1.6), 1, 0.32989691),  # G76
        (LossSystem.homogeneous(2, 1.6), 2, 0.19068898),
        (LossSystem.homogeneous(5, 4.0), 1, 0.19906687),  # G79
        (LossSystem.homogeneous(5, 4.0), 2, 0.06790114),
        (LossSystem.homogeneous(5, 4.0), 3, 0.02140074),
        (TWO_TYPES, 1, 0.20177114),  # G83
        (TWO_TYPES, 2, 0.04403572),
        (TWO_TYPES, 3, 0.00452225),
        (LossSystem((0.5, 0.5), (1, 2), 1.2), 2, 0.24819494),  # G89
    ],
)
def test_blocking_of_the_golden_rows(system: LossSystem, choices: int, blocking: float) -> None:
    assert fixed_point(system, choices).block_probability == pytest.approx(blocking, abs=6e-9)


def test_tails_of_the_golden_row_g80() -> None:
    tails = fixed_point(LossSystem.homogeneous(5, 4.0), 2).tails[0]
    assert tails == pytest.approx([1, 0.99683497, 0.97155482, 0.87203242, 0.62739479, 0.26057846], abs=6e-9)


def test_types_of_the_golden_row_g86() -> None:
    result = fixed_point(TWO_TYPES, 2)
    assert result.full_shares == pytest.approx((0.33073189, 0.08896192), abs=6e-9)
    assert result.mean_jobs == pytest.approx((3.955312, 7.516259), abs=6e-7)
    # A job is served where the jobs are: the type's share of the departures, all at rate mu per job.
    assert result.job_shares == pytest.approx(np.array(result.mean_jobs) / sum(result.mean_jobs))


def test_one_choice_is_erlang_b_for_each_type() -> None:
    system = LossSystem((0.2, 0.3, 0.5), (1, 4, 30), 40.0, service_rate=2.0)
    result = fixed_point(system, 1)
    expected = [erlang_b(capacity, 20.0) for capacity in system.capacities]
    assert result.full_shares == pytest.approx(expected, rel=1e-12)
    assert result.block_probability == pytest.approx(np.dot(system.shares, expected), rel=1e-12)


@pytest.mark.parametrize("load", [1e-3, 0.2, 0.9, 1.0, 1.3, 30.0])
@pytest.mark.parametrize("choices", [1, 2, 4])
def test_empty_and_full_lead_to_one_state_with_balanced_flow(load: float, choices: int) -> None:
    shares, capacities = (0.3, 0.3, 0.4), (50, 49, 20)
    system = LossSystem(shares, capacities, load * float(np.dot(shares, capacities)))
    result = fixed_point(system, choices)
    assert result.start_gap < 1e-11
    assert result.flow_gap < 1e-12
    assert all(np.all(np.diff(tail) <= 0) for tail in result.tails)


def test_many_choices_at_heavy_load_fill_every_server_that_has_room() -> None:
    # With d large all servers share one vacancy level, and what is not blocked keeps nearly every slot busy:
    # blocking -> 1 - capacity / offered = 1 - 37.7 / 60.
    result = fixed_point(LossSystem((0.3, 0.3, 0.4), (50, 49, 20), 60.0), 30)
    assert result.block_probability == pytest.approx(1 - 37.7 / 60, rel=2e-3)
    assert result.block_probability > 1 - 37.7 / 60


def test_small_blocking_keeps_its_relative_accuracy() -> None:
    # For tiny tails the cut equation gives u_n = lam / (n mu) u_{n-1}^d up to a relative error of the size of
    # u_{n-1}.
    tail = fixed_point(LossSystem.homogeneous(6, 0.05), 2).tails[0]
    assert 1e-100 < tail[6] < 1e-90
    for n in (4, 5, 6):
        assert tail[n] == pytest.approx(0.05 / n * tail[n - 1] ** 2, rel=1e-9)


def test_cut_equation_when_all_are_alike() -> None:
    lam, d = 7.0, 3
    tail = np.append(fixed_point(LossSystem.homogeneous(9, lam), d).tails[0], 0.0)
    n = np.arange(1, 10)
    assert lam * (tail[:-2] ** d - tail[1:-1] ** d) == pytest.approx(n * (tail[1:-1] - tail[2:]), rel=1e-9)


def test_tail_bound_is_above_and_doubly_exponential() -> None:
    tail = fixed_point(LossSystem.homogeneous(12, 4.0), 2).tails[0]
    bound = tail_bound(12, 4.0, 2)
    assert np.all(tail <= bound * (1 + 1e-12))
    # Once lam / n is nearly 1 or less, log b_n = 2 log b_{n-1} + log(4 / n) <= 2 log b_{n-1}.
    assert np.all(np.log(bound[6:]) <= 2 * np.log(bound[5:-1]))
    assert bound[:5] == pytest.approx([1, 1, 1, 1, 1])
    assert bound[5:7] == pytest.approx([4 / 5, 4 / 6 * (4 / 5) ** 2])


def test_jacobian_is_the_derivative_of_the_right_hand_side() -> None:
    field = LossField(LossSystem((0.2, 0.5, 0.3), (3, 6, 0), 3.0, 1.5), 3)
    tails = np.concatenate([[0.8, 0.5, 0.1], [0.9, 0.7, 0.6, 0.4, 0.3, 0.05]])
    step = 1e-6
    numeric = np.array([(field.rhs(tails + step * e) - field.rhs(tails - step * e)) / (2 * step) for e in np.eye(9)]).T
    assert field.jacobian(tails) == pytest.approx(numeric, abs=1e-7)


def test_right_hand_side_by_hand() -> None:
    # C = (1, 2), half / half, d = 2, lam = 1.2, u^1 = (1, .5), u^2 = (1, .6, .2).
    # G(0) = (.5 + .2)/2 = .35, G(1) = (1 + .6)/2 = .8, G(2) = 1; q(v) = lam (G(v) + G(v-1)): q(1) = 1.38,
    # q(2) = 2.16.
    field = LossField(LossSystem((0.5, 0.5), (1, 2), 1.2), 2)
    expected = [1.38 * 0.5 - 0.5, 2.16 * 0.4 - 0.4, 1.38 * 0.4 - 2 * 0.2]
    assert field.rhs(np.array([0.5, 0.6, 0.2])) == pytest.approx(expected)


def test_a_type_without_room_is_always_full() -> None:
    # Half of the servers hold nothing, d = 1: half of the jobs are lost, the rest see Erlang B.
    result = fixed_point(LossSystem((0.5, 0.5), (0, 5), 4.0), 1)
    assert result.full_shares[0] == 1
    assert result.block_probability == pytest.approx(0.5 + 0.5 * 0.19906687, abs=6e-9)


def test_trajectory_of_one_choice_and_one_slot_is_an_exponential() -> None:
    # C = 1, d = 1: u' = lam (1 - u) - mu u, u(t) = r (1 - exp(-(lam + mu) t)), r = lam / (lam + mu).
    times = [0.0, 0.1, 0.5, 0.5, 2.0]
    path = trajectory(LossSystem.homogeneous(1, 1.5, 0.5), 1, times)
    expected = 0.75 * (1 - np.exp(-2.0 * np.array(times)))
    assert path.tails[0][:, 1] == pytest.approx(expected, abs=1e-8)
    assert path.block_probability == pytest.approx(expected, abs=1e-8)
    assert path.mean_jobs_all == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("start", ["empty", "full"])
def test_trajectory_ends_in_the_fixed_point(start: str) -> None:
    path = trajectory(TWO_TYPES, 2, [0.0, 60.0], start)  # type: ignore[arg-type]
    for tail, steady in zip(path.tails, fixed_point(TWO_TYPES, 2).tails, strict=True):
        assert tail[0, 1:] == pytest.approx(np.full(tail.shape[1] - 1, float(start == "full")))
        assert tail[1] == pytest.approx(steady, abs=1e-7)


def test_trajectory_from_the_fixed_point_stays() -> None:
    steady = fixed_point(TWO_TYPES, 2)
    path = trajectory(TWO_TYPES, 2, [3.0], steady.tails)
    assert path.block_probability[0] == pytest.approx(steady.block_probability, abs=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0.5, 0.4), (1, 2), 1.0), r"shares = \(0\.5, 0\.4\) add up to 0\.9: they must add up to 1"),
        (((1.0,), (1, 2), 1.0), r"shares = .* and capacities = \(1, 2\): give one of each for every type"),
        (((1.0,), (1.5,), 1.0), r"capacities = \(1\.5,\): each must be a whole number"),
        (((1.0,), (-1,), 1.0), r"capacities = \(-1,\): each must be >= 0"),
        (((1.0,), (0,), 1.0), r"capacities = \(0,\): at least one must be >= 1"),
        (((0.0, 1.0), (1, 1), 1.0), r"shares = .*: each must be > 0; leave out a type without servers"),
        (((1.0,), (1,), 0.0), r"arrival_rate = 0\.0: must be a finite number > 0"),
        (((1.0,), (1,), 1.0, float("inf")), r"service_rate = inf: must be a finite number > 0"),
    ],
)
def test_systems_out_of_range(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LossSystem(*arguments)  # type: ignore[arg-type]


def test_arguments_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"choices = \(0,\): each must be >= 1"):
        fixed_point(TWO_TYPES, 0)
    with pytest.raises(ValueError, match="expected one or more instants >= 0 that never fall"):
        trajectory(TWO_TYPES, 2, [1.0, 0.5])
    with pytest.raises(ValueError, match='start = "half": must be "empty", "full" or the tails of each type'):
        trajectory(TWO_TYPES, 2, [1.0], "half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected \[\(6,\), \(11,\)\], n = 0\.\.C_j"):
        trajectory(TWO_TYPES, 2, [1.0], [np.ones(5), np.ones(11)])
    with pytest.raises(ValueError, match="each tail must begin with 1, never rise, and stay within 0 and 1"):
        trajectory(TWO_TYPES, 2, [1.0], [np.linspace(0, 1, 6), np.ones(11)])
