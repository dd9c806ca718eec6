"""Closed forms for one station.

Every station is an M/M/c/K queue: Poisson arrivals, exponential services, `slots` jobs served at a time,
at most `capacity` jobs inside. M/M/1, M/M/1/K, M/M/n and Erlang's loss system are its corners, so one set
of sums serves them all; `erlang_b` and `erlang_c` are a second way to the same numbers, by recursion.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammaln, xlogy

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Station:
    """One station in equilibrium.

    Units: Times are in the unit in which the rates were given. `wait_probability` is the share of *arrivals*
        that are admitted and find every slot busy; `waiting_mean` and `sojourn_mean` are over *admitted*
        jobs, zero waits included. `queue_tail(k)` is P(at least k jobs inside); `sojourn_survival(t)` is
        P(sojourn > t).
    """

    arrival_rate: float
    rate: float
    slots: int
    capacity: float
    block_probability: float
    wait_probability: float
    waiting_mean: float
    sojourn_mean: float
    jobs_in_system_mean: float
    jobs_in_system_variance: float
    utilisation: float
    queue_tail: Callable[[int], float] = field(repr=False, compare=False)
    sojourn_survival: Callable[[float], float] = field(repr=False, compare=False)

    def sojourn_quantile(self, share: float) -> float:
        """The time within which a share of the admitted jobs leaves (first come, first served)."""
        return survival_quantile(self.sojourn_survival, share, self.sojourn_mean)


def survival_quantile(survival: Callable[[float], float], share: float, scale: float) -> float:
    """Invert a continuous survival function.

    Args:
        survival: P(X > t), falling from 1 at 0 to 0.
        share: The probability to reach, in [0, 1).
        scale: A positive guess of the order of X, from which the bracket grows.

    Units: The answer is in the unit of `scale`.

    Raises:
        ValueError: If `share` is not in [0, 1).
    """
    if not 0 <= share < 1:
        raise ValueError(f"share = {share}, but a quantile needs 0 <= share < 1")
    if survival(0.0) <= 1 - share:
        return 0.0
    top = scale
    while survival(top) > 1 - share:
        top *= 2
    return float(brentq(lambda t: survival(t) - (1 - share), 0.0, top, xtol=1e-12 * top, rtol=1e-13))


def mmck(arrival_rate: float, rate: float, slots: int = 1, capacity: float = math.inf) -> Station:
    """Solve the M/M/c/K station: c = `slots`, K = `capacity`, which may be infinite.

    Args:
        arrival_rate: Poisson arrivals per unit time, at least 0.
        rate: Services per unit time of one busy slot, above 0.
        slots: Jobs served at a time, at least 1.
        capacity: Most jobs inside, service included: at least `slots`, or infinity.

    Units: Any unit of time, the same for both rates.
    Assumes: Exponential services, first come first served, a job that finds `capacity` jobs is lost. With
        infinite capacity the load must be below 1. Arrival rate 0 stands for the lightest traffic.

    Raises:
        ValueError: If an argument is out of range, or the station is unstable.

    Source: L. Kleinrock, Queueing Systems I (1975), sections 3.2 to 3.6; birth-death balance.
    """
    _check_station(arrival_rate, rate, slots, capacity)
    offered = arrival_rate / rate
    ratio = offered / slots
    head, rest = _distribution(offered, slots, capacity)
    counts = np.arange(head.size)
    # The states beyond `head` (infinite capacity only) are geometric: head.size + G with P(G >= g) = ratio^g.
    g_mean = ratio / (1 - ratio) if rest else 0.0
    g_square = ratio * (1 + ratio) / (1 - ratio) ** 2 if rest else 0.0
    first = head.size
    mean = float(counts @ head) + rest * (first + g_mean)
    square = float(counts**2 @ head) + rest * (first**2 + 2 * first * g_mean + g_square)
    waiting_jobs = float(np.maximum(counts - slots, 0) @ head) + rest * g_mean
    # Summed from the far end, so that small tails keep their digits.
    tails = np.append(np.cumsum(head[::-1])[::-1], 0.0) + rest
    blocked = float(head[-1]) if math.isfinite(capacity) else 0.0
    admitted_rate = arrival_rate * (1 - blocked)
    waiting = waiting_jobs / admitted_rate if admitted_rate > 0 else 0.0

    def queue_tail(k: int) -> float:
        if k < 0:
            raise ValueError(f"k = {k}, but a queue tail needs k >= 0")
        if k <= first:
            return float(tails[k])
        return rest * ratio ** (k - first) if rest else 0.0

    def sojourn_survival(t: float) -> float:
        seen = head[:-1] / (1 - blocked) if math.isfinite(capacity) else head
        late = _finite_survival(seen, rate, slots, t)
        # Who waits in M/M/c waits Exp(c·rate - λ), and is then served.
        return late + (rest * _hypoexponential(slots * rate - arrival_rate, rate, t) if rest else 0.0)

    return Station(
        arrival_rate,
        rate,
        slots,
        capacity,
        block_probability=blocked,
        wait_probability=max(queue_tail(slots) - blocked, 0.0),
        waiting_mean=waiting,
        sojourn_mean=waiting + 1 / rate,
        jobs_in_system_mean=mean,
        jobs_in_system_variance=max(square - mean**2, 0.0),
        utilisation=admitted_rate / (slots * rate),
        queue_tail=queue_tail,
        sojourn_survival=sojourn_survival,
    )


def mm1(arrival_rate: float, rate: float = 1.0) -> Station:
    """Solve M/M/1: one slot, no limit to the queue; arguments, units and source as in `mmck`.

    Units: Any unit of time, the same for both rates.
    Assumes: Load below 1.
    Source: Kleinrock (1975), section 3.2: T = 1/(rate - arrival_rate).
    """
    return mmck(arrival_rate, rate)


def mm1k(arrival_rate: float, rate: float, capacity: int) -> Station:
    """Solve M/M/1/K: one slot, at most `capacity` jobs inside; arguments and units as in `mmck`.

    Units: Any unit of time, the same for both rates.
    Assumes: Any load.
    Source: Kleinrock (1975), section 3.6.
    """
    return mmck(arrival_rate, rate, 1, capacity)


def mmn(arrival_rate: float, rate: float, servers: int) -> Station:
    """Solve M/M/n: one queue before n servers, a lower bound for every routing policy on equal servers.

    Units: Any unit of time; `rate` is per server, `arrival_rate` the total.
    Assumes: Load below 1.
    Source: A. K. Erlang (1917); Kleinrock (1975), section 3.5.
    """
    return mmck(arrival_rate, rate, servers)


def erlang_b(servers: int, offered: float) -> float:
    """Blocking probability of n servers without a queue.

    Args:
        servers: Number of servers, at least 0.
        offered: Arrival rate × mean service time, at least 0.

    Units: `offered` in erlang.
    Assumes: Poisson arrivals, blocked jobs are lost; any service law with that mean.

    Raises:
        ValueError: If an argument is out of range.

    Source: A. K. Erlang (1917); the recursion 1/B(n) = 1 + (n/a) / B(n-1), whose terms are all positive.
    """
    if servers < 0:
        raise ValueError(f"servers = {servers}, but Erlang B needs servers >= 0")
    if not 0 <= offered < math.inf:
        raise ValueError(f"offered = {offered}, but Erlang B needs a finite offered load >= 0")
    blocking = 1.0
    for n in range(1, servers + 1):
        blocking = offered * blocking / (n + offered * blocking)
    return blocking


def erlang_c(servers: int, offered: float) -> float:
    """Probability that a job must wait before n servers with an unlimited queue.

    Units: `offered` in erlang: arrival rate × mean service time.
    Assumes: Poisson arrivals, exponential services, `offered` < `servers`.

    Raises:
        ValueError: If an argument is out of range or the queue is unstable.

    Source: A. K. Erlang (1917): C = B / (1 - ρ(1 - B)).
    """
    if servers < 1:
        raise ValueError(f"servers = {servers}, but Erlang C needs servers >= 1")
    if offered >= servers:
        raise ValueError(f"offered = {offered}, but Erlang C with {servers} servers needs offered < {servers}")
    blocking = erlang_b(servers, offered)
    return blocking / (1 - offered / servers * (1 - blocking))


def mg1_waiting_mean(arrival_rate: float, service_mean: float, service_second_moment: float) -> float:
    """Mean waiting time of M/G/1.

    Args:
        arrival_rate: Poisson arrivals per unit time.
        service_mean: E[S].
        service_second_moment: E[S²]: 2 E[S]² when exponential, E[S]² when deterministic.

    Units: Any unit of time; the second moment in its square.
    Assumes: One server, first come first served, load below 1.

    Raises:
        ValueError: If an argument is out of range or the queue is unstable.

    Source: F. Pollaczek (1930), A. Khinchine (1932): E[W] = λ E[S²] / (2 (1 - ρ)).
    """
    if arrival_rate < 0 or service_mean <= 0:
        raise ValueError(
            f"arrival_rate = {arrival_rate}, service_mean = {service_mean}, "
            "but M/G/1 needs arrival_rate >= 0 and service_mean > 0"
        )
    if service_second_moment < service_mean**2:
        raise ValueError(
            f"service_second_moment = {service_second_moment} is below service_mean² = {service_mean**2}, "
            "which no law has"
        )
    load = arrival_rate * service_mean
    if load >= 1:
        raise ValueError(f"load = {load:.6g}, but M/G/1 needs a load below 1")
    return arrival_rate * service_second_moment / (2 * (1 - load))


def _distribution(offered: float, slots: int, capacity: float) -> tuple[Floats, float]:
    """P(0..K) and 0 for finite capacity; P(0..c-1) and P(at least c) for infinite capacity."""
    finite = math.isfinite(capacity)
    counts = np.arange(int(capacity) + 1 if finite else slots + 1, dtype=np.float64)
    inside = np.minimum(counts, slots)
    # In logarithms: neither a^k nor k! of ten thousand slots fits a float.
    logs = xlogy(inside, offered) - gammaln(inside + 1) + xlogy(counts - inside, offered / slots)
    if not finite:
        logs[slots] -= math.log1p(-offered / slots)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return (weights, 0.0) if finite else (weights[:slots], float(weights[slots]))


def _finite_survival(seen: Floats, rate: float, slots: int, t: float) -> float:
    """P(sojourn > t), seeing k < c jobs (starts at once) or k >= c (k - c + 1 jobs end first)."""
    at_once = float(seen[:slots].sum()) * math.exp(-rate * t)
    queue = seen[slots:]
    if queue.size == 0 or t <= 0:
        return at_once + float(queue.sum())
    stages = np.arange(1, queue.size + 1, dtype=np.float64)
    if slots == 1:
        late = gammaincc(stages + 1, rate * t)
    else:
        # Erlang(stages, c·rate) and then one service: split by whether the Erlang part is over at t.
        with np.errstate(divide="ignore"):
            over = np.log(gammainc(stages, (slots - 1) * rate * t))
        then = np.exp(stages * math.log(slots / (slots - 1)) - rate * t + over)
        late = gammaincc(stages, slots * rate * t) + then
    return at_once + float(queue @ late)


def _hypoexponential(one: float, other: float, t: float) -> float:
    """P(Exp(one) + Exp(other) > t), without 0/0 where the two rates are equal."""
    slow, gap = min(one, other), abs(one - other) * t
    slope = -math.expm1(-gap) / gap if gap else 1.0
    return math.exp(-slow * t) * (1 + slow * t * slope)


def _check_station(arrival_rate: float, rate: float, slots: int, capacity: float) -> None:
    if not 0 <= arrival_rate < math.inf:
        raise ValueError(f"arrival_rate = {arrival_rate}, but a station needs a finite arrival rate >= 0")
    if not 0 < rate < math.inf:
        raise ValueError(f"rate = {rate}, but a station needs a finite rate > 0")
    if slots < 1:
        raise ValueError(f"slots = {slots}, but a station needs slots >= 1")
    if not (capacity >= slots and (math.isinf(capacity) or capacity == int(capacity))):
        raise ValueError(f"capacity = {capacity}, but it is infinite or a whole number >= slots = {slots}")
    load = arrival_rate / (rate * slots)
    if math.isinf(capacity) and load >= 1:
        raise ValueError(f"load = {load:.6g}, but a station of infinite capacity needs a load below 1")
