"""Loss systems with the largest vacancy among d: the mean field of many servers, and the chain of a few."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.models.loss_chain import loss_chain
from services.models.loss_meanfield import fixed_point
from services.scenario import Scenario
from services.solver.chains import too_many
from services.solver.names import QUANTILES, Values, by_pool, moments, shortened
from services.solver.rules import loses_at_once, loss_system, most_vacancy_choices, sizes_not_exponential
from services.solver.solution import Prediction, Statement

PAPER = "Mukhopadhyay, Mazumdar, Guillemin 2015, doi:10.1109/ITC.2015.22"
FIELD = Statement(
    "mean field",
    PAPER,
    "infinitely many servers, Poisson arrivals, exponential sizes, messages arrive at once",
    exact=False,
)
CHAIN = Statement(
    "exact chain",
    f"global balance of all states; the system: {PAPER}",
    "Poisson arrivals, exponential sizes, messages arrive at once",
    exact=True,
)


def about(scenario: Scenario) -> bool:
    """The largest vacancy wins, and no server has room to wait."""
    return loses_at_once(scenario) and most_vacancy_choices(scenario) is not None


def about_field(scenario: Scenario) -> bool:
    """The same, but for splits, which need no limit."""
    return about(scenario) and scenario.policy_name != "random"


def why_no_chain(scenario: Scenario) -> str | None:
    """Exponential sizes, one rate, and few servers."""
    count = math.prod(math.comb(pool.servers + pool.slots, pool.slots) for pool in scenario.pools)
    return _why_not(scenario) or too_many(count, scenario.servers_total)


def why_no_field(scenario: Scenario) -> str | None:
    """Exponential sizes, one rate, and d that stays as the system grows."""
    choices = most_vacancy_choices(scenario)
    if choices is not None and choices[0] is None:
        return "all servers are compared, and the mean field needs a number d of them that stays as the system grows"
    return _why_not(scenario)


def _why_not(scenario: Scenario) -> str | None:
    if len({pool.rate for pool in scenario.pools}) > 1:
        return "the model of loss systems needs one rate for all pools"
    return sizes_not_exponential(scenario)


def predict_chain(scenario: Scenario) -> dict[str, Prediction]:
    """Solve the chain of all servers."""
    system = loss_system(scenario)
    d, replacement = most_vacancy_choices(scenario) or (None, False)
    servers = [pool.servers for pool in scenario.pools]
    result = loss_chain(
        servers,
        system.capacities,
        system.arrival_rate,
        "all" if d is None else d,
        replacement,
        system.service_rate,
    )
    values = _read(scenario, result.tails, result.mean_jobs, result.job_shares, result.block_probability)
    values |= {
        "jobs_in_system_mean": result.jobs_in_system_mean,
        "jobs_in_system_variance": result.jobs_in_system_variance,
    }
    return CHAIN.of(values)


def predict_field(scenario: Scenario) -> dict[str, Prediction]:
    """Find the fixed point of the mean field."""
    system = loss_system(scenario)
    d, _ = most_vacancy_choices(scenario) or (1, False)
    assert d is not None
    result = fixed_point(system, d)
    values = _read(scenario, result.tails, result.mean_jobs, result.job_shares, result.block_probability)
    return FIELD.of(values | {"jobs_in_system_mean": scenario.servers_total * result.mean_jobs_all})


def _read(
    scenario: Scenario,
    tails: Sequence[NDArray[np.float64]],
    mean_jobs: Sequence[float],
    job_shares: Sequence[float],
    block_probability: float,
) -> Values:
    everywhere = np.zeros(max(len(tail) for tail in tails))
    for pool, tail in zip(scenario.pools, tails, strict=True):
        everywhere[: len(tail)] += tail * pool.servers / scenario.servers_total
    mean, variance = moments(everywhere)
    rate = scenario.pools[0].rate
    values: Values = {
        "block_probability": block_probability,
        "wait_probability": 0.0,
        "waiting_mean": 0.0,
        "sojourn_mean": 1 / rate,
        "queue_length_mean": mean,
        "queue_length_variance": variance,
        "queue_tail": shortened(everywhere),
    }
    values |= {name: -math.log1p(-share) / rate for name, share in QUANTILES.items()}
    busy = [jobs / pool.slots for jobs, pool in zip(mean_jobs, scenario.pools, strict=True)]
    values |= by_pool(scenario, "utilisation", busy)
    values |= by_pool(scenario, "job_share", job_shares)
    values |= by_pool(scenario, "queue_length_mean", mean_jobs)
    return values | by_pool(scenario, "queue_tail", [shortened(tail) for tail in tails])
