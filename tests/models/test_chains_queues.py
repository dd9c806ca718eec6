import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from services.models import closed, split
from services.models.chains.queues import solve_jiq, solve_random, solve_shortest

# The golden rows give 8 decimals; suppressing 1e-11 steps a job moves T by less than that.
FINE: dict[str, Any] = {"tolerance": 1e-11}


@pytest.mark.parametrize(
    ("load", "sojourn"), [(0.5, 1.42632075), (0.8, 2.95573662), (0.9, 5.47491282), (0.95, 10.48663881)]
)
def test_jsq_golden_rows_g11(load: float, sojourn: float) -> None:
    result = solve_shortest([1, 1], 2 * load)
    assert result.sojourn_mean == pytest.approx(sojourn, abs=6e-9)
    assert result.utilisation == pytest.approx((load, load), rel=1e-9)
    assert result.truncation_error < 1e-12


@pytest.mark.parametrize(
    ("load", "replacement", "sojourn"),
    [
        (0.7, False, 1.88479236),
        (0.7, True, 2.08318883),
        pytest.param(0.9, False, 4.27408704, marks=pytest.mark.long),
    ],
)
def test_power_of_two_golden_rows_g13_g14(load: float, replacement: bool, sojourn: float) -> None:
    result = solve_shortest([1] * 3, 3 * load, d=2, replacement=replacement, **FINE)
    assert result.sojourn_mean == pytest.approx(sojourn, abs=1e-8)


@pytest.mark.long
def test_power_of_two_with_replacement_at_high_load_golden_row_g14() -> None:
    # Three dimensions and so many states that the balance is solved by iteration.
    result = solve_shortest([1] * 3, 2.7, d=2, replacement=True)
    assert result.states > 40_000
    assert result.sojourn_mean == pytest.approx(4.61790281, abs=1e-8)


@pytest.mark.parametrize("load", [0.5, 0.7, 0.8, 0.9])
def test_jiq_golden_rows_g15(load: float) -> None:
    # (1+ρ)/((1-ρ)(1+2ρ)) gives the rows 1.5, 2.36111, 3.46153846, 6.78571429.
    expected = (1 + load) / ((1 - load) * (1 + 2 * load))
    assert solve_jiq([1, 1], 2 * load).sojourn_mean == pytest.approx(expected, abs=5e-9)


def test_small_buffers_golden_row_g17() -> None:
    arguments = ([1, 1], 1.8, [2, 2])
    assert solve_random(*arguments).block_probability == pytest.approx(0.29889299, abs=5e-9)
    assert solve_jiq(*arguments).block_probability == pytest.approx(0.22765898, abs=5e-9)
    assert solve_shortest(*arguments).block_probability == pytest.approx(0.19468265, abs=5e-9)


def test_two_speeds_golden_rows_g19_g20() -> None:
    rates = [1.0, 4.0]
    assert solve_shortest(rates, 4).sojourn_mean == pytest.approx(1.47379490, abs=5e-9)
    assert solve_shortest(rates, 4, ties="fastest").sojourn_mean == pytest.approx(1.35329681, abs=5e-9)
    assert solve_random(rates, 4, weights=rates).sojourn_mean == pytest.approx(2, abs=1e-9)
    sed = solve_shortest(rates, 4, rank="joined", ties="fastest")
    assert sed.sojourn_mean == pytest.approx(1.25731755, abs=5e-9)
    assert sed.utilisation == pytest.approx((0.51452671, 0.87136832), abs=5e-9)
    # The order of the servers is the caller's.
    mirrored = solve_shortest(rates[::-1], 4, rank="joined", ties="fastest")
    assert mirrored.utilisation == pytest.approx(sed.utilisation[::-1], rel=1e-9)


def test_two_speeds_with_buffers_golden_rows_g22_g23() -> None:
    arguments = ([1.0, 4.0], 4.0, [2, 3])

    def sed(full: str) -> object:
        return solve_shortest(*arguments, rank="joined", ties="fastest", full=full)  # type: ignore[arg-type]

    blocking = {
        "ignore": solve_shortest(*arguments, full="ignore").block_probability,
        "skip": solve_shortest(*arguments).block_probability,
        "sed": sed("skip").block_probability,  # type: ignore[attr-defined]
        "jiq": solve_jiq(*arguments).block_probability,
        "weighted": solve_random(*arguments, weights=[1, 4]).block_probability,
    }
    assert blocking == pytest.approx(
        {
            "ignore": 0.15141871,
            "skip": 0.12663678,
            "sed": 0.11592987,
            "jiq": 0.19209607,
            "weighted": 0.19121240,
        },
        abs=6e-9,
    )
    blind = solve_shortest(*arguments, rank="joined", ties="fastest", full="ignore")
    assert blind.block_probability == pytest.approx(0.25, abs=1e-12)
    assert blind.utilisation == pytest.approx((0, 0.75), abs=1e-12)


def test_random_chain_agrees_with_the_split_in_every_quantity() -> None:
    rates, capacities, weights = [1.0, 1.0, 3.0], [4, 4, 6], [1.0, 1.0, 2.0]
    chain = solve_random(rates, 4.0, capacities, weights)
    pools = [split.Pool(2, 1.0, capacity=4), split.Pool(1, 3.0, capacity=6)]
    mixture = split.random_split(pools, 4.0, [1.0, 2.0])
    for name in (
        "block_probability",
        "wait_probability",
        "waiting_mean",
        "sojourn_mean",
        "jobs_in_system_mean",
        "jobs_in_system_variance",
    ):
        assert getattr(chain, name) == pytest.approx(getattr(mixture, name), rel=1e-9), name
    assert chain.queue_tail == pytest.approx([mixture.queue_tail(k) for k in range(7)], rel=1e-9, abs=1e-15)
    assert chain.utilisation[1:] == pytest.approx(mixture.utilisation, rel=1e-9)
    assert chain.job_shares[0] + chain.job_shares[1] == pytest.approx(mixture.job_shares[0], rel=1e-9)
    assert chain.server_tails[2] == pytest.approx([mixture.stations[1].queue_tail(k) for k in range(7)], rel=1e-9)
    assert chain.truncation_error == 0


@pytest.mark.parametrize("solve", [solve_random, solve_jiq, solve_shortest])
def test_one_server_is_a_single_station(solve: Callable[..., object]) -> None:
    infinite, finite = solve([2.0], 1.4), solve([2.0], 3.0, [4])
    assert infinite.sojourn_mean == pytest.approx(1 / 0.6, rel=1e-9)  # type: ignore[attr-defined]
    expected = closed.mm1k(3.0, 2.0, 4).block_probability
    assert finite.block_probability == pytest.approx(expected, rel=1e-12)  # type: ignore[attr-defined]


def test_capacity_one_and_full_knowledge_is_erlangs_loss_system() -> None:
    for solve in (solve_shortest, solve_jiq):
        result = solve([1.0] * 4, 3.0, [1] * 4)
        assert result.block_probability == pytest.approx(closed.erlang_b(4, 3.0), rel=1e-12)
        assert result.wait_probability == 0
        assert result.sojourn_mean == pytest.approx(1, rel=1e-12)


def test_all_of_all_is_jsq_and_one_of_all_is_random() -> None:
    jsq = solve_shortest([1, 2], 2, [4, 3])
    assert solve_shortest([1, 2], 2, [4, 3], d=2).sojourn_mean == pytest.approx(jsq.sojourn_mean, rel=1e-12)
    one = solve_shortest([1, 2], 2, [4, 3], d=1).block_probability
    assert one == pytest.approx(solve_random([1, 2], 2, [4, 3]).block_probability, rel=1e-12)


def test_replacement_mixes_one_and_two() -> None:
    # Two draws with replacement from two servers: the same one half of the time. All buffers full: always blocked.
    result = solve_shortest([1, 1], 1e-9, d=2, replacement=True)
    # In light traffic a job waits only behind one other: P(one busy) = λ, and it is missed by chance 1/4.
    assert result.wait_probability == pytest.approx(1e-9 / 4, rel=1e-6)


def test_light_traffic() -> None:
    result = solve_shortest([2.0, 2.0], 1e-8)
    assert result.sojourn_mean == pytest.approx(0.5, rel=1e-7)
    assert result.wait_probability == pytest.approx(0, abs=1e-12)


def test_identities_hold_in_any_chain() -> None:
    result = solve_shortest([1, 1, 2], 3.5, [3, 3, 5])
    served = 3.5 * (1 - result.block_probability)
    busy = np.array(result.utilisation)
    assert busy @ [1, 1, 2] == pytest.approx(served, rel=1e-12)
    assert result.jobs_in_system_mean == pytest.approx(sum(t[1:].sum() for t in result.server_tails), rel=1e-12)
    assert result.sojourn_mean - result.waiting_mean == pytest.approx(busy.sum() / served, rel=1e-12)
    assert sum(result.job_shares) == pytest.approx(1, rel=1e-12)


def test_perpendicular_second_moment_of_independent_queues() -> None:
    # Independent equal queues of variance v: E Σ(q_i - mean)² = (n-1) v; M/M/1 at .5 has v = 2.
    assert solve_random([1, 1], 1.0).perpendicular_second_moment == pytest.approx(2, rel=1e-8)


def test_iteration_and_elimination_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    def solve() -> float:
        return solve_random([1, 1.5, 2], 3.6, [11, 12, 13]).jobs_in_system_mean

    direct = solve()
    monkeypatch.setattr("services.models.chains.builder.ITERATIVE_FROM", 10)
    assert solve() == pytest.approx(direct, rel=1e-11)


def test_iteration_finds_a_law_in_which_the_first_state_hardly_occurs() -> None:
    # Overloaded, 4 dimensions: P(all idle) is below 1e-15. Random splits into independent M/M/1/12 of 5 arrivals each.
    result = solve_random([1, 2, 3, 4], 20, [12] * 4)
    stations = [closed.mm1k(5, rate, 12) for rate in (1, 2, 3, 4)]
    blocking = sum(station.block_probability for station in stations) / 4
    assert result.block_probability == pytest.approx(blocking, rel=1e-12)
    assert result.jobs_in_system_mean == pytest.approx(sum(s.jobs_in_system_mean for s in stations), rel=1e-12)


def test_too_few_states_for_the_tolerance_still_give_what_is_good_enough() -> None:
    # Two M/M/1 at load .6: cutting .6^k < 1e-12 would take 55² states, 1e-6 takes 28². T = 2 / (2.5 · .4).
    result = solve_random([1, 1.5], 1.5, weights=[1, 1.5], max_states=1000)
    assert 1e-12 < result.truncation_error < 1e-6
    assert result.states <= 1000
    # Cutting off a share e above K changes the mean of M/M/1 by about K e of itself, and here K <= 31.
    assert result.sojourn_mean == pytest.approx(2, rel=31e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_random([], 1), "rates is empty, but a fleet needs at least one server"),
        (lambda: solve_random([1, 1], 1, [2]), "1 capacities for 2 servers: give one a server"),
        (lambda: solve_random([1, 0], 1), "server 1: rate = 0, but a server needs a finite rate > 0"),
        (lambda: solve_random([1], 1, [1.5]), "server 0: capacity = 1.5, but it is infinite or a whole number >= 1"),
        (lambda: solve_random([1], 0), "arrival_rate = 0, but a chain needs a finite arrival rate > 0"),
        (lambda: solve_random([1], math.nan), "arrival_rate = nan, but a chain needs"),
        (lambda: solve_random([1], 0.5, weights=[1, 2]), "2 weights for 1 servers: give one a server"),
        (lambda: solve_random([1], 0.5, weights=[0]), "weights = [0], but weights are finite, >= 0 and not all 0"),
        (lambda: solve_shortest([1, 1], 1, d=3), "d = 3 of 2 servers: choose 1 <= d <= 2, or replacement = True"),
        (lambda: solve_shortest([1], 0.5, rank="slow"), "rank = 'slow', but it is one of queue, joined, present"),  # type: ignore[arg-type]
        (lambda: solve_jiq([1, 1], 2.0), "load = 1, but servers of infinite capacity need a load below 1"),
        # The slow one of two gets 2 of 4 jobs, and serves 1.
        (lambda: solve_random([1, 4], 4.0, max_states=2000), "2000 states are not enough for 2 servers"),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
