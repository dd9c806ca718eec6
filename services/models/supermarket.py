"""The supermarket model: JSQ(d) on infinitely many servers, of one speed or of several.

State: s[j, k], the share of pool j's servers with at least k jobs. With sampling by count, a job meets pool j with
the pool's share β_j whatever its speed, so one given server with k - 1 jobs is offered
q_(k-1) = λ (s_(k-1)^d - s_k^d) / (s_(k-1) - s_k), where s_k = Σ β_j s[j, k], and
ds[j, k]/dt = q_(k-1) (s[j, k-1] - s[j, k]) - μ_j (s[j, k] - s[j, k+1]).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import root
from scipy.special import gammaincc

from services.models.closed import survival_quantile

Floats = NDArray[np.float64]

# Tails below this are left out.
NEGLIGIBLE = 1e-15
LONGEST_QUEUE = 1_000_000


@dataclass(frozen=True)
class MeanField:
    """JSQ(d) in equilibrium.

    Shape: `tails[j, k]`: share of pool j's servers with at least k jobs; `queue_tail[k]`: of all servers.
    Units: Times in the unit of the rates; probabilities per arrival; waiting and sojourn over admitted jobs;
        `jobs_per_server` is the mean number of jobs at a server. `job_shares` are of the jobs served.
    """

    tails: Floats
    queue_tail: Floats
    block_probability: float
    wait_probability: float
    waiting_mean: float
    sojourn_mean: float
    jobs_per_server: float
    utilisation: tuple[float, ...]
    job_shares: tuple[float, ...]
    sojourn_survival: Callable[[float], float] = field(repr=False, compare=False)

    def sojourn_quantile(self, share: float) -> float:
        """The time within which a share of the admitted jobs leaves (first come, first served)."""
        return survival_quantile(self.sojourn_survival, share, self.sojourn_mean)


def supermarket(arrival_rate: float, d: int, rate: float = 1.0, capacity: float = math.inf) -> MeanField:
    """Solve JSQ(d) on equal servers.

    Args:
        arrival_rate: Arrivals per server and unit time, above 0.
        d: Servers looked at for each job, at least 1; 1 gives independent M/M/1 or M/M/1/K queues.
        rate: Service rate of a server.
        capacity: Most jobs at a server; a job that meets d full servers is lost.

    Units: Any unit of time, the same for both rates.
    Assumes: Infinitely many servers, ties uniform; sampling with or without replacement is then the same. Load
        below 1 if the capacity is infinite.

    Raises:
        ValueError: If an argument is out of range or the system unstable.

    Source: N. Vvedenskaya, R. Dobrushin, F. Karpelevich (1996); M. Mitzenmacher (2001), doi:10.1109/71.963420:
        s_k = λ^((d^k - 1)/(d - 1)); with finite capacity the fixed point of `supermarket_pools`.
    """
    _check(arrival_rate, d, capacity)
    if not 0 < rate < math.inf:
        raise ValueError(f"rate = {rate}, but a server needs a finite rate > 0")
    if math.isfinite(capacity):
        return supermarket_pools([1.0], [rate], arrival_rate, d, capacity)
    load = arrival_rate / rate
    if load >= 1:
        raise ValueError(f"load = {load:.6g}, but JSQ(d) of infinite capacity needs a load below 1")
    return _result(_infinite_tail(load, d)[np.newaxis, :], np.ones(1), np.array([rate]), arrival_rate, d, False)


def supermarket_pools(
    shares: Sequence[float], rates: Sequence[float], arrival_rate: float, d: int, capacity: float = math.inf
) -> MeanField:
    """Solve JSQ(d) by queue length on pools of different speeds, servers drawn uniformly over all pools.

    Args:
        shares: Share of the servers that each pool has, adding up to 1.
        rates: Service rate of each pool's servers.
        arrival_rate: Arrivals per server (of any pool) and unit time, above 0.
        d: Servers looked at for each job, at least 1.
        capacity: Most jobs at a server of any pool; a job that meets d full servers is lost.

    Units: Any unit of time, the same for all rates.
    Assumes: Infinitely many servers, ties uniform over servers. With infinite capacity stable, which for
        uniform sampling means: for every set of slowest pools, with B their share, λ B^d < Σ β_j μ_j over them.

    Raises:
        ValueError: If an argument is out of range or the system unstable.

    Source: The equations above; A. Mukhopadhyay, R. Mazumdar (2016), doi:10.1109/TCNS.2015.2428331. The fixed
        point is where inflow and outflow of each level of each pool agree, found by Newton's method.
    """
    beta, mu = _checked_pools(shares, rates)
    _check(arrival_rate, d, capacity)
    finite = math.isfinite(capacity)
    if not finite:
        _check_stable(beta, mu, arrival_rate, d)
    levels = int(capacity) if finite else 16
    while True:
        tails = _pool_tails(beta, mu, arrival_rate, d, levels)
        if finite or float(tails[:, -2].max()) < NEGLIGIBLE:
            return _result(tails[:, :-1], beta, mu, arrival_rate, d, finite)
        if levels > 4000:
            raise ValueError(f"load so near the limit of stability that queues exceed {levels} jobs")
        levels *= 2


def drift(tails: Floats, shares: Floats, rates: Floats, arrival_rate: float, d: int) -> Floats:
    """Right-hand side of the mean-field equations.

    Args:
        tails: s[j, k] for k = 1 … K; s[j, 0] = 1 and s[j, K+1] = 0 are understood.
        shares: Share of the servers of each pool.
        rates: Service rate of each pool.
        arrival_rate: Arrivals per server and unit time.
        d: Servers looked at for each job.

    Shape: (pools, K) in and out.
    Units: Shares per unit time.
    Assumes: Infinitely many servers, ties uniform; capacity K.
    Source: The equations at the head of this file.
    """
    pools = tails.shape[0]
    whole = np.hstack([np.ones((pools, 1)), tails, np.zeros((pools, 1))])
    offered = _offered(shares @ whole, arrival_rate, d)[:-1]
    steps = whole[:, :-1] - whole[:, 1:]
    return np.asarray(offered * steps[:, :-1] - rates[:, np.newaxis] * steps[:, 1:], dtype=np.float64)


def transient(
    shares: Sequence[float],
    rates: Sequence[float],
    arrival_rate: float,
    d: int,
    times: Sequence[float],
    start: Floats | None = None,
    levels: int = 60,
) -> Floats:
    """Follow the mean field from a start.

    Args:
        shares: Share of the servers of each pool, adding up to 1.
        rates: Service rate of each pool.
        arrival_rate: Arrivals per server and unit time.
        d: Servers looked at for each job.
        times: Increasing instants at least 0, at which the state is wanted.
        start: s[j, k], k = 1 … levels, at time 0; None: all empty.
        levels: The capacity of a server; large enough stands for infinite.

    Shape: (instants, pools, levels + 1), with s[j, 0] = 1 in front.
    Units: Times in the unit of the rates.
    Assumes: Infinitely many servers; the start is a set of tails: 1 >= s_1 >= s_2 … >= 0.

    Raises:
        ValueError: If an argument is out of range.

    Source: T. Kurtz (1981): the limit of the process over finite time; the equations at the head of this file.
    """
    beta, mu = _checked_pools(shares, rates)
    _check(arrival_rate, d, levels)
    first = np.zeros((beta.size, levels)) if start is None else np.asarray(start, dtype=np.float64)
    if first.shape != (beta.size, levels):
        raise ValueError(f"start has shape {first.shape}, but it needs {(beta.size, levels)} (pools, levels)")
    if first.max() > 1 or first.min() < 0 or (np.diff(first, axis=1) > 0).any():
        raise ValueError("start is not a set of tails: each row falls from at most 1 to at least 0")
    instants = np.asarray(times, dtype=np.float64)
    if instants.size == 0 or instants[0] < 0 or (np.diff(instants) <= 0).any():
        raise ValueError("times must be increasing and at least 0")

    def slope(_: float, flat: Floats) -> Floats:
        return drift(flat.reshape(first.shape), beta, mu, arrival_rate, d).ravel()

    path = solve_ivp(slope, (0.0, instants[-1]), first.ravel(), "LSODA", t_eval=instants, rtol=1e-9, atol=1e-12)
    states = path.y.T.reshape(instants.size, *first.shape)
    return np.concatenate([np.ones((instants.size, beta.size, 1)), states], axis=2)


def _infinite_tail(load: float, d: int) -> Floats:
    tail = [1.0]
    while tail[-1] > NEGLIGIBLE:
        tail.append(load * tail[-1] ** d)
        if len(tail) > LONGEST_QUEUE:
            raise ValueError(f"load = {load:.9g}, so near 1 that queues exceed {LONGEST_QUEUE} jobs")
    return np.array(tail)


def _offered(total: Floats, arrival_rate: float, d: int) -> Floats:
    """Rate offered to one given server with k jobs, k = 0 … K; the sum avoids 0/0 on empty levels."""
    upper, lower = total[:-1], total[1:]
    terms = [upper**power * lower ** (d - 1 - power) for power in range(d)]
    return np.asarray(arrival_rate * np.sum(terms, axis=0), dtype=np.float64)


def _pool_tails(beta: Floats, mu: Floats, arrival_rate: float, d: int, levels: int) -> Floats:
    """Tails s[j, 0 … levels + 1] at the fixed point for capacity `levels`."""

    def settled(total: Floats) -> Floats:
        # Given what is offered at each length, each server is a birth-death process of its own.
        ratios = _offered(total, arrival_rate, d)[:-1] / mu[:, np.newaxis]
        weights = np.hstack([np.ones((beta.size, 1)), np.cumprod(ratios, axis=1)])
        weights /= weights.sum(axis=1, keepdims=True)
        tails = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
        return np.hstack([tails, np.zeros((beta.size, 1))])

    def gap(inner: Floats) -> Floats:
        total = np.concatenate([[1.0], np.clip(inner, 0.0, 1.0), [0.0]])
        return np.asarray((beta @ settled(total))[1:-1] - inner, dtype=np.float64)

    inner = np.minimum(arrival_rate / float(beta @ mu), 0.99) ** np.arange(1.0, levels + 1)
    for _ in range(200):
        inner = inner + 0.3 * gap(inner)
    found = root(gap, inner, method="hybr", tol=1e-14)
    inner = np.asarray(found.x if np.abs(gap(found.x)).max() < np.abs(gap(inner)).max() else inner)
    for _ in range(20_000):
        change = gap(inner)
        if np.abs(change).max() < 1e-14:
            break
        inner = inner + 0.3 * change
    return settled(np.concatenate([[1.0], np.clip(inner, 0.0, 1.0), [0.0]]))


def _result(tails: Floats, beta: Floats, mu: Floats, arrival_rate: float, d: int, finite: bool) -> MeanField:
    total = beta @ tails
    blocked = float(total[-1] ** d) if finite else 0.0
    admitted = arrival_rate * (1 - blocked)
    jobs, busy = float(total[1:].sum()), float(total[1])
    served = beta * mu * tails[:, 1]
    # A job joins a server of pool j with k jobs at rate β_j q_k (s[j, k] - s[j, k+1]).
    closed = np.hstack([tails, np.zeros((tails.shape[0], 1))])
    joins = beta[:, np.newaxis] * _offered(np.append(total, 0.0), arrival_rate, d) * -np.diff(closed, axis=1)
    seen = joins[:, :-1] / joins[:, :-1].sum()
    stages = np.arange(1.0, seen.shape[1] + 1)

    def sojourn_survival(t: float) -> float:
        return float(sum(row @ gammaincc(stages, speed * t) for row, speed in zip(seen, mu, strict=True)))

    return MeanField(
        tails=tails,
        queue_tail=total,
        block_probability=blocked,
        wait_probability=float(total[1] ** d) - blocked,
        waiting_mean=max(jobs - busy, 0.0) / admitted,
        sojourn_mean=jobs / admitted,
        jobs_per_server=jobs,
        utilisation=tuple(tails[:, 1].tolist()),
        job_shares=tuple((served / served.sum()).tolist()),
        sojourn_survival=sojourn_survival,
    )


def _check(arrival_rate: float, d: int, capacity: float) -> None:
    if not 0 < arrival_rate < math.inf:
        raise ValueError(f"arrival_rate = {arrival_rate}, but JSQ(d) needs a finite arrival rate > 0")
    if d < 1:
        raise ValueError(f"d = {d}, but JSQ(d) needs d >= 1")
    if not (capacity >= 1 and (math.isinf(capacity) or capacity == int(capacity))):
        raise ValueError(f"capacity = {capacity}, but it is infinite or a whole number >= 1")


def _checked_pools(shares: Sequence[float], rates: Sequence[float]) -> tuple[Floats, Floats]:
    if len(shares) != len(rates) or not shares:
        raise ValueError(f"{len(shares)} shares for {len(rates)} rates: give one of each a pool")
    if not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1, rel_tol=1e-9):
        raise ValueError(f"shares = {list(shares)}, but shares are above 0 and add up to 1")
    if not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"rates = {list(rates)}, but rates are finite and above 0")
    return np.array(shares, dtype=np.float64), np.array(rates, dtype=np.float64)


def _check_stable(beta: Floats, mu: Floats, arrival_rate: float, d: int) -> None:
    slowest_first = np.argsort(mu)
    part, speed = np.cumsum(beta[slowest_first]), np.cumsum((beta * mu)[slowest_first])
    for count in range(1, beta.size + 1):
        offered = arrival_rate * float(part[count - 1]) ** d
        if offered >= speed[count - 1]:
            raise ValueError(
                f"the {count} slowest of {beta.size} pools are unstable: d = {d} samples fall all among them at rate "
                f"{offered:.6g} per server, and they serve {float(speed[count - 1]):.6g}"
            )
