"""Jobs that leave when their patience ends: random splits, the shortest queue, and the limit laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from services.models.abandonment import AbandonmentSteadyState, AbandonmentSystem, erlang_a
from services.models.abandonment_jsq import jsq_with_abandonment
from services.models.abandonment_limits import limit_law, regime
from services.scenario import Scenario
from services.solver.names import Values, by_pool, shortened
from services.solver.rules import is_split, joins_the_shortest_of_all, only, sizes_not_exponential
from services.solver.solution import Prediction, Statement
from services.solver.stations import deal, of_independent

MOST_SERVERS = 3
LIGHTEST_LOAD = 0.8
"""The underloaded law is one for loads that tend to 1."""

PAPER = "Jhunjhunwala, Zubeldia, Maguluri 2022, arXiv:2211.15050"
ASSUMES = "Poisson arrivals, exponential sizes and patience, unlimited room, first come first served"
STATION = Statement(
    "closed form", "Palm 1943", f"{ASSUMES}; dealt at random by fixed shares: each server is M/M/c+M", exact=True
)
CHAIN = Statement("exact chain", f"global balance; the system: {PAPER}", f"{ASSUMES}, messages arrive at once", True)
LIMIT = Statement("limit law", PAPER, "patience without bound (its rate tends to 0)", exact=False)


def about_split(scenario: Scenario) -> bool:
    """Random splits of jobs with patience."""
    return scenario.patience is not None and is_split(scenario)


def about_shortest(scenario: Scenario) -> bool:
    """The shortest queue of all, of jobs with patience."""
    return scenario.patience is not None and joins_the_shortest_of_all(scenario)


def why_no_split(scenario: Scenario) -> str | None:
    """Exponential sizes and unlimited room."""
    if not only(scenario, slots=None):
        return "the model of jobs with patience needs servers of unlimited capacity"
    return sizes_not_exponential(scenario)


def why_no_chain(scenario: Scenario) -> str | None:
    """As for splits, one slot a server, and few servers."""
    servers = scenario.servers_total
    if servers > MOST_SERVERS:
        return f"{servers} servers, and the chain of jobs with patience is solved for at most {MOST_SERVERS}"
    return _one_slot(scenario) or why_no_split(scenario)


def why_no_limit(scenario: Scenario) -> str | None:
    """As for splits, one slot a server; in the underloaded regime a load near 1."""
    reason = _one_slot(scenario) or why_no_split(scenario)
    if reason is None and scenario.load < LIGHTEST_LOAD and regime(_system(scenario)) == "underloaded":
        return f"load = {scenario.load:.6g}, and the law of the underloaded regime is one for loads near 1"
    return reason


def _one_slot(scenario: Scenario) -> str | None:
    if only(scenario, capacity=None):
        return None
    return "the model of the shortest queue with patience needs one slot a server"


def predict_split(scenario: Scenario) -> dict[str, Prediction]:
    """Solve each server by itself, and mix them."""
    dealt = deal(scenario)
    assert scenario.patience is not None
    stations, shares = [], []
    for pool, rate, share in zip(scenario.pools, dealt.rates, dealt.shares, strict=True):
        patience = scenario.patience
        # A server that is sent no jobs at all is one with hardly any.
        system = AbandonmentSystem(pool.slots, rate or 1e-12 * pool.rate, pool.rate, patience.rate, patience.in_service)
        stations.append(erlang_a(system))
        shares.append(share)
    return STATION.of(_mixed(scenario, stations, np.array(shares)))


def _mixed(scenario: Scenario, stations: list[AbandonmentSteadyState], shares: np.ndarray) -> Values:
    served = shares * np.array([1 - station.abandon_probability for station in stations])
    served /= served.sum()
    values: Values = {
        "block_probability": 0.0,
        "abandon_probability": float(shares @ [station.abandon_probability for station in stations]),
        "wait_probability": float(shares @ [station.wait_probability for station in stations]),
        "waiting_mean": float(shares @ [station.waiting_mean for station in stations]),
        "sojourn_mean": float(served @ [station.sojourn_mean for station in stations]),
    }
    means = [station.jobs_in_system_mean for station in stations]
    servers = [pool.servers for pool in scenario.pools]
    values |= of_independent(servers, means, [station.jobs_in_system_variance for station in stations])
    busy = [station.busy_mean / pool.slots for station, pool in zip(stations, scenario.pools, strict=True)]
    values |= by_pool(scenario, "utilisation", busy)
    values |= by_pool(scenario, "job_share", served.tolist())
    values |= by_pool(scenario, "queue_length_mean", means)
    tails = [station.queue_tail for station in stations]
    if all(tail is not None for tail in tails):
        values |= by_pool(scenario, "queue_tail", [shortened(tail) for tail in tails if tail is not None])
        if len(tails) == 1 and tails[0] is not None:
            values["queue_tail"] = shortened(tails[0])
    return values


def predict_chain(scenario: Scenario) -> dict[str, Prediction]:
    """Solve the chain of the shortest queue."""
    result = jsq_with_abandonment(_system(scenario))
    assert result.queue_tail is not None and result.perpendicular_second_moment is not None
    servers, mean = scenario.servers_total, result.jobs_in_system_mean
    values: Values = {
        "block_probability": 0.0,
        "abandon_probability": result.abandon_probability,
        "wait_probability": result.wait_probability,
        "waiting_mean": result.waiting_mean,
        "sojourn_mean": result.sojourn_mean,
        "jobs_in_system_mean": mean,
        "jobs_in_system_variance": result.jobs_in_system_variance,
        "queue_length_mean": mean / servers,
        # Σ q_i² = Σ (q_i − q̄)² + (Σ q_i)² / n
        "queue_length_variance": (
            result.perpendicular_second_moment + (result.jobs_in_system_variance + mean**2) / servers
        )
        / servers
        - (mean / servers) ** 2,
        "perpendicular_second_moment": result.perpendicular_second_moment,
        "queue_tail": shortened(result.queue_tail),
    }
    pools = len(scenario.pools)
    values |= by_pool(scenario, "utilisation", [result.busy_mean / servers] * pools)
    values |= by_pool(scenario, "job_share", [pool.servers / servers for pool in scenario.pools])
    values |= by_pool(scenario, "queue_length_mean", [mean / servers] * pools)
    values |= by_pool(scenario, "queue_tail", [shortened(result.queue_tail)] * pools)
    size = f"{result.states} states, {result.truncation_error:.1g} steps a job cut off"
    return replace(CHAIN, assumes=f"{CHAIN.assumes}; {size}").of(values)


def predict_limit(scenario: Scenario) -> dict[str, Prediction]:
    """State the law of the regime that the scenario is in."""
    law = limit_law(_system(scenario))
    values: Values = {
        "jobs_in_system_mean": law.jobs_in_system_mean,
        "jobs_in_system_variance": law.jobs_in_system_variance,
        "queue_length_mean": law.queue_length_mean,
        "queue_length_variance": law.queue_length_variance,
    }
    return replace(LIMIT, kind=f"limit law, {law.regime} regime").of(values)


def _system(scenario: Scenario) -> AbandonmentSystem:
    pool, patience = scenario.pools[0], scenario.patience
    assert patience is not None
    return AbandonmentSystem(scenario.servers_total, scenario.rate_total, pool.rate, patience.rate, patience.in_service)
