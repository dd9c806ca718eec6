"""Exact Markov chains of a few servers, whatever the policy looks at."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from services.models.chains.fleet import ChainResult
from services.models.chains.pull import solve_pull
from services.models.chains.queues import solve_random, solve_shortest
from services.scenario import Scenario
from services.solver.names import Values, by_pool, moments, of_servers, places_of, shortened
from services.solver.rules import is_split, only, shortest_rule, sizes_not_exponential, split_weights
from services.solver.solution import Prediction, Statement

MOST_STATES = 100_000
MOST_STEPS = 500_000
"""States times servers: each state has about as many steps as there are servers, and they take the time."""
SHORTEST_QUEUE_FOLLOWED = 12
"""An unlimited queue is followed at least that far."""

CHAIN = Statement(
    "exact chain",
    "global balance of all states",
    "Poisson arrivals, exponential sizes, messages arrive at once",
    exact=True,
)


def about(scenario: Scenario) -> bool:
    """Policies that have a chain, for jobs that wait for ever."""
    if scenario.patience is not None:
        return False
    return scenario.policy_name == "pull" or is_split(scenario) or shortest_rule(scenario) is not None


def why_not(scenario: Scenario) -> str | None:
    """Exponential sizes, one slot a server, and few servers."""
    if not only(scenario, capacity=None):
        return "the chain needs one slot a server"
    if not is_split(scenario) and shortest_rule(scenario) is None:
        reason = _why_not_pull(scenario)
        if reason is not None:
            return reason
    if scenario.load >= 1 and any(math.isinf(pool.capacity) for pool in scenario.pools):
        return f"load = {scenario.load:.6g}, and queues of unlimited room could not be followed"
    return sizes_not_exponential(scenario) or too_many(states(scenario), scenario.servers_total, most_states(scenario))


def _why_not_pull(scenario: Scenario) -> str | None:
    for name, known in (
        ("fallback", ("random", "weighted")),
        ("placement", ("random",)),
        ("announce_at", (0, "vacancy")),
    ):
        value = scenario.parameter(name)
        if value not in known:
            shown = f'"{value}"' if isinstance(value, str) else value
            return f"there is no chain of pull with policy.{name} = {shown}"
    return None


def _is_pull(scenario: Scenario) -> bool:
    return scenario.policy_name == "pull" and _why_not_pull(scenario) is None


def most_states(scenario: Scenario) -> int:
    """How many states can be solved in a few seconds."""
    return min(MOST_STATES, MOST_STEPS // scenario.servers_total)


def too_many(count: float, servers: int, most: int = MOST_STATES) -> str | None:
    """Say so if there are more states than can be solved."""
    if count <= most:
        return None
    limit = "10^5" if most == MOST_STATES else str(most)
    return f"{servers} servers make more than 10^{math.floor(math.log10(count))} states, at most {limit} are solved"


def states(scenario: Scenario) -> int:
    """How many states there are at least: servers that are alike are told apart by nothing but their states."""
    kinds: Counter[tuple[float, float]] = Counter()
    for pool in scenario.pools:
        kinds[pool.rate, pool.capacity] += pool.servers
    count = 1
    followed = _followed(scenario)
    for (_, capacity), servers in kinds.items():
        longest = followed if math.isinf(capacity) else int(capacity)
        count *= math.comb(servers + _of_one(scenario, longest) - 1, servers)
    return count


def _followed(scenario: Scenario) -> int:
    """How far an unlimited queue is followed at least."""
    if not is_split(scenario) or scenario.load >= 1:
        return SHORTEST_QUEUE_FOLLOWED
    # Queues of their own, geometric, and at least one of them with the load of all: down to a share of 1e-12.
    return max(SHORTEST_QUEUE_FOLLOWED, math.ceil(math.log(1e-12) / math.log(scenario.load)))


def _of_one(scenario: Scenario, longest: int) -> int:
    """The states of one server: its queue, and with PULL which routers hold its messages."""
    if not _is_pull(scenario):
        return longest + 1
    routers = scenario.routers.count
    if scenario.parameter("stale") == "withdraw":
        return routers + longest  # exactly one message while idle, none while busy
    return routers + longest * (routers + 1)  # and, if it is kept, at most one while busy


def predict(scenario: Scenario) -> dict[str, Prediction]:
    """Solve the chain and read it."""
    result = _solve(scenario)
    values = _read(scenario, result)
    if _is_pull(scenario):
        values |= {
            "dispatch.random": result.random_probability,
            "dispatch.stale": result.stale_probability,
            "messages.pull": result.pull_messages,
            "messages.withdraw": result.withdrawals,
            "messages.probe": 0.0,
            "messages.report": 0.0,
            "messages.total": result.pull_messages + result.withdrawals,
        }
    size = f"{result.states} states, {result.truncation_error:.1g} steps a job cut off"
    return replace(CHAIN, assumes=f"{CHAIN.assumes}; {size}").of(values)


@dataclass(frozen=True)
class _Servers:
    """One entry a server."""

    rates: list[float]
    capacities: list[float]


def _solve(scenario: Scenario) -> ChainResult:
    servers = _Servers(
        of_servers(scenario, [pool.rate for pool in scenario.pools]),
        of_servers(scenario, [pool.capacity for pool in scenario.pools]),
    )
    total = scenario.rate_total
    if _is_pull(scenario):
        return _solve_pull(scenario, servers)
    if is_split(scenario):
        weights = of_servers(scenario, split_weights(scenario))
        return solve_random(servers.rates, total, servers.capacities, weights, max_states=most_states(scenario))
    rule = shortest_rule(scenario)
    assert rule is not None
    return solve_shortest(
        servers.rates,
        total,
        servers.capacities,
        rank=rule.rank,
        ties=rule.ties,
        full=rule.full,
        d=rule.d,
        replacement=rule.replacement,
        max_states=most_states(scenario),
    )


def _solve_pull(scenario: Scenario, servers: _Servers) -> ChainResult:
    return solve_pull(
        servers.rates,
        scenario.rate_total,
        servers.capacities,
        routers=scenario.routers.count,
        shares=scenario.routers.shares,
        stale=scenario.parameter("stale"),
        order=scenario.parameter("order"),
        weights=servers.rates if scenario.parameter("fallback") == "weighted" else None,
        max_states=most_states(scenario),
    )


def _read(scenario: Scenario, result: ChainResult) -> Values:
    places = places_of(scenario)
    firsts = [servers.start for servers in places]
    mean, variance = moments(result.queue_tail)
    values: Values = {
        "block_probability": result.block_probability,
        "wait_probability": result.wait_probability,
        "waiting_mean": result.waiting_mean,
        "sojourn_mean": result.sojourn_mean,
        "jobs_in_system_mean": result.jobs_in_system_mean,
        "jobs_in_system_variance": result.jobs_in_system_variance,
        "queue_length_mean": mean,
        "queue_length_variance": variance,
        "perpendicular_second_moment": result.perpendicular_second_moment,
        "queue_tail": shortened(result.queue_tail),
    }
    tails = [result.server_tails[first] for first in firsts]
    values |= by_pool(scenario, "utilisation", [result.utilisation[first] for first in firsts])
    shares = [math.fsum(result.job_shares[place] for place in servers) for servers in places]
    values |= by_pool(scenario, "job_share", shares)
    values |= by_pool(scenario, "queue_length_mean", [moments(tail)[0] for tail in tails])
    return values | by_pool(scenario, "queue_tail", [shortened(tail) for tail in tails])
