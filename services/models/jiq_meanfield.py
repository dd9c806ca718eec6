"""PULL (JIQ) with routers that grow with the servers: r = servers per router fixed. Waiting does not vanish then."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from services.models.chains.builder import balance

Floats = NDArray[np.float64]

# Probability left out at the far ends of lists and queues.
NEGLIGIBLE = 1e-13


@dataclass(frozen=True)
class JiqMeanField:
    """PULL in equilibrium at r servers per router.

    Shape: `list_lengths[i]`: share of routers that hold i messages; `queue_tail[k]`: share of servers with at least
        k jobs.
    Units: Times in the unit of the rates; probabilities and messages per arrival.
    """

    list_lengths: Floats
    queue_tail: Floats
    random_probability: float
    wait_probability: float
    stale_probability: float
    sojourn_mean: float
    pull_messages: float
    withdrawals: float


@dataclass(frozen=True)
class PublishedJiq:
    """The published approximation. Units: as in `JiqMeanField`; `server_load` is the load of a busy server's queue."""

    nonempty_share: float
    server_load: float
    wait_probability: float
    sojourn_mean: float


def jiq_published(arrival_rate: float, servers_per_router: float, d: int = 1, rate: float = 1.0) -> PublishedJiq:
    """Solve the published formula for JIQ-Random (d = 1) and JIQ-SQ(d).

    Args:
        arrival_rate: Arrivals per server and unit time.
        servers_per_router: r, above 0.
        d: Routers whose lists an idle server looks at, joining the shortest; 1: a random one.
        rate: Service rate of a server.

    Units: Any unit of time, the same for both rates.
    Assumes: Many servers and routers; messages never go stale, which is the less true the higher the load.

    Raises:
        ValueError: If an argument is out of range or the load is not below 1.

    Source: Y. Lu et al. (2011), doi:10.1016/j.peva.2011.07.015, theorems 1 and 2: with ρ the share of routers that
        hold a message, Σ_(i>=1) ρ^((d^i - 1)/(d - 1)) = r (1 - λ), which is ρ/(1 - ρ) at d = 1.
    """
    load = _checked(arrival_rate, servers_per_router, rate)
    if d < 1:
        raise ValueError(f"d = {d}, but an idle server looks at d >= 1 lists")
    idle = servers_per_router * (1 - load)

    def surplus(share: float) -> float:
        total, term = 0.0, share
        while term > 1e-17 and total <= idle:
            total += term
            term = share * term**d
        return total - idle

    share = idle / (1 + idle) if d == 1 else float(brentq(surplus, 0.0, 1.0, xtol=1e-15, rtol=1e-14))
    busy = load * (1 - share)
    return PublishedJiq(share, busy, busy, 1 / (rate * (1 - busy)))


def jiq_withdraw(arrival_rate: float, servers_per_router: float, rate: float = 1.0) -> JiqMeanField:
    """Solve PULL at r servers per router when a random job makes an idle server withdraw its message.

    Args:
        arrival_rate: Arrivals per server and unit time.
        servers_per_router: r, above 0.
        rate: Service rate of a server.

    Units: Any unit of time, the same for both rates.
    Assumes: Infinitely many servers and routers, equal routers, infinite capacity, messages used in any order.

    Raises:
        ValueError: If an argument is out of range or the load is not below 1.

    Source: Mean field in the manner of M. Mitzenmacher (2016), arXiv:1602.05259, but with withdrawal: with
        x = λ (1 - λ p_0) messages sent per server, p_(i+1) (λ r + (i+1) λ p_0) = p_i r x. Random jobs reach every
        server at rate λ p_0, so the sojourn is exponential with mean 1/(1 - λ p_0) (times at rate 1).
    """
    load = _checked(arrival_rate, servers_per_router, rate)

    def lists(empty: float) -> Floats:
        # The ratio of neighbours falls in i: past the point of no return the rest is less than a geometric tail.
        values = [empty]
        while True:
            i = len(values)
            ratio = (1 - load * empty) / (1 + i * empty / servers_per_router)
            values.append(values[-1] * ratio)
            if values[-1] * ratio < NEGLIGIBLE * 1e-3 * (1 - ratio):
                return np.array(values)

    # Many idle servers share a list: lists sum to sqrt(π r p_0 / 2), below 1 here.
    least = 0.1 / (1 + servers_per_router)
    empty = float(brentq(lambda p: float(lists(p).sum()) - 1, least, 1.0, xtol=1e-15, rtol=1e-14))
    hit = load * empty
    longest = max(2, math.ceil(math.log(NEGLIGIBLE) / math.log(hit)) + 1)
    return JiqMeanField(
        list_lengths=lists(empty),
        queue_tail=np.concatenate([[1.0], load * hit ** np.arange(longest)]),
        random_probability=empty,
        wait_probability=hit,
        stale_probability=0.0,
        sojourn_mean=1 / (rate * (1 - hit)),
        pull_messages=1 - hit,
        withdrawals=empty * (1 - load),
    )


def jiq_keep(arrival_rate: float, servers_per_router: float, rate: float = 1.0) -> JiqMeanField:
    """Solve PULL at r servers per router when stale messages stay, and a server has at most one out.

    Args:
        arrival_rate: Arrivals per server and unit time.
        servers_per_router: r, above 0.
        rate: Service rate of a server.

    Units: Any unit of time, the same for both rates.
    Assumes: Infinitely many servers and routers, equal routers, infinite capacity, messages used in random order.

    Raises:
        ValueError: If an argument is out of range or the load is not below 1.

    Source: A router's list is a birth-death process, geometric: p_i = p_0 (1 - p_0)^i. One server and the list that
        holds its message form a linear system given p_0; p_0 is where the messages sent, λ (1 - p_0), agree.
    """
    load = _checked(arrival_rate, servers_per_router, rate)

    def surplus(empty: float) -> float:
        return float(_tagged_server(load, servers_per_router, empty).sent) - load * (1 - empty)

    low = high = jiq_withdraw(load, servers_per_router).random_probability
    sign = surplus(low)
    while surplus(low) * sign > 0 and surplus(high) * sign > 0 and high < 1 - 1e-9:
        low, high = low * 0.9, high + 0.2 * (1 - high)
    empty = float(brentq(surplus, low, high, xtol=1e-12, rtol=1e-12))
    found = _tagged_server(load, servers_per_router, empty)
    jobs = float(found.tail[1:].sum())
    return JiqMeanField(
        list_lengths=np.asarray(empty * (1 - empty) ** np.arange(found.longest_list + 1), dtype=np.float64),
        queue_tail=found.tail,
        random_probability=empty,
        wait_probability=empty * float(found.tail[1]) + found.stale / load,
        stale_probability=found.stale / load,
        sojourn_mean=jobs / arrival_rate,
        pull_messages=1 - empty,
        withdrawals=0.0,
    )


@dataclass(frozen=True)
class _Tagged:
    """One server given p_0: queue tail, messages sent and stale messages used, both per unit time."""

    tail: Floats
    sent: float
    stale: float
    longest_list: int


def _tagged_server(load: float, r: float, empty: float) -> _Tagged:
    """Stationary law of (length of the list that holds the server's message, or none; queue length)."""
    hit, fill, use = load * empty, r * load * (1 - empty), load * r
    lists = max(2, math.ceil(math.log(NEGLIGIBLE) / math.log1p(-empty)))
    queue = max(4, math.ceil(math.log(NEGLIGIBLE) / math.log(hit)) + 2)
    # Without a message: 1 … queue jobs, states 0 … queue - 1. With one in a list of i: 0 … queue jobs.
    none = np.arange(queue)
    i, k = (grid.ravel() for grid in np.meshgrid(np.arange(1, lists + 1), np.arange(queue + 1), indexing="ij"))
    held = queue + (i - 1) * (queue + 1) + k
    fresh = empty * (1 - empty) ** np.arange(lists)
    moves = [
        (none[:-1], none[1:], hit),
        (none[1:], none[:-1], 1.0),
        (np.zeros(lists, dtype=np.int64), queue + np.arange(lists) * (queue + 1), fresh / fresh.sum()),
        (held[k < queue], held[k < queue] + 1, hit),
        (held[k > 0], held[k > 0] - 1, 1.0),
        (held[i < lists], held[i < lists] + queue + 1, fill),
        (held[i > 1], held[i > 1] - queue - 1, use * (i[i > 1] - 1) / i[i > 1]),
        (held, none[np.minimum(k, queue - 1)], use / i),
    ]
    rows, columns = (np.concatenate([move[side] for move in moves]) for side in (0, 1))
    rates = np.concatenate([np.broadcast_to(move[2], move[0].shape) for move in moves])
    law = balance(queue + held.size, rows, columns, rates)
    lengths = np.bincount(np.concatenate([none + 1, k]), weights=law, minlength=queue + 1)
    with_one = law[queue:]
    return _Tagged(
        tail=np.cumsum(lengths[::-1])[::-1].astype(np.float64),
        sent=float(law[0]),
        stale=float((with_one * use / i)[k > 0].sum()),
        longest_list=lists,
    )


def _checked(arrival_rate: float, servers_per_router: float, rate: float) -> float:
    if not 0 < servers_per_router < math.inf:
        raise ValueError(f"servers_per_router = {servers_per_router}, but it is finite and above 0")
    load = arrival_rate / rate if rate > 0 else math.inf
    if not 0 < load < 1:
        raise ValueError(f"load = {load:.6g}, but JIQ's mean field needs a load above 0 and below 1")
    return load
