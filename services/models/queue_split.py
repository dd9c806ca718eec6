"""The static split of a stream among M/M/1 queues with the shortest mean sojourn time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def optimal_queue_split(servers: Sequence[int], service_rates: Sequence[float], arrival_rate: float) -> list[float]:
    """Return for each type the arrival rate at one of its servers with which the mean sojourn time is shortest.

    The mean number of jobs Σ n_j a_j / (m_j − a_j) is convex, so the marginal numbers m_j / (m_j − a_j)² of all types
    that get jobs are equal, say 1 / c²: a_j = m_j − c √m_j. That the rates add up gives c; a type with √m_j <= c gets
    none. Slow servers get less than their share of the work, in light traffic nothing.

    Units:
        Rates per time unit; `arrival_rate` is that of all servers together.
    Assumes:
        Poisson arrivals dealt at random, exponential sizes, one slot a server, unlimited room.
    Args:
        servers: Number n_j of servers of each type.
        service_rates: The rate m_j of one of them.
        arrival_rate: Below Σ n_j m_j.
    Raises:
        ValueError: The arrival rate is not above 0 and below that.
    Source:
        Bell, Stidham 1983, doi:10.1287/mnsc.29.7.831.
    """
    total = math.fsum(n * m for n, m in zip(servers, service_rates, strict=True))
    if not 0.0 < arrival_rate < total:
        raise ValueError(
            f"arrival_rate = {arrival_rate:g}: expected a rate above 0 and below {total:g}, what can be served"
        )
    spare, roots = -arrival_rate, 0.0
    for n, m in sorted(zip(servers, service_rates, strict=True), key=lambda pair: -pair[1]):
        if roots and math.sqrt(m) * roots <= spare:
            break  # √m <= c, and the slower ones are left out too
        spare += n * m
        roots += n * math.sqrt(m)
    return [max(0.0, m - spare / roots * math.sqrt(m)) for m in service_rates]
