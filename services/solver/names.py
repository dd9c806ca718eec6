"""Quantities by pool, queue tails and quantiles, as every model words them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.scenario import Scenario

SMALLEST_SHARE = 1e-9
LONGEST_TAIL = 1000

QUANTILES = {"sojourn_p50": 0.5, "sojourn_p95": 0.95, "sojourn_p99": 0.99}

Values = dict[str, float | Sequence[float]]
T = TypeVar("T")


def by_pool(scenario: Scenario, name: str, values: Iterable[T]) -> dict[str, T]:
    """Name the values of the pools, in the scenario's order."""
    return {f"{name}.{pool.name}": value for pool, value in zip(scenario.pools, values, strict=True)}


def places_of(scenario: Scenario) -> list[range]:
    """The places of each pool's servers, where all servers stand in a row, pool after pool."""
    ends = list(itertools.accumulate(pool.servers for pool in scenario.pools))
    return [range(end - pool.servers, end) for end, pool in zip(ends, scenario.pools, strict=True)]


def of_servers(scenario: Scenario, of_pools: Iterable[T]) -> list[T]:
    """A value of each pool as one of each of its servers, in that row."""
    return [value for value, pool in zip(of_pools, scenario.pools, strict=True) for _ in range(pool.servers)]


def cut(tail: Callable[[int], float]) -> list[float]:
    """List P(at least k jobs) for k = 0, 1, … as far as it is above 1e-9, and at most a thousand of them."""
    shares = map(tail, range(LONGEST_TAIL))
    return list(itertools.takewhile(lambda share: share > SMALLEST_SHARE, shares))


def shortened(tail: Iterable[float]) -> list[float]:
    """The same for a tail that is a list."""
    return list(
        itertools.takewhile(lambda share: share > SMALLEST_SHARE, itertools.islice(map(float, tail), LONGEST_TAIL))
    )


def moments(tail: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and variance of a queue length, from P(at least k jobs) for each k from 0 on."""
    k = np.arange(1, len(tail))
    mean, square = float(tail[1:].sum()), float((2 * k - 1) @ tail[1:])  # E q² = Σ (2k − 1) P(q ≥ k)
    return mean, square - mean**2
