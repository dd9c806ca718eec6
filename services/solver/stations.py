"""Random splits and single servers: each server is a station of its own, solved in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.models.closed import Station, mg1_waiting_mean
from services.models.split import Pool, Split, random_split
from services.scenario import Scenario
from services.solver.names import QUANTILES, by_pool, cut
from services.solver.rules import is_split, loses_at_once, only, sizes_not_exponential, split_weights
from services.solver.solution import Prediction, Statement

MARKOV = Statement(
    "closed form",
    "Kleinrock 1975, Queueing Systems I, sections 2.4 and 3.2 to 3.6",
    "Poisson arrivals dealt at random by fixed shares, exponential sizes, first come first served: M/M/c/K each",
    exact=True,
)
ERLANG = Statement(
    "closed form",
    "Erlang 1917; Sevastyanov 1957 (insensitivity)",
    "Poisson arrivals dealt at random by fixed shares, sizes of any law, no room to wait: each server is M/G/c/c",
    exact=True,
)
POLLACZEK = Statement(
    "closed form",
    "Pollaczek 1930, Khinchine 1932",
    "Poisson arrivals dealt at random by fixed shares, one slot, first come first served: each server is M/G/1",
    exact=True,
)


@dataclass(frozen=True)
class Dealt:
    """How the jobs of a scenario are dealt to its pools.

    Attributes:
        shares: The share of all jobs that each pool gets.
        rates: The arrival rate at one server of each pool.
    """

    shares: list[float]
    rates: list[float]


def deal(scenario: Scenario) -> Dealt:
    """Deal the jobs by the weights of the servers."""
    weights = split_weights(scenario)
    total = math.fsum(weight * pool.servers for weight, pool in zip(weights, scenario.pools, strict=True))
    rates = [scenario.rate_total * weight / total for weight in weights]
    shares = [weight * pool.servers / total for weight, pool in zip(weights, scenario.pools, strict=True)]
    return Dealt(shares, rates)


def about(scenario: Scenario) -> bool:
    """Random splits of jobs that wait for ever."""
    return is_split(scenario) and scenario.patience is None


def why_not(scenario: Scenario) -> str | None:
    """A station must be stable; sizes that are not exponential need no room to wait, or one slot and unlimited room."""
    try:
        dealt = deal(scenario)
    except ValueError as error:
        return str(error)
    for pool, rate in zip(scenario.pools, dealt.rates, strict=True):
        load = rate / (pool.rate * pool.slots)
        if load >= 1 and math.isinf(pool.capacity):
            return f'pool "{pool.name}" has unlimited room and would have load {load:.6g}: it has no steady state'
    if loses_at_once(scenario) and scenario.service is not None:
        return None
    reason = sizes_not_exponential(scenario)
    if reason is not None and scenario.service is not None and only(scenario):
        if math.isfinite(scenario.law().scv):
            return None
        return f'service.law = "{scenario.service.law}" has no second moment: the mean waiting time is infinite'
    return reason


def predict(scenario: Scenario) -> dict[str, Prediction]:
    """M/M/1, M/M/1/K, M/M/c and M/M/c/K, M/G/c/c (Erlang B) or M/G/1, server by server."""
    if sizes_not_exponential(scenario) is None:
        split = _split(scenario)
        return MARKOV.of(_markov(scenario, split) | _quantiles(split.sojourn_quantile))
    return ERLANG.of(_markov(scenario, _split(scenario))) if loses_at_once(scenario) else _general(scenario)


def _split(scenario: Scenario) -> Split:
    pools = [Pool(pool.servers, pool.rate, pool.slots, pool.capacity) for pool in scenario.pools]
    return random_split(pools, scenario.rate_total, split_weights(scenario))


def _markov(scenario: Scenario, split: Split) -> dict[str, float | Sequence[float]]:
    pools, stations = scenario.pools, split.stations
    values: dict[str, float | Sequence[float]] = {
        "block_probability": split.block_probability,
        "wait_probability": split.wait_probability,
        "waiting_mean": split.waiting_mean,
        "sojourn_mean": split.sojourn_mean,
        "queue_tail": cut(split.queue_tail),
    }
    values |= of_independent(
        [pool.servers for pool in pools],
        [station.jobs_in_system_mean for station in stations],
        [station.jobs_in_system_variance for station in stations],
    )
    values |= by_pool(scenario, "utilisation", split.utilisation)
    values |= by_pool(scenario, "job_share", split.job_shares)
    values |= by_pool(scenario, "queue_length_mean", [station.jobs_in_system_mean for station in stations])
    return values | by_pool(scenario, "queue_tail", [_tail(station) for station in stations])


def _tail(station: Station) -> list[float]:
    return cut(station.queue_tail)


def _quantiles(quantile: Callable[[float], float]) -> dict[str, float | Sequence[float]]:
    return {name: quantile(share) for name, share in QUANTILES.items()}


def _general(scenario: Scenario) -> dict[str, Prediction]:
    dealt, second_moment = deal(scenario), 1 + scenario.law().scv
    waiting, sojourn, busy, jobs = [], [], [], []
    for pool, rate in zip(scenario.pools, dealt.rates, strict=True):
        waiting.append(mg1_waiting_mean(rate, 1 / pool.rate, second_moment / pool.rate**2))
        sojourn.append(waiting[-1] + 1 / pool.rate)
        busy.append(rate / pool.rate)
        jobs.append(rate * sojourn[-1])
    values: dict[str, float | Sequence[float]] = {
        "block_probability": 0.0,
        "wait_probability": math.fsum(s * b for s, b in zip(dealt.shares, busy, strict=True)),
        "waiting_mean": math.fsum(s * w for s, w in zip(dealt.shares, waiting, strict=True)),
        "sojourn_mean": math.fsum(s * t for s, t in zip(dealt.shares, sojourn, strict=True)),
    }
    total = math.fsum(pool.servers * mean for pool, mean in zip(scenario.pools, jobs, strict=True))
    values |= {"jobs_in_system_mean": total, "queue_length_mean": total / scenario.servers_total}
    for name, column in (("utilisation", busy), ("job_share", dealt.shares), ("queue_length_mean", jobs)):
        values |= by_pool(scenario, name, column)
    return POLLACZEK.of(values)


def of_independent(
    servers: Sequence[int], means: Sequence[float], variances: Sequence[float]
) -> dict[str, float | Sequence[float]]:
    """Moments of the queue lengths of independent servers.

    Args:
        servers: Servers of each pool.
        means: Mean queue length of one server of each pool.
        variances: Its variance.
    """
    count = sum(servers)
    mean = math.fsum(n * m for n, m in zip(servers, means, strict=True))
    variance = math.fsum(n * v for n, v in zip(servers, variances, strict=True))
    squares = math.fsum(n * (v + m * m) for n, m, v in zip(servers, means, variances, strict=True))
    return {
        "jobs_in_system_mean": mean,
        "jobs_in_system_variance": variance,
        "queue_length_mean": mean / count,
        "queue_length_variance": squares / count - (mean / count) ** 2,
        # Σ (q_i − q̄)² = Σ q_i² − (Σ q_i)² / n
        "perpendicular_second_moment": squares - (variance + mean**2) / count,
    }
