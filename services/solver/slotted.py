"""Random splits in slotted time."""

from __future__ import annotations

import math

from services.models.slotted import SlottedRandom, weighted_random
from services.scenario import Scenario
from services.solver.identities import unlimited
from services.solver.names import Values, by_pool
from services.solver.rules import split_weights
from services.solver.solution import Prediction, Statement
from services.solver.stations import of_independent

SLOTTED = Statement(
    "closed form",
    "balance of the generating function; the system: Vargaftik, Keslassy, Orda 2020, arXiv:2003.02368",
    "Poisson batches dealt job by job by fixed shares, geometric numbers of services, queues read as a slot starts",
    exact=True,
)


def about(scenario: Scenario) -> bool:
    """Random splits of jobs."""
    return scenario.policy_name in ("random", "weighted_random") or scenario.servers_total == 1


def why_not(scenario: Scenario) -> str | None:
    """Unlimited room, and a load below 1 at every server."""
    if not unlimited(scenario):
        return "the closed form of slotted time needs servers of unlimited capacity"
    return None


def predict(scenario: Scenario) -> dict[str, Prediction]:
    """Solve each server by itself."""
    result = _solve(scenario)
    ends = [sum(pool.servers for pool in scenario.pools[: place + 1]) for place in range(len(scenario.pools))]
    starts = [0, *ends[:-1]]
    values: Values = {"sojourn_mean": result.sojourn_mean, "waiting_mean": result.sojourn_mean - 1}
    values |= of_independent(
        [pool.servers for pool in scenario.pools],
        [result.queue_lengths[start] for start in starts],
        [result.queue_variances[start] for start in starts],
    )
    shares = [math.fsum(result.job_shares[start:end]) for start, end in zip(starts, ends, strict=True)]
    values |= by_pool(scenario, "job_share", shares)
    # A server is busy in a slot that starts with jobs; a geometric capacity has no memory, so that is load.
    values |= by_pool(scenario, "utilisation", [result.utilisation[start] for start in starts])
    return SLOTTED.of(values | by_pool(scenario, "queue_length_mean", [result.queue_lengths[s] for s in starts]))


def _solve(scenario: Scenario) -> SlottedRandom:
    of_pool = split_weights(scenario)
    rates = [pool.rate for pool in scenario.pools for _ in range(pool.servers)]
    weights = [weight for weight, pool in zip(of_pool, scenario.pools, strict=True) for _ in range(pool.servers)]
    return weighted_random(rates, scenario.rate_total, weights)
