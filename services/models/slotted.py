"""Slotted time: weighted random in closed form, and what the other policies send.

A slot runs in this order: queue lengths are read, messages go out, each router's Poisson batch of jobs arrives and is
dealt out, and each server serves a geometric number (0, 1, …) of jobs of the given mean. A job can be served in its
own slot; its sojourn is the slot of its end minus the slot of its arrival plus 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SlottedRandom:
    """Weighted random in slotted time.

    Units: `sojourn_mean` in slots; lengths in jobs, read at the start of a slot. `queue_lengths`, `queue_variances`,
        `utilisation` (share of slots that start with jobs at the server) and `job_shares` have one entry a server.
    """

    queue_lengths: tuple[float, ...]
    queue_variances: tuple[float, ...]
    utilisation: tuple[float, ...]
    job_shares: tuple[float, ...]
    jobs_in_system_mean: float
    jobs_in_system_variance: float
    sojourn_mean: float


def weighted_random(
    rates: Sequence[float], arrival_rate: float, weights: Sequence[float] | None = None
) -> SlottedRandom:
    """Solve random routing by fixed weights in slotted time: each server is a queue of its own.

    Args:
        rates: Mean number of jobs each server can serve in a slot.
        arrival_rate: Jobs per slot in all.
        weights: One weight a server; None: in proportion to the rates.

    Units: Slots and jobs.
    Assumes: Poisson batches, geometric services with success probability 1/(1 + μ), infinite capacity, every server
        below load 1.

    Raises:
        ValueError: If an argument is out of range or a server is unstable.

    Source: With a the arrivals per slot of a server, balance of the generating function gives
        Q(1 - u) = 1/(1 + e₁ u - e₂ u² + …), e₁ = (a + a²/2)/(μ - a), e₂ = (a²/2 + a³/6)/(μ - a), whence
        E Q = e₁, Var Q = e₁ + e₁² + 2 e₂, P(Q = 0) = 1 - a/μ, and by Little E sojourn = 1 + e₁/a. The model of
        S. Vargaftik, I. Keslassy, A. Orda (2020), arXiv:2003.02368.
    """
    mu = _checked_rates(rates)
    if not 0 < arrival_rate < math.inf:
        raise ValueError(f"arrival_rate = {arrival_rate}, but a finite rate > 0 is needed")
    draw = mu if weights is None else np.array(weights, dtype=np.float64)
    if draw.shape != mu.shape:
        raise ValueError(f"{draw.size} weights for {mu.size} servers: give one a server")
    if not (np.isfinite(draw).all() and (draw >= 0).all() and draw.any()):
        raise ValueError(f"weights = {draw.tolist()}, but weights are finite, >= 0 and not all 0")
    shares = draw / draw.sum()
    a = arrival_rate * shares
    worst = int((a / mu).argmax())
    if a[worst] >= mu[worst]:
        raise ValueError(f"server {worst}: load = {a[worst] / mu[worst]:.6g}, but it must be below 1")
    first = (a + a**2 / 2) / (mu - a)
    second = (a**2 / 2 + a**3 / 6) / (mu - a)
    variances = first + first**2 + 2 * second
    jobs = float(first.sum())
    return SlottedRandom(
        queue_lengths=tuple(first.tolist()),
        queue_variances=tuple(variances.tolist()),
        utilisation=tuple((a / mu).tolist()),
        job_shares=tuple(shares.tolist()),
        jobs_in_system_mean=jobs,
        jobs_in_system_variance=float(variances.sum()),
        sojourn_mean=1 + jobs / arrival_rate,
    )


def full_information_messages(servers: int, jobs_per_router: float) -> float:
    """Messages per job of JSQ and SED with fresh lengths: 2n for each router and slot with arrivals.

    Args:
        servers: Number of servers n.
        jobs_per_router: Mean number of jobs that reach one router in a slot.

    Units: Messages per job; a request and its answer count as two.
    Assumes: Poisson batches; a router asks only when it has jobs.

    Raises:
        ValueError: If an argument is out of range.

    Source: 2 n P(batch > 0) / E batch.
    """
    return sampling_messages(servers, servers, jobs_per_router, asks_always=False)


def sampling_messages(servers: int, d: int, jobs_per_router: float, asks_always: bool) -> float:
    """Messages per job of a policy in which each router asks d servers in a slot.

    Args:
        servers: Number of servers n.
        d: Servers asked.
        jobs_per_router: Mean number of jobs that reach one router in a slot.
        asks_always: True: in every slot (LSQ-Sample); False: only when it has jobs (JSQ(d)).

    Units: Messages per job; a request and its answer count as two.
    Assumes: Poisson batches.

    Raises:
        ValueError: If an argument is out of range.

    Source: 2 d P(asks) / E batch.
    """
    if not 1 <= d <= servers:
        raise ValueError(f"d = {d} of {servers} servers: choose 1 <= d <= {servers}")
    if not 0 < jobs_per_router < math.inf:
        raise ValueError(f"jobs_per_router = {jobs_per_router}, but a finite mean > 0 is needed")
    asks = 1.0 if asks_always else -math.expm1(-jobs_per_router)
    return 2 * d * asks / jobs_per_router


def update_messages(p: float, leaves_idle: float) -> float:
    """Messages per report occasion of LSQ-Update(p).

    Args:
        p: Probability of a report when the server does not fall idle.
        leaves_idle: Share of the occasions on which the server is left idle.

    Units: Messages per occasion: per completion in continuous time, where every job is one; per server and slot
        with a completion in slotted time, so that there the result is an upper bound per job.
    Assumes: A server that falls idle reports surely; one message a report.

    Raises:
        ValueError: If an argument is not in [0, 1].

    Source: P(idle) + p (1 - P(idle)).
    """
    if not (0 <= p <= 1 and 0 <= leaves_idle <= 1):
        raise ValueError(f"p = {p}, leaves_idle = {leaves_idle}, but both are in [0, 1]")
    return leaves_idle + p * (1 - leaves_idle)


def entry_error_bound(refresh_probability: float, jobs_of_others: float, rate: float) -> float:
    """Upper bound of the mean error of one entry of a router's array of queue lengths.

    Args:
        refresh_probability: Probability that the entry is refreshed in a slot, whatever happened before:
            d/n for LSQ-Sample(d).
        jobs_of_others: Mean number of jobs per slot that the other routers send to this server.
        rate: Mean number of jobs that the server can serve in a slot.

    Units: Jobs.
    Assumes: The router counts its own jobs; refreshes are independent of the past. A finite bound for every entry
        makes any policy that joins the locally shortest queue strongly stable at any load below 1.

    Raises:
        ValueError: If an argument is out of range.

    Source: The error grows by at most the jobs of others and the services of the slots since the last refresh, 1/p
        on average; S. Vargaftik, I. Keslassy, A. Orda (2020), arXiv:2003.02368, for what follows.
    """
    if not 0 < refresh_probability <= 1:
        raise ValueError(f"refresh_probability = {refresh_probability}, but it is above 0 and at most 1")
    if jobs_of_others < 0 or rate <= 0:
        raise ValueError(f"jobs_of_others = {jobs_of_others}, rate = {rate}, but they are >= 0 and > 0")
    return (jobs_of_others + rate) / refresh_probability


def _checked_rates(rates: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"rates = {list(rates)}, but at least one is needed, all finite and above 0")
    return np.array(rates, dtype=np.float64)
