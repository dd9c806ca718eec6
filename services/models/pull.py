"""PULL with a fixed number of routers and ever more servers: fluid equilibrium, message budget, skewed routers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

Stale = Literal["withdraw", "keep", "duplicate"]


@dataclass(frozen=True)
class FluidPull:
    """PULL's fluid equilibrium: every job is pulled by an idle server, at rate `pull_rate` per idle server.

    Units: Times in the unit of the rates. One entry a pool; `job_shares` are of the jobs served. Nobody waits, nobody
        is blocked, and there is one pull-message per job.
    """

    pull_rate: float
    busy_shares: tuple[float, ...]
    idle_shares: tuple[float, ...]
    job_shares: tuple[float, ...]
    sojourn_mean: float
    wait_probability: float = 0.0
    block_probability: float = 0.0
    pull_messages: float = 1.0


@dataclass(frozen=True)
class SkewedPull:
    """PULL with unequal routers in the limit of many servers, rule "withdraw".

    Units: Times in the unit of the rates; probabilities and messages per arrival. `starved[r]` tells whether router r
        lives from hand to mouth; `stocks[r]` is the number of messages router r holds per server.
    """

    starved: tuple[bool, ...]
    stocks: tuple[float, ...]
    random_probability: float
    wait_probability: float
    sojourn_mean: float
    pull_messages: float
    withdrawals: float


def fluid_equilibrium(servers: Sequence[float], rates: Sequence[float], arrival_rate: float) -> FluidPull:
    """Solve PULL's fluid equilibrium for any pools.

    Args:
        servers: Servers of each pool: shares of the fleet, or numbers.
        rates: Service rate of each pool's servers.
        arrival_rate: Total arrivals per unit time: per server if `servers` are shares.

    Units: Any unit of time, the same for all rates.
    Assumes: Equal routers, their number fixed while the servers grow without bound; exponential services; messages
        used in random order; any capacities.

    Raises:
        ValueError: If an argument is out of range or the load is not below 1.

    Source: A. Stolyar (2017), arXiv:1512.07873; the pull rate ν solves Σ β_j μ_j ν/(ν + μ_j) = Λ.
    """
    if len(servers) != len(rates) or not servers:
        raise ValueError(f"{len(servers)} pools and {len(rates)} rates: give one of each a pool")
    if not all(0 < value < math.inf for value in (*servers, *rates)):
        raise ValueError(f"servers = {list(servers)}, rates = {list(rates)}, but both are finite and above 0")
    beta, mu = np.array(servers, dtype=np.float64), np.array(rates, dtype=np.float64)
    load = arrival_rate / float(beta @ mu)
    if not 0 < load < 1:
        raise ValueError(f"load = {load:.6g}, but the fluid equilibrium needs a load above 0 and below 1")

    def surplus(pull_rate: float) -> float:
        return float(beta @ (mu * pull_rate / (pull_rate + mu))) - arrival_rate

    # With the load ρ: were all pools as fast as the fastest (slowest), ν would be μ ρ/(1 - ρ).
    low, high = (float(speed) * load / (1 - load) for speed in (mu.min(), mu.max()))
    nu = low if low == high else float(brentq(surplus, 0.5 * low, 2 * high, xtol=1e-300, rtol=1e-14))
    busy = nu / (nu + mu)
    return FluidPull(
        pull_rate=nu,
        busy_shares=tuple(busy.tolist()),
        idle_shares=tuple((mu / (nu + mu)).tolist()),
        job_shares=tuple((beta * mu * busy / arrival_rate).tolist()),
        sojourn_mean=float(beta @ busy) / arrival_rate,
    )


def expected_pull_messages(
    stale: Stale, wait_probability: float, block_probability: float, random_probability: float
) -> float:
    """Pull-messages per arrival that the other measurements imply.

    Args:
        stale: The rule for messages gone stale.
        wait_probability: Share of arrivals admitted to a busy server.
        block_probability: Share of arrivals refused.
        random_probability: Share of arrivals sent without a message.

    Units: Messages per arrival.
    Assumes: Stationary, single-slot servers; any number of servers and routers, any speeds and capacities.

    Raises:
        ValueError: If a probability is not in [0, 1] or the rule unknown.

    Source: Level crossing: a server falls idle as often as a job starts at once, and "withdraw" and "duplicate"
        send a message each time: 1 - P(wait) - P(block). "keep" uses each message exactly once: 1 - P(random).
    """
    _check_probabilities(stale, wait_probability, block_probability, random_probability)
    return 1 - random_probability if stale == "keep" else 1 - wait_probability - block_probability


def expected_withdrawals(
    stale: Stale, wait_probability: float, block_probability: float, random_probability: float
) -> float:
    """Withdrawals per arrival that the other measurements imply; arguments as in `expected_pull_messages`.

    Units: Messages per arrival.
    Assumes: As `expected_pull_messages`.
    Source: With "withdraw" a random job is blocked, waits, or meets an idle server, which withdraws its message;
        the other rules never withdraw.
    """
    _check_probabilities(stale, wait_probability, block_probability, random_probability)
    return random_probability - wait_probability - block_probability if stale == "withdraw" else 0.0


def skewed_routers(shares: Sequence[float], arrival_rate: float, rate: float = 1.0) -> SkewedPull:
    """Solve PULL with unequal routers, rule "withdraw", on equal servers with infinite capacity.

    Args:
        shares: Share of the jobs that each router gets, adding up to 1.
        arrival_rate: Arrivals per server and unit time.
        rate: Service rate of a server.

    Units: Any unit of time, the same for both rates.
    Assumes: The number of routers fixed while the servers grow without bound; servers draw routers uniformly. A
        starved router uses every message at once and sends its other jobs at random; each other one is fed above its
        own need, and random jobs (by way of withdrawals) take the rest from its stock. All idle servers'
        messages lie in those stocks. With λ the load, A the share of the jobs at the l stocked of R routers and
        h = R - l: random jobs reach a server at rate p = λ (1 - A R/l) / (1 + (1 - λ) h/l), T = 1/(1 - p).

    Raises:
        ValueError: If an argument is out of range or the load is not below 1.

    Source: Flow balance of routers and servers; for two routers p = λ (1 - 2α)/(2 - λ). That skew makes jobs wait:
        M. van der Boor, S. Borst, J. van Leeuwaarden (2017), arXiv:1712.08555.
    """
    _check_shares(shares)
    load = arrival_rate / rate if rate > 0 else math.inf
    if not 0 < load < 1:
        raise ValueError(f"load = {load:.6g}, but skewed routers need a load above 0 and below 1")
    routers = len(shares)
    lightest_first = sorted(shares)
    for stocked in range(1, routers + 1):
        part, starved = sum(lightest_first[:stocked]), routers - stocked
        random_rate = load * max(1 - part * routers / stocked, 0.0) / (1 + (1 - load) * starved / stocked)
        # What each router is sent; the next heavier one must need at least that.
        feed = (load * part + random_rate * (1 - load)) / stocked
        if starved == 0 or lightest_first[stocked] * load >= feed * (1 - 1e-12):
            break
    is_starved = [share * load >= feed * (1 - 1e-12) and random_rate > 0 for share in shares]
    stocks = [
        0.0 if out else (feed - share * load) / random_rate if random_rate > 0 else (1 - load) / routers
        for out, share in zip(is_starved, shares, strict=True)
    ]
    return SkewedPull(
        starved=tuple(is_starved),
        stocks=tuple(stocks),
        random_probability=random_rate / load,
        wait_probability=random_rate,
        sojourn_mean=1 / (rate * (1 - random_rate)),
        pull_messages=1 - random_rate,
        withdrawals=random_rate / load - random_rate,
    )


def skewed_random_probability(shares: Sequence[float]) -> float:
    """Share of the jobs that skewed routers send at random when stale messages stay: "keep" or "duplicate".

    Units: Per arrival; it does not depend on the load.
    Assumes: As `skewed_routers`; servers may differ. In a steady state no router is fed faster than the lightest one
        uses messages, all are fed alike, and whatever a heavier one gets beyond that goes out at random.

    Raises:
        ValueError: If the shares are out of range.

    Source: Flow balance of routers: 1 - R min(shares); 1 - 2α for two.
    """
    _check_shares(shares)
    return max(1 - len(shares) * min(shares), 0.0)


def _check_shares(shares: Sequence[float]) -> None:
    if not shares or not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1, rel_tol=1e-9):
        raise ValueError(f"shares = {list(shares)}, but shares are above 0 and add up to 1")


def _check_probabilities(stale: str, *probabilities: float) -> None:
    if stale not in ("withdraw", "keep", "duplicate"):
        raise ValueError(f"stale = {stale!r}, but it is one of withdraw, keep, duplicate")
    if not all(0 <= value <= 1 for value in probabilities):
        raise ValueError(f"probabilities {probabilities} are not all in [0, 1]")
