"""Queues with abandonment against golden rows, product forms by hand, brute-force chains and each other."""

import itertools
import math

import numpy as np
import pytest

from services.models.abandonment import (
    AbandonmentSteadyState,
    AbandonmentSystem,
    abandon_probability_from_busy,
    abandon_probability_from_waiting,
    erlang_a,
    random_split,
    single_server,
)
from services.models.abandonment_jsq import jsq_with_abandonment
from services.models.closed import erlang_c, mm1


def test_single_server_golden_rows() -> None:
    g62 = single_server(1.0, 1.0, 0.01)
    assert g62.jobs_in_system_mean == pytest.approx(8.13399405, abs=6e-9)
    assert g62.jobs_in_system_variance == pytest.approx(41.97213492, abs=6e-9)
    assert g62.abandon_probability == pytest.approx(0.07206055, abs=6e-9)
    assert 1 - g62.wait_probability == pytest.approx(0.07206055, abs=6e-9)  # lam = mu: P(abandon) = P0
    g64 = single_server(1.5, 1.0, 0.01)
    assert g64.jobs_in_system_mean == pytest.approx(51.00020630, abs=6e-9)
    assert g64.jobs_in_system_variance == pytest.approx(149.98947875, abs=6e-9)
    assert g64.abandon_probability == pytest.approx(0.33333472, abs=6e-9)


def test_shortest_queue_golden_rows() -> None:
    g66 = jsq_with_abandonment(AbandonmentSystem(2, 1.8, 1.0, 0.01))
    assert g66.jobs_in_system_mean == pytest.approx(6.78053255, abs=6e-9)
    assert g66.jobs_in_system_variance == pytest.approx(32.82312725, abs=6e-9)
    assert g66.abandon_probability == pytest.approx(0.02794912, abs=6e-9)
    g67 = jsq_with_abandonment(AbandonmentSystem(2, 2.0, 1.0, 0.01))
    assert g67.jobs_in_system_mean == pytest.approx(12.39432005, abs=6e-9)
    assert g67.jobs_in_system_variance == pytest.approx(81.33859183, abs=6e-9)
    assert g67.abandon_probability == pytest.approx(0.05249657, abs=6e-9)
    assert g67.perpendicular_second_moment == pytest.approx(0.87605713, abs=6e-9)


def _same(one: AbandonmentSteadyState, other: AbandonmentSteadyState, rel: float) -> None:
    for name in (
        "abandon_probability",
        "wait_probability",
        "waiting_mean",
        "sojourn_mean",
        "jobs_in_system_mean",
        "jobs_in_system_variance",
        "busy_mean",
    ):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=rel), name


@pytest.mark.parametrize("in_service", [False, True])
@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_shortest_of_one_queue_is_the_product_form(lam: float, in_service: bool) -> None:
    chain = jsq_with_abandonment(AbandonmentSystem(1, lam, 1.3, 0.05, in_service))
    form = single_server(lam, 1.3, 0.05, in_service)
    _same(chain, form, rel=1e-9)
    assert chain.perpendicular_second_moment == 0
    assert chain.queue_tail is not None
    assert form.queue_tail is not None
    assert chain.queue_tail[:8] == pytest.approx(form.queue_tail[:8], rel=1e-9)


@pytest.mark.parametrize("in_service", [False, True])
def test_single_server_by_first_steps(in_service: bool) -> None:
    # The product form written out, and the fate of an arrival by first-step analysis: behind k jobs, the next event is
    # its own abandonment (gamma) or one of the k leaving (the rate that empties a queue of k).
    lam, mu, gamma = 2.0, 1.5, 0.2

    def leaving(k: int) -> float:
        return mu + gamma * (k if in_service else k - 1)

    weights = [1.0]
    for k in range(1, 150):
        weights.append(weights[-1] * lam / leaving(k))
    probability = np.array(weights) / sum(weights)
    end = mu + (gamma if in_service else 0.0)
    served, time = [mu / end], [mu / end / end]  # P(served), E[sojourn; served] by jobs ahead
    for k in range(1, 150):
        total = leaving(k) + gamma
        served.append(leaving(k) / total * served[-1])
        time.append(leaving(k) / total * time[-1] + served[-1] / total)
    result = single_server(lam, mu, gamma, in_service)
    assert result.abandon_probability == pytest.approx(1 - probability @ served, rel=1e-10)
    assert result.sojourn_mean == pytest.approx((probability @ time) / (probability @ served), rel=1e-10)
    assert result.wait_probability == pytest.approx(1 - probability[0], rel=1e-10)
    assert result.jobs_in_system_mean == pytest.approx(probability @ np.arange(150), rel=1e-10)


def test_patience_and_service_alike_make_erlang_a_an_infinite_server() -> None:
    # gamma = mu: every job leaves at rate mu, waiting or not, so that the number of jobs is Poisson(lam / mu).
    result = erlang_a(AbandonmentSystem(4, 6.0, 2.0, 2.0))
    assert result.jobs_in_system_mean == pytest.approx(3.0, rel=1e-12)
    assert result.jobs_in_system_variance == pytest.approx(3.0, rel=1e-12)
    assert result.wait_probability == pytest.approx(1 - math.exp(-3) * (1 + 3 + 4.5 + 4.5), rel=1e-12)


def test_great_patience_makes_erlang_a_an_erlang_c() -> None:
    assert erlang_a(AbandonmentSystem(5, 4.0, 1.0, 1e-10)).wait_probability == pytest.approx(erlang_c(5, 4.0), rel=1e-8)
    patient = single_server(0.8, 1.0, 1e-10)
    assert patient.sojourn_mean == pytest.approx(mm1(0.8).sojourn_mean, rel=1e-7)
    assert patient.jobs_in_system_variance == pytest.approx(0.8 / 0.2**2, rel=1e-7)


def _labelled(n: int, lam: float, mu: float, gamma: float, in_service: bool, longest: int) -> np.ndarray:
    """Solve the chain of labelled queues of at most `longest` jobs densely; return L, Var, E busy, E perp^2."""
    states = list(itertools.product(range(longest + 1), repeat=n))
    position = {state: i for i, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for i, state in enumerate(states):
        shortest = [s for s in range(n) if state[s] == min(state)]
        moves = [(s, 1, lam / len(shortest)) for s in shortest]
        moves += [(s, -1, mu + gamma * (state[s] if in_service else state[s] - 1)) for s in range(n) if state[s]]
        for s, change, rate in moves:
            target = (*state[:s], state[s] + change, *state[s + 1 :])
            if target in position:
                generator[i, position[target]] += rate
    np.fill_diagonal(generator, -generator.sum(axis=1))
    generator[:, 0] = 1
    probability = np.linalg.solve(generator.T, np.eye(len(states))[0])
    queues = np.array(states)
    jobs = queues.sum(axis=1)
    mean = probability @ jobs
    apart = ((queues - queues.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return np.array(
        [mean, probability @ (jobs - mean) ** 2, probability @ (queues > 0).sum(axis=1), probability @ apart]
    )


@pytest.mark.parametrize(
    ("n", "lam", "in_service", "longest"), [(2, 1.0, False, 24), (2, 3.0, True, 24), (3, 2.5, False, 9)]
)
def test_shortest_queue_against_labelled_queues(n: int, lam: float, in_service: bool, longest: int) -> None:
    # Patience is short enough for no queue to come near the longest.
    gamma = 0.5 if n == 2 else 2.0
    result = jsq_with_abandonment(AbandonmentSystem(n, lam, 1.0, gamma, in_service))
    values = [
        result.jobs_in_system_mean,
        result.jobs_in_system_variance,
        result.busy_mean,
        result.perpendicular_second_moment,
    ]
    assert values == pytest.approx(_labelled(n, lam, 1.0, gamma, in_service, longest), rel=1e-7)


@pytest.mark.parametrize("in_service", [False, True])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("load", [0.3, 1.0, 1.6])
def test_identities_and_order_of_the_systems(n: int, load: float, in_service: bool) -> None:
    system = AbandonmentSystem(n, n * load * 1.5, 1.5, 0.05, in_service)
    pooled, shortest, random = erlang_a(system), jsq_with_abandonment(system), random_split(system)
    for result in (pooled, shortest, random):
        assert result.identity_gap < 1e-10
        assert result.truncation_error < 1e-10
        busy = abandon_probability_from_busy(system.arrival_rate, 1.5, result.busy_mean)
        assert result.abandon_probability == pytest.approx(busy, rel=1e-8)
        waiting = result.waiting_mean * system.arrival_rate  # Little
        may_abandon = waiting + (result.busy_mean if in_service else 0.0)
        by_waiting = abandon_probability_from_waiting(system.arrival_rate, 0.05, may_abandon)
        assert result.abandon_probability == pytest.approx(by_waiting, rel=1e-9)
        assert result.jobs_in_system_mean == pytest.approx(waiting + result.busy_mean, rel=1e-9)
    # One queue for all never idles a server while a job waits; random routing does so most.
    assert pooled.abandon_probability < shortest.abandon_probability < random.abandon_probability
    assert shortest.queue_tail is not None
    assert shortest.queue_tail[1:].sum() == pytest.approx(shortest.jobs_in_system_mean / n, rel=1e-9)
    assert shortest.queue_tail[1] == pytest.approx(shortest.busy_mean / n, rel=1e-9)


def test_wider_truncation_changes_nothing_beyond_the_stated_error() -> None:
    system = AbandonmentSystem(3, 3.0, 1.0, 0.02)
    rough, fine = jsq_with_abandonment(system, tolerance=0.01), jsq_with_abandonment(system, tolerance=1e-13)
    assert rough.states < fine.states
    assert fine.truncation_error <= 1e-13 < rough.truncation_error <= 0.01
    # A transition dropped makes a difference of one job, which lasts for a patience, 1 / gamma, at most.
    difference = abs(rough.jobs_in_system_mean - fine.jobs_in_system_mean)
    assert 1e-12 < difference < rough.truncation_error * 3.0 / 0.02


def test_queues_stay_together_as_patience_grows() -> None:
    # E perp^2 is bounded as gamma -> 0 (n = 2, lam = 2: .876 at .01, .939 at .0025), while Var(Q) grows like 1 / gamma.
    results = [jsq_with_abandonment(AbandonmentSystem(2, 2.0, 1.0, gamma)) for gamma in (0.01, 0.0025)]
    assert [r.perpendicular_second_moment for r in results] == pytest.approx([0.876, 0.939], abs=5e-4)
    assert [r.jobs_in_system_variance for r in results] == pytest.approx([81, 307], abs=0.5)


def test_random_split_adds_up_independent_queues() -> None:
    split, one = random_split(AbandonmentSystem(3, 2.7, 1.0, 0.1)), single_server(0.9, 1.0, 0.1)
    assert split.jobs_in_system_mean == pytest.approx(3 * one.jobs_in_system_mean)
    assert split.jobs_in_system_variance == pytest.approx(3 * one.jobs_in_system_variance)
    assert split.perpendicular_second_moment == pytest.approx(2 * one.jobs_in_system_variance)
    assert split.sojourn_mean == one.sojourn_mean


def test_small_patience_rates_stay_exact_far_from_the_origin() -> None:
    # Overloaded at gamma = 1e-5 the number of jobs is normal about (lam - mu) / gamma, plus the one in service.
    result = single_server(1.5, 1.0, 1e-5)
    assert result.jobs_in_system_mean == pytest.approx(50_001, rel=1e-9)
    assert result.jobs_in_system_variance == pytest.approx(150_000, rel=1e-9)


def test_arguments_out_of_range() -> None:
    with pytest.raises(ValueError, match="servers = 0: must be a whole number >= 1"):
        AbandonmentSystem(0, 1.0, 1.0, 0.1)
    with pytest.raises(ValueError, match=r"patience_rate = 0\.0: must be a finite number > 0"):
        AbandonmentSystem(1, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="numbers of jobs are likely, more than 5000000: take the limit law"):
        single_server(1.5, 1.0, 1e-9)
    with pytest.raises(ValueError, match="states, more than 400000: take the limit law or fewer servers"):
        jsq_with_abandonment(AbandonmentSystem(3, 4.0, 1.0, 1e-5))
