"""The shortest queue among d of very many servers: the supermarket model."""

from __future__ import annotations

from services.models.supermarket import MeanField, supermarket, supermarket_pools
from services.scenario import Scenario
from services.solver.names import QUANTILES, Values, by_pool, moments, shortened
from services.solver.rules import alike, only, shortest_rule, sizes_not_exponential
from services.solver.solution import Prediction, Statement

FIELD = Statement(
    "mean field",
    "Vvedenskaya, Dobrushin, Karpelevich 1996; Mitzenmacher 2001, doi:10.1109/71.963420",
    "infinitely many servers, Poisson arrivals, exponential sizes, messages arrive at once",
    exact=False,
)


def about(scenario: Scenario) -> bool:
    """The shortest of d queues, of jobs that wait for ever."""
    rule = shortest_rule(scenario)
    return scenario.patience is None and rule is not None and rule.d is not None


def why_not(scenario: Scenario) -> str | None:
    """One slot and one capacity; if there are several rates, ranked by queue length."""
    if not only(scenario, capacity=None):
        return "the supermarket model needs one slot a server"
    if len({pool.capacity for pool in scenario.pools}) > 1:
        return "the supermarket model needs one capacity for all pools"
    rule = shortest_rule(scenario)
    if rule is not None and rule.rank != "queue" and not alike(scenario):
        return f'the supermarket model ranks by queue length, and policy.rank = "{rule.rank}"'
    return sizes_not_exponential(scenario)


def predict(scenario: Scenario) -> dict[str, Prediction]:
    """Find the fixed point of the mean field."""
    field = _solve(scenario)
    servers = scenario.servers_total
    mean, variance = moments(field.queue_tail)
    values: Values = {
        "block_probability": field.block_probability,
        "wait_probability": field.wait_probability,
        "waiting_mean": field.waiting_mean,
        "sojourn_mean": field.sojourn_mean,
        "jobs_in_system_mean": servers * field.jobs_per_server,
        "queue_length_mean": mean,
        "queue_length_variance": variance,
        "queue_tail": shortened(field.queue_tail),
    }
    values |= {name: field.sojourn_quantile(share) for name, share in QUANTILES.items()}
    # Pools of one rate are one pool to the model.
    place = {rate: index for index, rate in enumerate(_rates(scenario))}
    kinds = [place[pool.rate] for pool in scenario.pools]
    together = [sum(pool.servers for pool in scenario.pools if place[pool.rate] == kind) for kind in kinds]
    shares = [
        field.job_shares[kind] * pool.servers / count
        for kind, count, pool in zip(kinds, together, scenario.pools, strict=True)
    ]
    values |= by_pool(scenario, "utilisation", [field.utilisation[kind] for kind in kinds])
    values |= by_pool(scenario, "job_share", shares)
    values |= by_pool(scenario, "queue_length_mean", [moments(field.tails[kind])[0] for kind in kinds])
    values |= by_pool(scenario, "queue_tail", [shortened(field.tails[kind]) for kind in kinds])
    return FIELD.of(values)


def _solve(scenario: Scenario) -> MeanField:
    rule = shortest_rule(scenario)
    assert rule is not None and rule.d is not None
    rates, capacity = _rates(scenario), scenario.pools[0].capacity
    per_server = scenario.rate_total / scenario.servers_total
    if len(rates) == 1:
        return supermarket(per_server, rule.d, rates[0], capacity)
    shares = [
        sum(pool.servers for pool in scenario.pools if pool.rate == rate) / scenario.servers_total for rate in rates
    ]
    return supermarket_pools(shares, rates, per_server, rule.d, capacity)


def _rates(scenario: Scenario) -> list[float]:
    """The different rates, in the order of the pools."""
    return list(dict.fromkeys(pool.rate for pool in scenario.pools))
