"""Exact loss chains against golden rows, a chain of labelled servers built another way, and their limits."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from services.models.closed import erlang_b
from services.models.level_chain import stationary
from services.models.loss import LossSystem
from services.models.loss_chain import loss_chain
from services.models.loss_meanfield import fixed_point


@pytest.mark.parametrize(
    ("servers", "capacities", "rate", "choices", "replacement", "blocking"),
    [
        ((4,), (2,), 1.6, 2, False, 0.20567596),  # G77
        ((4,), (2,), 1.6, 2, True, 0.23354702),
        ((4,), (2,), 1.6, "all", False, 0.14439389),
        ((2, 2), (1, 2), 1.2, 2, False, 0.25485382),  # G89
        ((3, 3), (1, 2), 1.2, 2, False, 0.25210753),
        ((2, 2), (1, 2), 1.2, 2, True, 0.28636782),
    ],
)
def test_golden_rows(
    servers: tuple[int, ...], capacities: tuple[int, ...], rate: float, choices: int, replacement: bool, blocking: float
) -> None:
    result = loss_chain(servers, capacities, rate, choices, replacement)
    assert result.block_probability == pytest.approx(blocking, abs=6e-9)
    assert result.flow_gap < 1e-11


def _labelled(
    capacities: list[int], total_rate: float, mu: float, d: int, replacement: bool
) -> tuple[float, np.ndarray]:
    """Blocking and mean jobs by listing every state of labelled servers and every sample, solved densely."""
    n = len(capacities)
    samples = list(itertools.product(range(n), repeat=d) if replacement else itertools.combinations(range(n), d))
    states = list(itertools.product(*(range(c + 1) for c in capacities)))
    position = {state: i for i, state in enumerate(states)}
    generator, blocked = np.zeros((len(states), len(states))), np.zeros(len(states))

    def moved(state: tuple[int, ...], server: int, by: int) -> int:
        return position[(*state[:server], state[server] + by, *state[server + 1 :])]

    for i, state in enumerate(states):
        for sample in samples:
            chance = 1 / len(samples)
            most = max(capacities[s] - state[s] for s in sample)
            # With replacement a server may stand twice in the sample: the tie is over the *different*
            # servers.
            tied = [s for s in set(sample) if capacities[s] - state[s] == most]
            if most == 0:
                blocked[i] += chance
                continue
            for s in tied:
                generator[i, moved(state, s, 1)] += total_rate * chance / len(tied)
        for s in range(n):
            if state[s]:
                generator[i, moved(state, s, -1)] += mu * state[s]
    np.fill_diagonal(generator, -generator.sum(axis=1))
    system = np.vstack([generator.T, np.ones(len(states))])
    probability = np.linalg.lstsq(system, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    return float(probability @ blocked), probability @ np.array(states)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("choices", [1, 2, 3])
def test_against_labelled_servers(choices: int, replacement: bool) -> None:
    blocking, jobs = _labelled([1, 1, 3, 0], 4 * 1.1, 0.7, choices, replacement)
    result = loss_chain((2, 1, 1), (1, 3, 0), 1.1, choices, replacement, service_rate=0.7)
    assert result.block_probability == pytest.approx(blocking, rel=1e-9)
    assert result.mean_jobs == pytest.approx((jobs[0], jobs[2], 0.0), rel=1e-9, abs=1e-12)


def test_one_choice_is_erlang_b_for_each_server() -> None:
    result = loss_chain((3, 2), (2, 6), 3.0, 1, service_rate=1.5)
    expected = (erlang_b(2, 2.0), erlang_b(6, 2.0))
    assert result.full_shares == pytest.approx(expected, rel=1e-11)
    assert result.block_probability == pytest.approx(0.6 * expected[0] + 0.4 * expected[1], rel=1e-11)

    # Independent servers, each with jobs Poisson(2) cut at C: their means and variances add up.
    def moments(capacity: int) -> tuple[float, float]:
        weights = np.array([2.0**k / math.factorial(k) for k in range(capacity + 1)])
        jobs, weights = np.arange(capacity + 1), weights / weights.sum()
        return float(weights @ jobs), float(weights @ jobs**2 - (weights @ jobs) ** 2)

    assert result.jobs_in_system_mean == pytest.approx(3 * moments(2)[0] + 2 * moments(6)[0], rel=1e-11)
    assert result.jobs_in_system_variance == pytest.approx(3 * moments(2)[1] + 2 * moments(6)[1], rel=1e-10)


def test_looking_at_all_single_slots_is_one_erlang_group() -> None:
    # With C = 1 a job is lost only when all N servers are busy: Erlang B with N slots.
    assert loss_chain((12,), (1,), 0.9, "all").block_probability == pytest.approx(erlang_b(12, 10.8), rel=1e-11)


def test_all_is_the_same_as_every_server_without_replacement() -> None:
    everyone, counted = (loss_chain((2, 2), (2, 3), 2.0, choices) for choices in ("all", 4))
    assert everyone.block_probability == counted.block_probability


def test_more_servers_come_nearer_to_the_mean_field() -> None:
    limit = fixed_point(LossSystem((0.5, 0.5), (1, 2), 1.2), 2)
    gaps = [loss_chain((n, n), (1, 2), 1.2, 2).block_probability - limit.block_probability for n in (2, 4, 8, 16)]
    # The gap is O(1/N): it halves, or nearly so, whenever N doubles.
    for gap, smaller in itertools.pairwise(gaps):
        assert 0 < smaller < 0.6 * gap
    large = loss_chain((16, 16), (1, 2), 1.2, 2)
    assert large.job_shares == pytest.approx(limit.job_shares, rel=0.01)


def test_rare_blocking_keeps_its_relative_accuracy() -> None:
    # JSQ over 3 servers with 2 slots each at tiny load a per server: with all 6 slots the system is Erlang's
    # group of 6 slots (every slot works at rate mu, and a job is lost only when all are busy), whatever the
    # order of filling.
    result = loss_chain((3,), (2,), 0.001, "all")
    assert result.block_probability == pytest.approx(erlang_b(6, 0.003), rel=1e-9)
    assert result.block_probability < 1e-17


def test_many_states_stay_quick_and_balanced() -> None:
    result = loss_chain((3, 3), (8, 10), 8.0, 2)
    assert result.states == math.comb(11, 3) * math.comb(13, 3)
    assert result.flow_gap < 1e-11
    for tail, mean in zip(result.tails, result.mean_jobs, strict=True):
        assert tail[1:].sum() == pytest.approx(mean, rel=1e-12)
        assert np.all(np.diff(tail) <= 0)


def test_number_of_states_is_that_of_multisets() -> None:
    vectors = Counter(tuple(sorted(v)) for v in itertools.product(range(4), repeat=3))
    assert loss_chain((3,), (3,), 1.0, 2).states == len(vectors)


def test_level_chain_refuses_other_jumps() -> None:
    with pytest.raises(ValueError, match="every transition must change the level by 1"):
        stationary(np.array([[0.0, 1.0, 1.0], [1.0, 0, 0], [1.0, 0, 0]]), np.array([0, 1, 2]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((4,), (2,), 1.0, 5), r"choices = 5, but there are 4 servers: choose choices <= 4, or replacement = True"),
        (((4,), (2,), 1.0, "all", True), r'choices = "all" samples every server once: choose replacement = False'),
        (((4, 4), (2,), 1.0, 2), r"servers = \(4, 4\) and capacities = \(2,\): give one of each"),
        (((0,), (2,), 1.0, 2), r"servers = \(0,\): each must be >= 1"),
        (((4,), (0,), 1.0, 2), r"capacities = \(0,\): at least one must be >= 1"),
        (((4,), (2,), -1.0, 2), r"arrival_rate = -1\.0: must be a finite number > 0"),
        (((10, 10), (5, 10), 6.0, 2), r"make 554822268 states, more than 200000: take fewer"),
    ],
)
def test_arguments_out_of_range(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss_chain(*arguments)  # type: ignore[arg-type]
