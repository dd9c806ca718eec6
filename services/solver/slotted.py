"""Random splits in slotted time."""

from __future__ import annotations

import math

from services.models.slotted import SlottedRandom, weighted_random
from services.scenario import Scenario
from services.solver.identities import unlimited
from services.solver.names import Values, by_pool, of_servers, places_of
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
    places = places_of(scenario)
    firsts = [servers.start for servers in places]
    values: Values = {"sojourn_mean": result.sojourn_mean, "waiting_mean": result.sojourn_mean - 1}
    values |= of_independent(
        [pool.servers for pool in scenario.pools],
        [result.queue_lengths[first] for first in firsts],
        [result.queue_variances[first] for first in firsts],
    )
    shares = [math.fsum(result.job_shares[place] for place in servers) for servers in places]
    values |= by_pool(scenario, "job_share", shares)
    # A server is busy in a slot that starts with jobs; a geometric capacity has no memory, so that is load.
    values |= by_pool(scenario, "utilisation", [result.utilisation[first] for first in firsts])
    return SLOTTED.of(
        values | by_pool(scenario, "queue_length_mean", [result.queue_lengths[first] for first in firsts])
    )


def _solve(scenario: Scenario) -> SlottedRandom:
    rates = of_servers(scenario, [pool.rate for pool in scenario.pools])
    weights = of_servers(scenario, split_weights(scenario))
    return weighted_random(rates, scenario.rate_total, weights)
