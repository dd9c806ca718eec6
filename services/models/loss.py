"""A heterogeneous loss system: its parameters, and what can be said of it without solving anything.

The mean field is in `loss_meanfield`, exact chains of few servers in `loss_chain`, static splits in
`static_split`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LossSystem:
    """Many servers of several types; a job is served at once or lost.

    Units:
        Rates per time unit.
    Assumes:
        Poisson arrivals; exponential sizes of one mean; a server of type j serves up to `capacities[j]` jobs
        at the same time, each at `service_rate`, and holds no others.
    Args:
        shares: Share of the servers that is of each type; they add up to 1.
        capacities: Most jobs that a server of each type holds (0 allowed: such a server is always full).
        arrival_rate: Arrivals per server.
        service_rate: Service rate of one job.
    Raises:
        ValueError: A parameter is out of range.
    """

    shares: tuple[float, ...]
    capacities: tuple[int, ...]
    arrival_rate: float
    service_rate: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(float(share) for share in self.shares))
        object.__setattr__(self, "capacities", whole_numbers("capacities", self.capacities, least=0))
        if not self.shares or len(self.shares) != len(self.capacities):
            raise ValueError(
                f"shares = {self.shares} and capacities = {self.capacities}: "
                "give one of each for every type, and at least one type"
            )
        if not all(share > 0 for share in self.shares):
            raise ValueError(f"shares = {self.shares}: each must be > 0; leave out a type without servers")
        if abs(math.fsum(self.shares) - 1) > 1e-9:
            raise ValueError(f"shares = {self.shares} add up to {math.fsum(self.shares)}: they must add up to 1")
        if max(self.capacities) == 0:
            raise ValueError(f"capacities = {self.capacities}: at least one must be >= 1")
        positive("arrival_rate", self.arrival_rate)
        positive("service_rate", self.service_rate)

    @classmethod
    def homogeneous(cls, capacity: int, arrival_rate: float, service_rate: float = 1.0) -> LossSystem:
        """Return a system whose servers are all of one type."""
        return cls((1.0,), (capacity,), arrival_rate, service_rate)

    @property
    def offered(self) -> float:
        """Offered work per server, in Erlang."""
        return self.arrival_rate / self.service_rate


def tail_bound(capacity: int, arrival_rate: float, choices: int, service_rate: float = 1.0) -> Array:
    """Bound the share of servers with at least n jobs, n = 0..capacity, when all capacities are equal.

    The cut equation between n-1 and n jobs, `lam (u_{n-1}^d - u_n^d) = n mu (u_n - u_{n+1})`, summed from n
    upwards gives `lam (u_{n-1}^d - u_C^d) = mu (n u_n + u_{n+1} + ... + u_C) >= n mu u_n`, hence
    `u_n <= lam / (n mu) u_{n-1}^d`: once below 1 the tail falls doubly exponentially, its logarithm like d^n.

    Units:
        Rates per time unit; shares of servers.
    Assumes:
        The mean-field fixed point of maximum vacancy among d, all servers alike.
    Returns:
        Upper bounds b_0 = 1, b_n = min(1, lam / (n mu) b_{n-1}^d); `b[-1] ** choices` bounds the blocking
        probability.
    Source:
        Mukhopadhyay, Mazumdar, Guillemin 2015, doi:10.1109/ITC.2015.22 (the system); the bound from its cut
        equation.
    """
    system = LossSystem.homogeneous(capacity, arrival_rate, service_rate)
    d = checked_choices(choices)
    bound = np.ones(capacity + 1)
    for n in range(1, capacity + 1):
        bound[n] = min(1.0, system.offered / n * bound[n - 1] ** d)
    return bound


def positive(name: str, value: float) -> None:
    """Raise ValueError unless the value is a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} = {value}: must be a finite number > 0")


def whole_numbers(name: str, values: Sequence[int], least: int) -> tuple[int, ...]:
    """Return the values as a tuple of int; raise ValueError unless each is a whole number >= least."""
    try:
        whole = tuple(operator.index(value) for value in values)
    except TypeError:
        raise ValueError(f"{name} = {tuple(values)}: each must be a whole number") from None
    if any(value < least for value in whole):
        raise ValueError(f"{name} = {whole}: each must be >= {least}")
    return whole


def checked_choices(choices: int) -> int:
    """Return the number of sampled servers; raise ValueError unless it is a whole number >= 1."""
    return whole_numbers("choices", (choices,), least=1)[0]
