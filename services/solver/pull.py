"""PULL before very many servers: the number of routers fixed (nobody waits), or growing with the servers.

The first limit is `closed`, the second `meanfield`. A scenario lies in both: which of them is nearer shows how many
idle servers a router has to itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

from services.models.closed import survival_quantile
from services.models.jiq_meanfield import JiqMeanField, jiq_keep, jiq_published, jiq_withdraw
from services.models.pull import FluidPull, fluid_equilibrium, skewed_random_probability, skewed_routers
from services.scenario import Scenario
from services.solver.names import QUANTILES, Values, by_pool, moments, shortened
from services.solver.rules import alike, is_split, only, sizes_not_exponential
from services.solver.solution import Prediction, Statement

STOLYAR = "Stolyar 2017, arXiv:1512.07873"
MARKOV = "Poisson arrivals, exponential sizes, messages arrive at once"
FLUID = Statement(
    "fluid limit",
    STOLYAR,
    f"infinitely many servers, a fixed number of equal routers; {MARKOV}",
    exact=False,
)
SKEWED = Statement(
    "fluid limit",
    "flow balance; van der Boor, Borst, van Leeuwaarden 2017, arXiv:1712.08555 (that jobs wait)",
    f"infinitely many servers, a fixed number of unequal routers; {MARKOV}",
    exact=False,
)
FIELD = Statement(
    "mean field",
    "flow balance in the manner of Mitzenmacher 2016, arXiv:1602.05259",
    f"infinitely many servers and routers, servers ÷ routers fixed; {MARKOV}",
    exact=False,
)
PUBLISHED = Statement(
    "mean-field approximation",
    "Lu et al. 2011, doi:10.1016/j.peva.2011.07.015",
    f"infinitely many servers and routers, servers ÷ routers fixed, no message ever stale; {MARKOV}",
    exact=False,
)


def about(scenario: Scenario) -> bool:
    """PULL, where there is a choice, and jobs that wait for ever."""
    return scenario.policy_name == "pull" and scenario.patience is None and not is_split(scenario)


def about_skewed(scenario: Scenario) -> bool:
    """The same before unequal routers."""
    return about(scenario) and not _equal_routers(scenario)


def why_no_fluid(scenario: Scenario) -> str | None:
    """Equal routers, one slot, messages used in random order. Nobody falls back, so any fallback will do."""
    if not _equal_routers(scenario):
        return "routers.split is unequal, and the fluid limit without waiting needs equal routers"
    return _why_not(scenario)


def why_not_skewed(scenario: Scenario) -> str | None:
    """Servers that are alike, unlimited room, a uniform fallback."""
    if not alike(scenario):
        return "routers.split is unequal, and that limit is known for servers that are alike"
    return _why_not(scenario) or _why_no_fallback(scenario)


def why_no_field(scenario: Scenario) -> str | None:
    """Equal routers, several of them, servers that are alike, unlimited room, a uniform fallback."""
    if scenario.routers.count == 1:
        return "1 router, and the mean field of PULL is one of many routers"
    if not _equal_routers(scenario):
        return "routers.split is unequal, and the mean field of PULL needs equal routers"
    if not alike(scenario):
        return "the mean field of PULL needs servers that are alike"
    if scenario.parameter("stale") == "duplicate":
        return 'the mean field of PULL is known for policy.stale = "withdraw" and "keep"'
    return _why_not(scenario) or _why_no_fallback(scenario)


def _equal_routers(scenario: Scenario) -> bool:
    shares = scenario.routers.shares
    return max(shares) - min(shares) < 1e-9


def _why_not(scenario: Scenario) -> str | None:
    if not only(scenario, capacity=None):
        return "the limits of PULL need one slot a server"
    if scenario.parameter("announce_at") not in (0, "vacancy"):
        return f"policy.announce_at = {scenario.parameter('announce_at')}, and the limits of PULL need 0"
    if scenario.parameter("order") != "random" and len({pool.rate for pool in scenario.pools}) > 1:
        return 'policy.order = "fastest", and the limits of PULL need "random"'
    return sizes_not_exponential(scenario)


def _why_no_fallback(scenario: Scenario) -> str | None:
    # Servers are alike here, so that a draw by rate is uniform.
    fallback = scenario.parameter("fallback")
    if fallback not in ("random", "weighted"):
        return f'policy.fallback = "{fallback}", and where jobs wait the limits of PULL need "random"'
    if not only(scenario):
        return "where jobs wait, the limits of PULL need servers of unlimited capacity"
    return None


def predict_fluid(scenario: Scenario) -> dict[str, Prediction]:
    """Solve the fluid equilibrium: every job is pulled by an idle server."""
    pools = scenario.pools
    fluid = fluid_equilibrium([pool.servers for pool in pools], [pool.rate for pool in pools], scenario.rate_total)
    jobs = math.fsum(pool.servers * busy for pool, busy in zip(pools, fluid.busy_shares, strict=True))
    busy = jobs / scenario.servers_total
    values: Values = {
        "block_probability": fluid.block_probability,
        "wait_probability": fluid.wait_probability,
        "waiting_mean": 0.0,
        "sojourn_mean": fluid.sojourn_mean,
        "jobs_in_system_mean": jobs,
        "queue_length_mean": busy,
        "queue_length_variance": busy * (1 - busy),
        "queue_tail": [1.0, busy],
        "dispatch.random": 0.0,
        "dispatch.stale": 0.0,
    }
    values |= _messages(pull=fluid.pull_messages, withdraw=0.0) | _fluid_quantiles(scenario, fluid)
    values |= by_pool(scenario, "utilisation", fluid.busy_shares)
    values |= by_pool(scenario, "job_share", fluid.job_shares)
    values |= by_pool(scenario, "queue_length_mean", fluid.busy_shares)
    return FLUID.of(values | by_pool(scenario, "queue_tail", [[1.0, busy] for busy in fluid.busy_shares]))


def _fluid_quantiles(scenario: Scenario, fluid: FluidPull) -> Values:
    """A sojourn is a service, at the rate of the pool that pulled the job."""

    def survival(t: float) -> float:
        pools = zip(fluid.job_shares, scenario.pools, strict=True)
        return math.fsum(share * math.exp(-pool.rate * t) for share, pool in pools)

    return {name: survival_quantile(survival, share, fluid.sojourn_mean) for name, share in QUANTILES.items()}


def predict_skewed(scenario: Scenario) -> dict[str, Prediction]:
    """Balance the flows of heavy routers, which run out of messages, and light ones."""
    shares, rate = scenario.routers.shares, scenario.pools[0].rate
    if scenario.parameter("stale") != "withdraw":
        return SKEWED.of({"dispatch.random": skewed_random_probability(shares)})
    result = skewed_routers(shares, scenario.rate_total / scenario.servers_total, rate)
    values: Values = {
        "block_probability": 0.0,
        "wait_probability": result.wait_probability,
        "waiting_mean": result.sojourn_mean - 1 / rate,
        "sojourn_mean": result.sojourn_mean,
        "jobs_in_system_mean": scenario.rate_total * result.sojourn_mean,
        "dispatch.random": result.random_probability,
        "dispatch.stale": 0.0,
    }
    values |= by_pool(scenario, "utilisation", [scenario.load] * len(scenario.pools))
    return SKEWED.of(values | _messages(pull=result.pull_messages, withdraw=result.withdrawals))


def predict_field(scenario: Scenario) -> dict[str, Prediction]:
    """Find the fixed point at this number of servers per router."""
    rate, servers = scenario.pools[0].rate, scenario.servers_total
    arguments = (scenario.rate_total / servers, servers / scenario.routers.count)
    places = scenario.parameter("k") if scenario.parameter("placement") == "shortest_of" else 1
    published = jiq_published(*arguments, d=places, rate=rate)
    if places > 1:
        return PUBLISHED.of(
            {
                "block_probability": 0.0,
                "wait_probability": published.wait_probability,
                "waiting_mean": published.sojourn_mean - 1 / rate,
                "sojourn_mean": published.sojourn_mean,
            }
        )
    keep = scenario.parameter("stale") == "keep"
    field = jiq_keep(*arguments, rate=rate) if keep else jiq_withdraw(*arguments, rate=rate)
    statement = replace(
        FIELD, assumes=f"{FIELD.assumes}. The formula of Lu et al. 2011 gives a sojourn of {published.sojourn_mean:.6g}"
    )
    values = _of_field(scenario, field)
    if not keep:  # every server is offered random jobs at one rate: the sojourn is exponential
        values |= {name: -math.log1p(-share) * field.sojourn_mean for name, share in QUANTILES.items()}
    return statement.of(values)


def _of_field(scenario: Scenario, field: JiqMeanField) -> Values:
    mean, variance = moments(field.queue_tail)
    tail, pools = shortened(field.queue_tail), len(scenario.pools)
    values: Values = {
        "block_probability": 0.0,
        "wait_probability": field.wait_probability,
        "waiting_mean": field.sojourn_mean - 1 / scenario.pools[0].rate,
        "sojourn_mean": field.sojourn_mean,
        "jobs_in_system_mean": scenario.servers_total * mean,
        "queue_length_mean": mean,
        "queue_length_variance": variance,
        "queue_tail": tail,
        "dispatch.random": field.random_probability,
        "dispatch.stale": field.stale_probability,
    }
    values |= by_pool(scenario, "utilisation", [scenario.load] * pools)
    values |= by_pool(scenario, "job_share", [pool.servers / scenario.servers_total for pool in scenario.pools])
    values |= by_pool(scenario, "queue_length_mean", [mean] * pools) | by_pool(scenario, "queue_tail", [tail] * pools)
    return values | _messages(pull=field.pull_messages, withdraw=field.withdrawals)


def _messages(pull: float, withdraw: float) -> Values:
    return {
        "messages.pull": pull,
        "messages.withdraw": withdraw,
        "messages.probe": 0.0,
        "messages.report": 0.0,
        "messages.total": pull + withdraw,
    }
