"""Static splits of a loss system: each arrival draws its server at random, knowing nothing of the jobs there.

A server of type j then sees Poisson arrivals, and loses the share E(C_j, a_j) of them (Erlang's formula B),
a_j being its offered work. Only the weights differ: uniform, by capacity, given ones, or those that lose
least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from services.models.closed import erlang_b
from services.models.loss import Array, LossSystem


@dataclass(frozen=True)
class StaticSplit:
    """A static split and what it loses.

    Units:
        Probabilities and shares; work in Erlang; jobs per server.
    Attributes:
        shares: For each type the share of all arrivals that is sent to it.
        offered: For each type the offered work of one of its servers, in Erlang.
        block_probability: Share of arrivals lost.
        block_probability_by_type: For each type the share lost of the arrivals sent to it.
        mean_jobs: For each type the mean number of jobs of one of its servers.
    """

    shares: tuple[float, ...]
    offered: tuple[float, ...]
    block_probability: float
    block_probability_by_type: tuple[float, ...]
    mean_jobs: tuple[float, ...]


def marginal_loss(capacity: int, offered: float) -> float:
    """Return d(a E)/da = E (1 + C - a + a E): the work lost for a little more work offered to one server.

    Units:
        Offered work in Erlang.
    Assumes:
        As Erlang's formula B.
    Args:
        capacity: Places C of the server, each with a slot of its own.
        offered: Offered work a.
    Source:
        Derivative of Erlang's formula, dE/da = E (C/a - 1 + E).
    """
    blocking = erlang_b(capacity, offered)
    return blocking * (1 + capacity - offered * (1 - blocking))


def weighted_split(system: LossSystem, weights: Sequence[float]) -> StaticSplit:
    """Return the split in which a server is drawn with probability proportional to the weight of its type.

    Units:
        Rates per time unit.
    Assumes:
        Poisson arrivals drawn independently; any law of sizes (Erlang's formula is insensitive to it).
    Args:
        system: Types, capacities and rates.
        weights: The weight of one server of each type; 0 leaves a type out.
    Raises:
        ValueError: Weights do not fit the system, are negative, or all 0.
    Source:
        Erlang 1917, applied to each type.
    """
    values = np.asarray(weights, dtype=float)
    if values.shape != (len(system.shares),):
        raise ValueError(f"weights = {tuple(weights)}: expected {len(system.shares)}, one a type")
    if not np.all(np.isfinite(values) & (values >= 0)) or not np.any(values > 0):
        raise ValueError(f"weights = {tuple(weights)}: each must be a finite number >= 0, and one of them > 0")
    return _split(system, system.offered * values / float(np.array(system.shares) @ values))


def uniform_split(system: LossSystem) -> StaticSplit:
    """Return the split in which all servers are equally likely (d = 1). See `weighted_split`."""
    return weighted_split(system, [1.0] * len(system.shares))


def proportional_split(system: LossSystem) -> StaticSplit:
    """Return the split in which a server is drawn in proportion to its capacity. See `weighted_split`."""
    return weighted_split(system, system.capacities)


def optimal_split(system: LossSystem) -> StaticSplit:
    """Return the static split that loses least.

    The lost work sum_j gamma_j a_j E(C_j, a_j) is convex in each a_j, so at the optimum the marginal losses
    E_j (1 + C_j - a_j + a_j E_j) are equal, except that a type is left out (a_j = 0) if its marginal loss is
    higher at 0 already. The marginal loss at 0 is 0 unless the capacity is 0, so that only types without room
    are left out.

    Units:
        Rates per time unit.
    Assumes:
        As `weighted_split`.
    Args:
        system: Types, capacities and rates.
    Source:
        Lagrange's condition for a separable convex sum; the convexity of a E(C, a): Krishnan 1990.
    """
    types, largest = range(len(system.shares)), int(np.argmax(system.capacities))
    upper = [system.offered / share for share in system.shares]  # one type alone takes everything

    def offered_at(multiplier: float, j: int) -> float:
        """Return the work at which type j has the given marginal loss."""

        def excess(a: float) -> float:
            return marginal_loss(system.capacities[j], a) - multiplier

        if excess(0.0) >= 0:
            return 0.0
        if excess(upper[j]) <= 0:
            return upper[j]
        return float(brentq(excess, 0.0, upper[j], xtol=1e-15 * upper[j], rtol=1e-14))

    def all_offered(a: float) -> Array:
        """Return the work of each type, given that of the type with most room."""
        multiplier = marginal_loss(system.capacities[largest], a)
        return np.array([a if j == largest else offered_at(multiplier, j) for j in types])

    def surplus(a: float) -> float:
        return float(np.array(system.shares) @ all_offered(a)) - system.offered

    best = upper[largest]
    if surplus(best) > 0:
        best = float(brentq(surplus, 0.0, best, xtol=1e-15 * best, rtol=1e-14))
    offered = all_offered(best)
    return _split(system, offered * system.offered / float(np.array(system.shares) @ offered))


def _split(system: LossSystem, offered: Array) -> StaticSplit:
    shares = np.array(system.shares) * offered / system.offered
    blocking = np.array([erlang_b(c, float(a)) for c, a in zip(system.capacities, offered, strict=True)])
    return StaticSplit(
        shares=tuple(shares.tolist()),
        offered=tuple(offered.tolist()),
        block_probability=float(shares @ blocking),
        block_probability_by_type=tuple(blocking.tolist()),
        mean_jobs=tuple((offered * (1 - blocking)).tolist()),
    )
