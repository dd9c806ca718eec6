"""Policies that look at queue lengths: random, weighted random, JSQ, JSQ(d), SED, and JIQ with one router."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Literal

from services.models.chains.builder import Step
from services.models.chains.fleet import Bounds, ChainResult, Fleet, Queues, make_fleet, solve_fleet

Choice = Callable[[Queues], Sequence[tuple[float, int]]]
"""Queue lengths to (probability, server); what is missing to 1 is refused by the router itself."""

Rank = Literal["queue", "joined", "present"]
Ties = Literal["random", "fastest"]
Full = Literal["skip", "ignore"]


def solve_random(
    rates: Sequence[float],
    arrival_rate: float,
    capacities: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    tolerance: float = 1e-12,
    max_states: int = 100_000,
) -> ChainResult:
    """Solve random routing: each job draws a server, full or not.

    Args:
        rates: One service rate a server.
        arrival_rate: Total arrivals per unit time.
        capacities: One capacity a server; None: all infinite.
        weights: One weight a server; None: all equal.
        tolerance: Suppressed steps per job at which infinite queues are cut off.
        max_states: The most states to explore.

    Units: Any unit of time, the same for all rates.
    Assumes: Poisson arrivals, exponential services, first come first served, one slot a server.

    Raises:
        ValueError: If an argument is out of range, or the system is unstable or too large.

    Source: Global balance; the servers are independent, so `services.models.split` must agree.
    """
    shares = [1.0] * len(rates) if weights is None else list(weights)
    if len(shares) != len(rates):
        raise ValueError(f"{len(shares)} weights for {len(rates)} servers: give one a server")
    if not all(0 <= weight < math.inf for weight in shares) or (rates and not any(shares)):
        raise ValueError(f"weights = {shares}, but weights are finite, >= 0 and not all 0")
    fleet = make_fleet(rates, capacities, shares)
    total = sum(shares)
    fixed = [(shares[server] / total, i) for i, server in enumerate(fleet.order) if shares[server] > 0]
    return _solve(fleet, arrival_rate, lambda queues: fixed, tolerance, max_states)


def solve_shortest(
    rates: Sequence[float],
    arrival_rate: float,
    capacities: Sequence[float] | None = None,
    *,
    rank: Rank = "queue",
    ties: Ties = "random",
    full: Full = "skip",
    d: int | None = None,
    replacement: bool = False,
    tolerance: float = 1e-12,
    max_states: int = 100_000,
) -> ChainResult:
    """Solve JSQ, JSQ(d) and SED: the job joins the least-ranked of the servers looked at.

    Args:
        rates: One service rate a server.
        arrival_rate: Total arrivals per unit time.
        capacities: One capacity a server; None: all infinite.
        rank: "queue" (jobs in the system; JSQ), "joined" ((q+1)/rate; SED) or "present" (q/rate).
        ties: "random": uniform over the tied servers; "fastest": uniform over the fastest of them.
        full: "skip": a full server is not chosen, and the job is blocked if all looked at are full; "ignore":
            it is chosen by rank all the same, and blocks the job.
        d: Servers looked at, drawn uniformly for each job; None: all.
        replacement: Whether one server may be drawn twice for a job.
        tolerance: Suppressed steps per job at which infinite queues are cut off.
        max_states: The most states to explore.

    Units: Any unit of time, the same for all rates.
    Assumes: Poisson arrivals, exponential services, first come first served, one slot a server.

    Raises:
        ValueError: If an argument is out of range, or the system is unstable or too large.

    Source: Global balance. JSQ: W. Winston (1977); JSQ(d): M. Mitzenmacher (2001), doi:10.1109/71.963420.
    """
    for name, value, allowed in (
        ("rank", rank, ("queue", "joined", "present")),
        ("ties", ties, ("random", "fastest")),
        ("full", full, ("skip", "ignore")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} = {value!r}, but it is one of {', '.join(allowed)}")
    fleet = make_fleet(rates, capacities, [0.0] * len(rates))
    samples = _samples(len(rates), d, replacement)
    speeds, limits = fleet.rates, fleet.capacities

    def key(server: int, queue: int) -> float:
        if rank == "queue":
            return queue
        return (queue + 1 if rank == "joined" else queue) / speeds[server]

    def choose(queues: Queues) -> list[tuple[float, int]]:
        keys = [key(server, queue) for server, queue in enumerate(queues)]
        chances = [0.0] * len(queues)
        for chance, looked_at in samples:
            open_ones = [i for i in looked_at if queues[i] < limits[i]] if full == "skip" else looked_at
            if not open_ones:
                continue
            least = min(keys[i] for i in open_ones)
            # Ranks are quotients: equal ones may differ in the last bit.
            tied = [i for i in open_ones if keys[i] <= least * (1 + 1e-12)]
            if ties == "fastest":
                top = max(speeds[i] for i in tied)
                tied = [i for i in tied if speeds[i] == top]
            for i in tied:
                chances[i] += chance / len(tied)
        return [(chance, i) for i, chance in enumerate(chances) if chance > 0]

    return _solve(fleet, arrival_rate, choose, tolerance, max_states)


def solve_jiq(
    rates: Sequence[float],
    arrival_rate: float,
    capacities: Sequence[float] | None = None,
    tolerance: float = 1e-12,
    max_states: int = 100_000,
) -> ChainResult:
    """Solve JIQ with one router: a uniformly random idle server, and if there is none any server at random.

    Arguments and errors as in `solve_random`. `random_probability` and the messages are not counted here, but in
    `services.models.chains.pull`.

    Units: Any unit of time, the same for all rates.
    Assumes: One router that knows at once who is idle; the random pick is over all servers, full or not.
    Source: Y. Lu et al. (2011), doi:10.1016/j.peva.2011.07.015, with one dispatcher.
    """
    fleet = make_fleet(rates, capacities, [0.0] * len(rates))
    anyone = range(len(rates))

    def choose(queues: Queues) -> list[tuple[float, int]]:
        pick = [i for i in anyone if queues[i] == 0] or anyone
        return [(1 / len(pick), i) for i in pick]

    return _solve(fleet, arrival_rate, choose, tolerance, max_states)


def _samples(servers: int, d: int | None, replacement: bool) -> list[tuple[float, tuple[int, ...]]]:
    """Each set of distinct servers that a job may look at, with its probability."""
    count = servers if d is None else d
    if count < 1 or (count > servers and not replacement):
        raise ValueError(f"d = {d} of {servers} servers: choose 1 <= d <= {servers}, or replacement = True")
    if d is None:
        return [(1.0, tuple(range(servers)))]
    if not replacement:
        sets = list(combinations(range(servers), count))
        return [(1 / len(sets), chosen) for chosen in sets]
    chances: dict[tuple[int, ...], float] = {}
    for drawn in product(range(servers), repeat=count):
        distinct = tuple(sorted(set(drawn)))
        chances[distinct] = chances.get(distinct, 0.0) + servers**-count
    return [(chance, chosen) for chosen, chance in chances.items()]


def _solve(fleet: Fleet, arrival_rate: float, choose: Choice, tolerance: float, max_states: int) -> ChainResult:
    groups = [(low, high) for low, high in fleet.groups if high - low > 1]

    def moved(queues: Queues, server: int, by: int) -> Queues:
        # Equal servers are told apart by nothing but their queues: sorting them merges states of equal law.
        after = [*queues]
        after[server] += by
        for low, high in groups:
            after[low:high] = sorted(after[low:high])
        return tuple(after)

    def steps_within(bounds: Bounds) -> Callable[[Queues], Iterator[Step[Queues]]]:
        def steps(queues: Queues) -> Iterator[Step[Queues]]:
            shortest, longest = min(queues), max(queues)
            for server, rate in enumerate(fleet.rates):
                if not queues[server]:
                    continue
                if bounds.allows_departure(queues[server], longest):
                    yield rate, moved(queues, server, -1), ()
                else:
                    yield rate, queues, ("cut imbalance",)
            turned_away = 1.0
            for chance, server in choose(queues):
                turned_away -= chance
                queue = queues[server]
                refusal = bounds.refusal(queue, fleet.capacities[server], shortest)
                if refusal:
                    yield arrival_rate * chance, queues, (refusal,)
                else:
                    yield arrival_rate * chance, moved(queues, server, 1), ("wait",) if queue else ()
            if turned_away > 1e-12:
                yield arrival_rate * turned_away, queues, ("block",)

        return steps

    start = (0,) * len(fleet.rates)
    return solve_fleet(fleet, arrival_rate, start, steps_within, lambda queues: queues, tolerance, max_states)
