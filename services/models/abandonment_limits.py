"""Limit laws of join the shortest queue with abandonment as patience grows without bound (gamma -> 0).

With C_g = (lam - n mu) / sqrt(gamma), lam the total arrival rate, Q the total number of jobs:

| regime      | condition                      | limit                                                             |
| ----------- | ------------------------------ | ----------------------------------------------------------------- |
| underloaded | C_g -> -inf, n mu - lam -> 0   | (n mu - lam) Q => exponential with mean n mu                      |
| critical    | C_g -> C                       | sqrt(gamma) Q => normal(C, n mu), conditioned to be >= 0          |
| overloaded  | C_g -> +inf                    | sqrt(gamma) (Q - (lam - n mu) / gamma) => normal(0, lam)          |

To leading order each queue is Q / n, all of them perfectly correlated, under any rule that keeps them together. At
finite gamma the mean of sqrt(gamma) Q is off by about sqrt(gamma): compare a system with the exact chain.

Source: Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050 (the three regimes and the shapes of the laws); centring
and scaling from the diffusion dX = (lam - n mu - gamma X) dt + sqrt(lam + n mu) dW, reflected at 0, and its stationary
density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scipy.special import erfcx, ndtr

from services.models.abandonment import AbandonmentSystem

Regime = Literal["underloaded", "critical", "overloaded"]

THRESHOLD = 3.0


@dataclass(frozen=True)
class LimitLaw:
    """The limit law of `scale * (Q - centre)`, Q the total number of jobs.

    Units:
        Jobs; `mean` and `variance` in those of the scaled quantity.
    Attributes:
        regime: Which of the three laws.
        centre: What is taken off Q.
        scale: What the rest is multiplied by.
        location: The mean of the normal law before it is conditioned (0 for the exponential).
        spread: The mean of the exponential, or the variance of the normal before it is conditioned.
        mean: Mean of the limit.
        variance: Variance of the limit.
        servers: Number of servers; each queue has the n-th part of Q.
    """

    regime: Regime
    centre: float
    scale: float
    location: float
    spread: float
    mean: float
    variance: float
    servers: int

    @property
    def jobs_in_system_mean(self) -> float:
        """The mean of Q that the limit stands for."""
        return self.centre + self.mean / self.scale

    @property
    def jobs_in_system_variance(self) -> float:
        """The variance of Q that the limit stands for."""
        return self.variance / self.scale**2

    @property
    def queue_length_mean(self) -> float:
        """The mean of one queue."""
        return self.jobs_in_system_mean / self.servers

    @property
    def queue_length_variance(self) -> float:
        """The variance of one queue."""
        return self.jobs_in_system_variance / self.servers**2

    def tail(self, x: float) -> float:
        """Return the limit of P(scale (Q - centre) > x)."""
        if self.regime == "underloaded":
            return math.exp(-max(x, 0.0) / self.spread)
        if self.regime == "overloaded":
            return float(ndtr(-x / math.sqrt(self.spread)))
        if x <= 0:
            return 1.0
        deviation = math.sqrt(self.spread)
        at, zero = (x - self.location) / deviation, -self.location / deviation
        # Phi(-at) / Phi(-zero), by erfcx where both are tiny.
        if zero > 0:
            root = math.sqrt(2)
            return float(erfcx(at / root) / erfcx(zero / root) * math.exp((zero - at) * (zero + at) / 2))
        return float(ndtr(-at) / ndtr(-zero))


def criticality(system: AbandonmentSystem) -> float:
    """Return C_g = (lam - n mu) / sqrt(gamma).

    Units:
        Square root of a rate.
    Assumes:
        As `AbandonmentSystem`.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050.
    """
    return (system.arrival_rate - system.servers * system.service_rate) / math.sqrt(system.patience_rate)


def regime(system: AbandonmentSystem, threshold: float = THRESHOLD) -> Regime:
    """Return the regime that a system is in, by its standardised distance from criticality.

    The distance is c = C_g / sqrt(n mu), the C of the critical law in its own standard deviations: underloaded below
    -threshold, overloaded above it, critical between. At the default 3 the normal law has 0.13% of its mass below 0
    when the overloaded law takes over; on the other side the exponential's mean is 18% above that of the critical law
    (they agree as c -> -inf), which shows how slowly that limit is reached. The underloaded law asks in addition for
    a load near 1: far below, no law of this file applies.

    Units:
        `threshold` has none.
    Assumes:
        As `AbandonmentSystem`; gamma small against mu.
    Raises:
        ValueError: The threshold is not positive.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050; the threshold is a convention of ours.
    """
    if not threshold > 0:
        raise ValueError(f"threshold = {threshold}: must be > 0")
    distance = criticality(system) / math.sqrt(system.servers * system.service_rate)
    if distance < -threshold:
        return "underloaded"
    return "overloaded" if distance > threshold else "critical"


def limit_law(system: AbandonmentSystem, threshold: float = THRESHOLD) -> LimitLaw:
    """Return the law of the regime that a system is in; see `regime` and the three laws.

    Units:
        As `LimitLaw`.
    Assumes:
        As the law chosen.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050.
    """
    laws = {"underloaded": underloaded_law, "critical": critical_law, "overloaded": overloaded_law}
    return laws[regime(system, threshold)](system)


def underloaded_law(system: AbandonmentSystem) -> LimitLaw:
    """Return the law (n mu - lam) Q => exponential with mean n mu.

    Units:
        As `LimitLaw`.
    Assumes:
        n mu - lam > 0 tends to 0 slower than sqrt(gamma): load near 1, yet abandonment hardly matters.
    Raises:
        ValueError: The system is not underloaded.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050, first regime.
    """
    rate = system.servers * system.service_rate
    slack = rate - system.arrival_rate
    if slack <= 0:
        raise ValueError(
            f"arrival_rate = {system.arrival_rate} is not below servers * service_rate = {rate}: "
            "the underloaded law needs spare capacity"
        )
    return LimitLaw("underloaded", 0.0, slack, 0.0, rate, rate, rate**2, system.servers)


def critical_law(system: AbandonmentSystem) -> LimitLaw:
    """Return the law sqrt(gamma) Q => normal(C_g, n mu), conditioned to be >= 0.

    Units:
        As `LimitLaw`.
    Assumes:
        gamma -> 0 with C_g bounded.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050, second regime.
    """
    location, variance = criticality(system), system.servers * system.service_rate
    moments = truncated_normal_moments(location, variance)
    return LimitLaw("critical", 0.0, math.sqrt(system.patience_rate), location, variance, *moments, system.servers)


def overloaded_law(system: AbandonmentSystem) -> LimitLaw:
    """Return the law sqrt(gamma) (Q - (lam - n mu) / gamma) => normal(0, lam).

    Units:
        As `LimitLaw`.
    Assumes:
        C_g -> +inf. In service too: if jobs in service may abandon, Q is lower by n, which the limit does not see.
    Raises:
        ValueError: The system is not overloaded.
    Source:
        Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050, third regime.
    """
    surplus = system.arrival_rate - system.servers * system.service_rate
    if surplus <= 0:
        raise ValueError(
            f"arrival_rate = {system.arrival_rate} is not above servers * service_rate = "
            f"{system.servers * system.service_rate}: the overloaded law needs more arrivals than can be served"
        )
    lam, gamma = system.arrival_rate, system.patience_rate
    return LimitLaw("overloaded", surplus / gamma, math.sqrt(gamma), 0.0, lam, 0.0, lam, system.servers)


def truncated_normal_moments(location: float, variance: float) -> tuple[float, float]:
    """Return mean and variance of a normal law conditioned to be >= 0.

    With s = sqrt(variance), a = -location / s and h = phi(a) / (1 - Phi(a)): mean s (h - a), variance
    s^2 (1 + a h - h^2). Far in the tail, where these differences cancel, by the series of Mills' ratio.

    Units:
        Those of `location`, and their square.
    Assumes:
        variance > 0.
    Raises:
        ValueError: The variance is not a positive number.
    Source:
        Johnson, Kotz, Balakrishnan 1994, "Continuous univariate distributions" 1, section 13.10.1.
    """
    if not (math.isfinite(variance) and variance > 0):
        raise ValueError(f"variance = {variance}: must be a finite number > 0")
    deviation = math.sqrt(variance)
    a = -location / deviation
    if a > 50:
        inverse = 1 / a**2
        mean = (1 - 2 * inverse + 10 * inverse**2 - 74 * inverse**3) / a
        return deviation * mean, variance * inverse * (1 - 6 * inverse + 50 * inverse**2 - 518 * inverse**3)
    hazard = math.sqrt(2 / math.pi) / float(erfcx(a / math.sqrt(2)))
    return deviation * (hazard - a), variance * (1 + a * hazard - hazard**2)
