"""How a scenario shares out its jobs, in the words of the models.

Different policies come to the same rule: least requests with one router is the shortest queue, one sampled server
is a random split, one server is no choice at all. Here each scenario is reduced to what matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from services.models.loss import LossSystem
from services.models.queue_split import optimal_queue_split
from services.models.static_split import optimal_split
from services.scenario import Scenario


@dataclass(frozen=True)
class Shortest:
    """The job joins the server of lowest rank among those looked at, whose lengths are known exactly.

    Attributes:
        rank: "queue": jobs there; "joined": (jobs + 1) / rate; "present": jobs / rate.
        ties: Equals are broken at "random", or by rate ("fastest" first).
        full: "skip": a full server is chosen only if all looked at are; "ignore": it may be, and loses the job.
        d: Servers sampled for a job; `None`: all.
        replacement: Whether one server may be sampled twice for a job.
    """

    rank: Literal["queue", "joined", "present"] = "queue"
    ties: Literal["random", "fastest"] = "random"
    full: Literal["skip", "ignore"] = "skip"
    d: int | None = None
    replacement: bool = False


def alike(scenario: Scenario) -> bool:
    """Whether all servers are alike, whatever their pools are called."""
    return len({(pool.rate, pool.slots, pool.capacity) for pool in scenario.pools}) == 1


def only(scenario: Scenario, slots: int | None = 1, capacity: float | None = math.inf) -> bool:
    """Whether all servers have so many slots and that capacity; `None`: any."""
    return all(
        (slots is None or pool.slots == slots) and (capacity is None or pool.capacity == capacity)
        for pool in scenario.pools
    )


def loses_at_once(scenario: Scenario) -> bool:
    """Whether no server has room to wait: every job is served at once or lost."""
    return all(pool.capacity == pool.slots for pool in scenario.pools)


def sizes_not_exponential(scenario: Scenario) -> str | None:
    """Say which sizes there are, if they are not exponential."""
    if scenario.service is None:
        return "the sizes come from a trace, and the model needs exponential ones"
    if scenario.service.law != "exponential":
        return f'service.law = "{scenario.service.law}", and the model needs exponential sizes'
    return None


def is_split(scenario: Scenario) -> bool:
    """Whether jobs are dealt to servers by fixed shares, so that each server is a station of its own."""
    if scenario.servers_total == 1 or scenario.policy_name in ("random", "weighted_random"):
        return True
    if scenario.policy_name == "max_vacancy" and only(scenario, slots=None):
        return True  # infinite vacancies are equal: whoever was sampled is drawn from at random
    if scenario.policy_name in ("power_of_d", "max_vacancy", "least_requests"):
        return bool(scenario.parameter("d") == 1) and not _remembers(scenario)
    return False


def split_weights(scenario: Scenario) -> list[float]:
    """Return the weight of one server of each pool, for a scenario that `is_split`.

    Raises:
        ValueError: The best weights are asked for, and not known for such servers.
    """
    equal = [1.0] * len(scenario.pools)
    if scenario.policy_name != "weighted_random" or scenario.servers_total == 1:
        return equal
    weights: str | list[float] = scenario.parameter("weights")
    if weights == "rate":
        return [pool.rate for pool in scenario.pools]
    if weights == "capacity":
        return [pool.capacity for pool in scenario.pools]
    if isinstance(weights, str):
        return optimal_weights(scenario)
    return list(weights)


def optimal_weights(scenario: Scenario) -> list[float]:
    """Return the weights of one server of each pool with which a random split loses fewest jobs, or has fewest waiting.

    Raises:
        ValueError: It is known neither for such servers nor for such a load.
    """
    if loses_at_once(scenario) and len({pool.rate for pool in scenario.pools}) == 1:
        return list(optimal_split(loss_system(scenario)).offered)
    if only(scenario) and sizes_not_exponential(scenario) is None and scenario.load < 1:
        pools = scenario.pools
        return optimal_queue_split([pool.servers for pool in pools], [pool.rate for pool in pools], scenario.rate_total)
    raise ValueError(
        'policy.weights = "optimal" is known for servers with capacity = slots and one rate, and for '
        'exponential sizes, one slot a server, unlimited room and a load below 1: choose "rate", "capacity" or a list'
    )


def loss_system(scenario: Scenario) -> LossSystem:
    """Return a scenario that `loses_at_once`, with one rate, as a loss system."""
    servers = scenario.servers_total
    return LossSystem(
        shares=tuple(pool.servers / servers for pool in scenario.pools),
        capacities=tuple(pool.slots for pool in scenario.pools),
        arrival_rate=scenario.rate_total / servers,
        service_rate=scenario.pools[0].rate,
    )


def shortest_rule(scenario: Scenario) -> Shortest | None:
    """Return the rule of a scenario whose routers know the lengths that they compare exactly; `None`: it has none.

    Reports on change and answers to probes are exact as long as messages take no time. So is a router's own count if
    there is no other router.
    """

    def of(name: str) -> Any:
        return scenario.parameter(name)

    policy = scenario.policy_name
    if policy == "jsq" and of("every") is None:
        return Shortest(ties=of("ties"), full=of("full"))
    if policy == "sed":
        return Shortest(of("rank"), of("ties"), of("full"))
    if policy == "power_of_d" and not _remembers(scenario):
        return Shortest(full=of("full"), d=of("d"), replacement=of("replacement"))
    if policy == "max_vacancy" and alike(scenario) and scenario.pools[0].capacity < math.inf:
        return Shortest(d=_number(of("d")), replacement=of("replacement") and of("d") != "all")
    if policy == "least_requests" and scenario.routers.count == 1:
        d = _number(of("d"))
        return Shortest(of("rank"), full=of("full"), d=d, replacement=of("replacement") and d is not None)
    return None


def joins_the_shortest_of_all(scenario: Scenario) -> bool:
    """Whether servers are alike and a job joins a shortest queue of all of them."""
    if scenario.servers_total == 1:
        return True
    rule = shortest_rule(scenario)
    if rule is None or not alike(scenario):
        return False
    return rule.d is None or (rule.d == scenario.servers_total and not rule.replacement)


def most_vacancy_choices(scenario: Scenario) -> tuple[int | None, bool] | None:
    """Return d (`None`: all) and replacement, if a job joins the largest vacancy among d; `None`: it does not."""
    if scenario.policy_name == "max_vacancy":
        d = _number(scenario.parameter("d"))
        return d, scenario.parameter("replacement") and d is not None
    if scenario.policy_name == "random":
        return 1, False
    rule = shortest_rule(scenario)
    return (rule.d, rule.replacement) if rule is not None and alike(scenario) else None


def _number(d: int | Literal["all"]) -> int | None:
    return None if d == "all" else d


def _remembers(scenario: Scenario) -> bool:
    return scenario.policy_name == "power_of_d" and bool(scenario.parameter("memory"))
