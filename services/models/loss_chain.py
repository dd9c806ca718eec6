"""Maximum vacancy among d sampled servers of a loss system: the exact Markov chain of a few servers.

Servers of one type are exchangeable, so a state says, for each type, how many of its servers hold k jobs, k =
0..C_j: prod_j binomial(N_j + C_j, C_j) states in place of prod_j (C_j + 1)^N_j.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from services.models.level_chain import stationary
from services.models.loss import Array, checked_choices, positive, whole_numbers

STATES_MAX = 200_000

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LossChain:
    """The steady state of a few servers.

    Units:
        Probabilities, shares, jobs.
    Attributes:
        block_probability: Share of arrivals lost.
        tails: For each type the share of its servers with at least n jobs, n = 0..C_j.
        full_shares: For each type the probability that a given server of it is full.
        mean_jobs: For each type the mean number of jobs of one server.
        job_shares: For each type its share of the jobs served.
        jobs_in_system_mean: Mean number of jobs in all servers together.
        jobs_in_system_variance: Its variance.
        flow_gap: |arrivals admitted - departures| / arrivals, per time unit: 0 but for rounding.
        states: Number of states of the chain.
    """

    block_probability: float
    tails: tuple[Array, ...]
    full_shares: tuple[float, ...]
    mean_jobs: tuple[float, ...]
    job_shares: tuple[float, ...]
    jobs_in_system_mean: float
    jobs_in_system_variance: float
    flow_gap: float
    states: int


def loss_chain(
    servers: Sequence[int],
    capacities: Sequence[int],
    arrival_rate: float,
    choices: int | Literal["all"],
    replacement: bool = False,
    service_rate: float = 1.0,
) -> LossChain:
    """Solve the chain of maximum vacancy among d: an arrival goes to the sampled server with most vacancy.

    Shape:
        One entry a type in `servers`, `capacities` and the results.
    Units:
        Rates per time unit; `arrival_rate` is per server.
    Assumes:
        Poisson arrivals, exponential sizes of one mean. Ties are broken uniformly over the sampled servers. A
        job is lost when all sampled servers are full.
    Args:
        servers: Number of servers of each type.
        capacities: Most jobs that a server of each type holds (0 allowed: always full).
        arrival_rate: Arrivals per server.
        choices: Number d of servers sampled; "all" looks at every server once (the shortest queue, when all
            capacities are equal).
        replacement: Whether one server may be sampled twice.
        service_rate: Service rate of one job.
    Raises:
        ValueError: A parameter is out of range, or there would be more than 200,000 states.
    Source:
        Mukhopadhyay, Mazumdar, Guillemin 2015, doi:10.1109/ITC.2015.22 (the system).
    """
    counts, sizes = whole_numbers("servers", servers, least=1), whole_numbers("capacities", capacities, least=0)
    d, total = _checked(counts, sizes, arrival_rate, choices, replacement, service_rate)
    types = [_TypeStates(n, c) for n, c in zip(counts, sizes, strict=True)]
    index = np.indices([len(one.counts) for one in types]).reshape(len(types), -1)
    occupied = [one.counts[i] for one, i in zip(types, index, strict=True)]
    jobs = sum((n @ np.arange(n.shape[1]) for n in occupied), np.zeros(index.shape[1], dtype=np.int64))
    accept = _acceptance(occupied, total, d, replacement)

    states = np.arange(index.shape[1])
    rows, columns, rates = [], [], []
    strides = [math.prod(len(one.counts) for one in types[j + 1 :]) for j in range(len(types))]
    for one, i, n, stride in zip(types, index, occupied, strides, strict=True):
        for k in range(n.shape[1] - 1):
            vacancy = n.shape[1] - 1 - k
            here = n[:, k] > 0
            rows.append(states[here])
            columns.append(states[here] + stride * (one.raised[i[here], k] - i[here]))
            rates.append(total * arrival_rate * accept[here, vacancy] * n[here, k])
        for k in range(1, n.shape[1]):
            here = n[:, k] > 0
            rows.append(states[here])
            columns.append(states[here] + stride * (one.lowered[i[here], k] - i[here]))
            rates.append(service_rate * k * n[here, k].astype(float))
    matrix: Any = sparse.coo_matrix(
        (np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns))), shape=(len(states), len(states))
    )
    probability = stationary(matrix, jobs)
    full = sum((n[:, -1] for n in occupied), np.zeros(len(states), dtype=np.int64))
    blocking = float(probability @ _all_sampled(full, total, d, replacement))
    return _summary(probability, occupied, counts, jobs, blocking, total * arrival_rate, service_rate)


class _TypeStates:
    """All ways to spread the servers of one type over 0..C jobs, and where one job more or less leads."""

    def __init__(self, servers: int, capacity: int) -> None:
        rows = list(_compositions(servers, capacity + 1))
        position = {row: i for i, row in enumerate(rows)}
        self.counts: Ints = np.array(rows, dtype=np.int64)
        self.raised: Ints = np.full(self.counts.shape, -1, dtype=np.int64)
        self.lowered: Ints = np.full(self.counts.shape, -1, dtype=np.int64)
        for i, row in enumerate(rows):
            for k in range(capacity):
                if row[k]:
                    above = position[(*row[:k], row[k] - 1, row[k + 1] + 1, *row[k + 2 :])]
                    self.raised[i, k], self.lowered[above, k + 1] = above, i


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every tuple of `parts` whole numbers >= 0 that add up to `total`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _all_sampled(among: Ints, total: int, d: int, replacement: bool) -> Array:
    """Return the probability that all d sampled servers are among the given number of servers."""
    if replacement:
        return np.asarray((among / total) ** d)
    table = np.array([math.comb(m, d) for m in range(total + 1)], dtype=float) / math.comb(total, d)
    return np.asarray(table[among])


def _acceptance(occupied: list[Ints], total: int, d: int, replacement: bool) -> Array:
    """Return by state and vacancy v the probability that an arrival goes to a given server of vacancy v."""
    largest = max(n.shape[1] for n in occupied) - 1
    exactly = np.zeros((len(occupied[0]), largest + 1), dtype=np.int64)
    for n in occupied:
        exactly[:, : n.shape[1]] += n[:, ::-1]
    chance = _all_sampled(np.cumsum(exactly, axis=1), total, d, replacement)
    largest_vacancy = np.diff(chance, axis=1, prepend=0.0)
    return np.asarray(largest_vacancy / np.maximum(exactly, 1))


def _summary(
    probability: Array,
    occupied: list[Ints],
    counts: tuple[int, ...],
    jobs: Ints,
    blocking: float,
    arrivals: float,
    service_rate: float,
) -> LossChain:
    shares = [probability @ n / count for n, count in zip(occupied, counts, strict=True)]
    tails = tuple(np.minimum(np.cumsum(share[::-1])[::-1], 1.0) for share in shares)
    means = [float(share @ np.arange(len(share))) for share in shares]
    mean = float(probability @ jobs)
    return LossChain(
        block_probability=blocking,
        tails=tails,
        full_shares=tuple(float(share[-1]) for share in shares),
        mean_jobs=tuple(means),
        job_shares=tuple(n * m / mean for n, m in zip(counts, means, strict=True)),
        jobs_in_system_mean=mean,
        jobs_in_system_variance=float(probability @ (jobs - mean) ** 2),
        flow_gap=abs(arrivals * (1 - blocking) - service_rate * mean) / arrivals,
        states=len(probability),
    )


def _checked(
    counts: tuple[int, ...],
    sizes: tuple[int, ...],
    arrival_rate: float,
    choices: int | Literal["all"],
    replacement: bool,
    service_rate: float,
) -> tuple[int, int]:
    """Return d and the number of servers; raise ValueError for parameters that do not fit together."""
    if not counts or len(counts) != len(sizes):
        raise ValueError(
            f"servers = {counts} and capacities = {sizes}: give one of each for every type, and at least one type"
        )
    if max(sizes) == 0:
        raise ValueError(f"capacities = {sizes}: at least one must be >= 1")
    positive("arrival_rate", arrival_rate)
    positive("service_rate", service_rate)
    total = sum(counts)
    if choices == "all":
        if replacement:
            raise ValueError('choices = "all" samples every server once: choose replacement = False')
        d = total
    else:
        d = checked_choices(choices)
    if d > total and not replacement:
        raise ValueError(
            f"choices = {d}, but there are {total} servers: choose choices <= {total}, or replacement = True"
        )
    states = math.prod(math.comb(n + c, c) for n, c in zip(counts, sizes, strict=True))
    if states > STATES_MAX:
        raise ValueError(
            f"servers = {counts} with capacities = {sizes} make {states} states, "
            f"more than {STATES_MAX}: take fewer servers, or the mean field"
        )
    return d, total
