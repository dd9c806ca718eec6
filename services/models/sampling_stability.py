"""Up to which load the shortest of d random servers keeps all queues stable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingStability:
    """The edge of stability of JSQ(d).

    Units: `arrival_rate` in jobs per unit of time, as the rates; `load` over the capacity of all servers.

    Attributes:
        arrival_rate: Stable below it.
        load: The same as a load; 1 where sampling costs no stability.
        slowest: How many of the slowest servers are the ones that overflow first.
    """

    arrival_rate: float
    load: float
    slowest: int


def sampling_stability(rates: Sequence[float], d: int, replacement: bool = False) -> SamplingStability:
    """Find the arrival rate up to which the shortest of d uniformly random servers is stable.

    A job whose d samples all lie in a set of servers is served by that set, whatever the lengths; so for each set the
    rate of those jobs must be less than it can serve. Of all sets of k servers the k slowest are the first to fail.
    Jobs that come in batches and share their samples change nothing in the mean.

    Args:
        rates: Service rate of each server: jobs per unit of time, or mean capacity of a slot.
        d: Servers sampled for a job.
        replacement: Whether one server may be drawn twice.

    Units: Any unit of time.
    Assumes: Independent uniform samples, unlimited room, a job joins a sampled server of fewest jobs.

    Raises:
        ValueError: An argument is out of range.

    Source: Foss, Chernova 1998, "On the stability of a partially accessible multi-station queue with state-dependent
        routing", Queueing Systems 29.
    """
    servers = len(rates)
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"rates = {list(rates)}, but at least one is needed, all finite and above 0")
    if d < 1 or (d > servers and not replacement):
        raise ValueError(f"d = {d} of {servers} servers: choose 1 <= d <= {servers}")
    best, slowest, capacity = math.inf, servers, 0.0
    for count, rate in enumerate(sorted(rates), 1):
        capacity += rate
        inside = (count / servers) ** d if replacement else math.comb(count, d) / math.comb(servers, d)
        if inside > 0.0 and capacity / inside <= best * (1 + 1e-12):  # among equals the largest set
            best, slowest = min(best, capacity / inside), count
    return SamplingStability(best, best / math.fsum(rates), slowest)
