"""Join the shortest queue with abandonment: the exact chain of a few servers, truncated.

Servers are alike, so a state is the sorted vector of queue lengths. Two limits make it finite: the total stays between
two levels, and no queue is more than a `spread` longer than the shortest. Transitions that would leave are dropped,
and the rate at which they are is stated with the result; both limits are widened until it is small.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from services.models.abandonment import AbandonmentSteadyState, AbandonmentSystem, steady_state
from services.models.level_chain import stationary

STATES_MAX = 400_000

Ints = NDArray[np.int64]


def jsq_with_abandonment(system: AbandonmentSystem, tolerance: float = 1e-11) -> AbandonmentSteadyState:
    """Solve the chain of join the shortest queue with abandonment.

    Units:
        Rates per time unit; `arrival_rate` is the total of all servers.
    Assumes:
        As `AbandonmentSystem`, one queue a server. Ties are broken at random (servers are alike: any rule gives the
        same). A job stays at the server it joined.
    Args:
        system: Servers, rates, and whether a job in service may abandon.
        tolerance: Largest accepted `truncation_error`: rate of transitions dropped / arrival rate.
    Raises:
        ValueError: That would take more than 400,000 states.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050 (the system).
    """
    low, high = system.levels()
    n, mu = system.servers, system.service_rate
    # The shortest queue falls behind at rate mu, and is caught up with as arrivals raise the other n - 1 short ones.
    growth = (n - 1) * mu / ((n - 1) * mu + system.arrival_rate)
    spread = 1 if n == 1 else min(24, high, 2 + math.ceil(math.log(tolerance) / math.log(growth)))
    while True:
        chain = _JsqChain(system, low, high, spread)
        probability = stationary(chain.rates, chain.jobs - low)
        dropped_at_ends, dropped_by_spread = (
            float(probability @ dropped) / system.arrival_rate for dropped in (chain.beyond_ends, chain.beyond_spread)
        )
        if dropped_at_ends + dropped_by_spread <= tolerance:
            return chain.summary(probability, dropped_at_ends + dropped_by_spread)
        if dropped_at_ends > tolerance / 2:
            low, high = max(0, low - (high - low) // 4), high + (high - low) // 4 + 8
        if dropped_by_spread > tolerance / 2:
            spread = spread * 3 // 2 + 1


class _JsqChain:
    """The states with totals from `low` to `high` and queues at most `spread` longer than the shortest."""

    def __init__(self, system: AbandonmentSystem, low: int, high: int, spread: int) -> None:
        self.system, self.low, self.high = system, low, high
        n, lam = system.servers, system.arrival_rate
        count = math.comb(spread + n - 1, n - 1) * (high - low + 1) // n
        if count > STATES_MAX:
            raise ValueError(
                f"servers = {n}, patience_rate = {system.patience_rate}: about {count} states, more than "
                f"{STATES_MAX}: take the limit law or fewer servers"
            )
        excess = np.array(list(itertools.combinations_with_replacement(range(spread + 1), n - 1)), dtype=np.int64)
        excess = np.hstack([np.zeros((len(excess), 1), dtype=np.int64), excess.reshape(len(excess), n - 1)])
        digits = (spread + 1) ** np.arange(n, dtype=np.int64) // (spread + 1)  # the first excess is 0 and needs none
        shape_of = np.full((spread + 1) ** (n - 1), -1, dtype=np.int64)
        shape_of[excess @ digits] = np.arange(len(excess))

        shortest = np.arange(high // n + 1)[:, None]
        totals = n * shortest + excess.sum(axis=1)[None, :]
        kept = (totals >= low) & (totals <= high)
        index = np.full(kept.shape, -1, dtype=np.int64)
        index[kept] = np.arange(int(kept.sum()))
        base, shape = np.nonzero(kept)
        self.queues: Ints = base[:, None] + excess[shape]
        self.jobs: Ints = totals[kept]
        self.busy: Ints = (self.queues > 0).sum(axis=1)
        self.beyond_ends, self.beyond_spread = np.zeros(len(base)), np.zeros(len(base))

        rows, columns, rates = [], [], []
        for position, change in [(0, 1), *((i, -1) for i in range(n))]:  # an arrival joins the shortest: the first
            queue = self.queues[:, position]
            rate = np.full(len(base), lam) if change > 0 else _leaving(system, queue)
            moved = self.queues.copy()
            moved[:, position] += change
            moved.sort(axis=1)
            total = self.jobs + change
            beyond_ends = (rate > 0) & ((total < low) | (total > high))
            beyond_spread = (rate > 0) & ~beyond_ends & (moved[:, -1] - moved[:, 0] > spread)
            self.beyond_ends += np.where(beyond_ends, rate, 0.0)
            self.beyond_spread += np.where(beyond_spread, rate, 0.0)
            stays = np.flatnonzero((rate > 0) & ~beyond_ends & ~beyond_spread)
            first = moved[stays, 0]
            rows.append(stays)
            columns.append(index[first, shape_of[(moved[stays] - first[:, None]) @ digits]])
            rates.append(rate[stays])
        entries = (np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns)))
        self.rates: Any = sparse.coo_matrix(entries, shape=(len(base), len(base)))

    def summary(self, probability: NDArray[np.float64], dropped: float) -> AbandonmentSteadyState:
        """Return what the state probabilities say."""
        n = self.system.servers
        result = steady_state(self.system, probability, self.jobs, self.busy, self.queues[:, 0], 1, dropped)
        lengths = np.bincount(self.queues.ravel(), weights=np.repeat(probability, n)) / n
        apart = ((self.queues - self.queues.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        return replace(
            result,
            perpendicular_second_moment=float(probability @ apart),
            queue_tail=np.minimum(np.cumsum(lengths[::-1])[::-1], 1.0),
        )


def _leaving(system: AbandonmentSystem, queue: Ints) -> NDArray[np.float64]:
    """Return the rate at which jobs leave one server's queue."""
    return replace(system, servers=1).departure_rates(queue)
