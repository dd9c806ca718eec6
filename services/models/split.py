"""Random splits: jobs are dealt to servers by fixed shares, so each server is a station of its own."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.models.closed import Station, mmck, survival_quantile

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Equal servers of one speed: how many, the rate of each slot, slots and capacity of each server."""

    servers: int
    rate: float
    slots: int = 1
    capacity: float = math.inf


@dataclass(frozen=True)
class Split:
    """A fleet whose jobs are dealt to servers at random, by fixed shares.

    Units: As in `Station`; sojourn and waiting are over the admitted jobs of all pools. `utilisation`,
        `job_shares` (share of the *served* jobs) and `stations` have one entry a pool, a station standing for
        any one server of it; `queue_tail(k)` is the share of servers with at least k jobs.
    """

    stations: tuple[Station, ...]
    utilisation: tuple[float, ...]
    job_shares: tuple[float, ...]
    block_probability: float
    wait_probability: float
    waiting_mean: float
    sojourn_mean: float
    jobs_in_system_mean: float
    jobs_in_system_variance: float
    queue_tail: Callable[[int], float] = field(repr=False, compare=False)
    sojourn_survival: Callable[[float], float] = field(repr=False, compare=False)

    def sojourn_quantile(self, share: float) -> float:
        """The time within which a share of the admitted jobs leaves (first come, first served)."""
        return survival_quantile(self.sojourn_survival, share, self.sojourn_mean)


def random_split(pools: Sequence[Pool], arrival_rate: float, weights: Sequence[float] | None = None) -> Split:
    """Deal a Poisson stream to the servers at random: each is then a station of its own.

    Args:
        pools: The fleet.
        arrival_rate: Total arrivals per unit time, above 0.
        weights: One weight per *server* of each pool, at least 0; a server's share of the jobs is its weight
            over the sum of all servers' weights. None: all equal (uniform). The rates: weighted random.

    Units: Any unit of time, the same for all rates.
    Assumes: Independent draws, no second try for a blocked job; servers of infinite capacity are stable.

    Raises:
        ValueError: If an argument is out of range or a server is unstable (the pool is named by its index).

    Source: Splitting of a Poisson process: Kleinrock (1975), section 2.4; mixtures of `mmck`.
    """
    per_server = [1.0] * len(pools) if weights is None else list(weights)
    _check_split(pools, arrival_rate, per_server)
    servers = np.array([pool.servers for pool in pools], dtype=np.float64)
    shares = servers * np.array(per_server)
    shares /= shares.sum()
    stations = []
    for index, (pool, share) in enumerate(zip(pools, shares, strict=True)):
        try:
            stations.append(mmck(arrival_rate * share / pool.servers, pool.rate, pool.slots, pool.capacity))
        except ValueError as error:
            raise ValueError(f"pool {index}: {error}") from error
    admitted = shares * np.array([1 - station.block_probability for station in stations])
    job_shares = admitted / admitted.sum()
    fleet = servers / servers.sum()

    def mix(parts: Floats, values: list[float]) -> float:
        return float(parts @ np.array(values))

    return Split(
        stations=tuple(stations),
        utilisation=tuple(station.utilisation for station in stations),
        job_shares=tuple(float(share) for share in job_shares),
        block_probability=mix(shares, [s.block_probability for s in stations]),
        wait_probability=mix(shares, [s.wait_probability for s in stations]),
        waiting_mean=mix(job_shares, [s.waiting_mean for s in stations]),
        sojourn_mean=mix(job_shares, [s.sojourn_mean for s in stations]),
        jobs_in_system_mean=mix(servers, [s.jobs_in_system_mean for s in stations]),
        jobs_in_system_variance=mix(servers, [s.jobs_in_system_variance for s in stations]),
        queue_tail=lambda k: mix(fleet, [s.queue_tail(k) for s in stations]),
        sojourn_survival=lambda t: mix(job_shares, [s.sojourn_survival(t) for s in stations]),
    )


def _check_split(pools: Sequence[Pool], arrival_rate: float, weights: Sequence[float]) -> None:
    if not pools:
        raise ValueError("pools is empty, but a split needs at least one pool")
    if len(weights) != len(pools):
        raise ValueError(f"{len(weights)} weights for {len(pools)} pools: give one weight a pool")
    if not 0 < arrival_rate < math.inf:
        raise ValueError(f"arrival_rate = {arrival_rate}, but a split needs a finite arrival rate > 0")
    for index, (pool, weight) in enumerate(zip(pools, weights, strict=True)):
        if pool.servers < 1:
            raise ValueError(f"pool {index}: servers = {pool.servers}, but a pool needs servers >= 1")
        if not 0 <= weight < math.inf:
            raise ValueError(f"pool {index}: weight = {weight}, but a weight is finite and >= 0")
    if not any(weight > 0 for weight in weights):
        raise ValueError("all weights are 0, so no server would get a job")
