"""A few servers, how far their queues are followed, and what is read off a stationary law."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from services.models.chains.builder import S, Stationary, Step, TooManyStates, solve_chain

Floats = NDArray[np.float64]
Queues = tuple[int, ...]

# Beyond this the truncated chain is no answer any more: unstable, or too large to follow.
WORST_ERROR = 1e-6
# If more than this is cut from differences, nothing holds the queues together: they are bounded by length alone.
LOOSE = 1e-4
CUTS = ("queue", "imbalance", "messages")
Cuts = dict[str, float]
"""Suppressed steps per job, one entry each of CUTS."""


@dataclass(frozen=True)
class Fleet:
    """Single-slot servers with exponential services: one rate and one capacity each, sorted so that equals meet.

    `order[i]` is the caller's index of server i; `groups` are the slices of exchangeable servers.
    """

    rates: tuple[float, ...]
    capacities: tuple[float, ...]
    order: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Bounds:
    """How far a chain is followed: longest queue, largest difference of two, messages a server and router."""

    queue: int
    imbalance: int
    messages: int = 1

    def refusal(self, queue: int, capacity: float, shortest: int) -> str | None:
        """Why a job does not join a queue of this length: its server is full, or the chain ends here."""
        if queue == capacity:
            return "block"
        if queue == self.queue:
            return "cut queue"
        return "cut imbalance" if queue - shortest == self.imbalance else None

    def allows_departure(self, queue: int, longest: int) -> bool:
        """Whether the queue may lose a job without falling too far behind the longest."""
        return longest - queue < self.imbalance

    def wider(self, cuts: Cuts, goal: float, earlier: "tuple[Bounds, Cuts] | None") -> "Bounds":
        """Bounds that should cut less than the goal, if what is cut falls geometrically with the bound.

        Two solutions show how fast it falls; the first one alone must do with how far it has fallen from 1.
        """

        def grown(name: str, bound: int, narrower: int, cut_then: float) -> int:
            cut = cuts[name]
            if cut <= goal / 3:
                return bound
            if narrower < bound and cut < cut_then:
                fall = math.log(cut_then / cut) / (bound - narrower)
            else:
                fall = -math.log(min(cut, 0.5)) / bound
            more = math.log(cut / (goal / 10)) / fall
            return bound + math.ceil(min(max(more, bound / 10), 1.5 * bound))

        narrower, then = earlier or (self, cuts)
        messages = self.messages + (self.messages + 1) // 2 if cuts["messages"] > goal / 3 else self.messages
        queue = grown("queue", self.queue, narrower.queue, then["queue"])
        imbalance = grown("imbalance", self.imbalance, narrower.imbalance, then["imbalance"])
        if cuts["imbalance"] > LOOSE or (earlier and self.queue == self.imbalance):
            queue = imbalance = max(queue, imbalance)
        return Bounds(queue, imbalance, messages)


@dataclass(frozen=True)
class ChainResult:
    """What an exact chain says.

    Units: Times in the unit of the rates. Probabilities, messages and withdrawals are per *arrival*; waiting and
        sojourn over *admitted* jobs. `utilisation`, `job_shares` (of the jobs served) and `server_tails`
        (P(at least k jobs), k = 0, 1, …) have one entry a server, in the caller's order; `queue_tail` is their
        mean. `perpendicular_second_moment` is E Σ(q_i - mean of q)². `truncation_error` is the number of
        arrivals, departures and messages per job that were suppressed to keep the chain finite.
    """

    block_probability: float
    wait_probability: float
    waiting_mean: float
    sojourn_mean: float
    jobs_in_system_mean: float
    jobs_in_system_variance: float
    perpendicular_second_moment: float
    utilisation: tuple[float, ...]
    job_shares: tuple[float, ...]
    server_tails: tuple[Floats, ...]
    queue_tail: Floats
    random_probability: float
    stale_probability: float
    pull_messages: float
    withdrawals: float
    truncation_error: float
    states: int


def make_fleet(rates: Sequence[float], capacities: Sequence[float] | None, labels: Sequence[float]) -> Fleet:
    """Sort servers so that exchangeable ones (same rate, capacity and label) are neighbours.

    Raises:
        ValueError: If there is no server, or a rate or capacity is out of range.
    """
    if not rates:
        raise ValueError("rates is empty, but a fleet needs at least one server")
    limits = [math.inf] * len(rates) if capacities is None else list(capacities)
    if len(limits) != len(rates):
        raise ValueError(f"{len(limits)} capacities for {len(rates)} servers: give one a server")
    for index, (rate, capacity) in enumerate(zip(rates, limits, strict=True)):
        if not 0 < rate < math.inf:
            raise ValueError(f"server {index}: rate = {rate}, but a server needs a finite rate > 0")
        if not (capacity >= 1 and (math.isinf(capacity) or capacity == int(capacity))):
            raise ValueError(f"server {index}: capacity = {capacity}, but it is infinite or a whole number >= 1")
    kinds = [(rates[i], limits[i], labels[i]) for i in range(len(rates))]
    order = sorted(range(len(rates)), key=lambda i: kinds[i])
    edges = [0, *(j for j in range(1, len(order)) if kinds[order[j]] != kinds[order[j - 1]]), len(order)]
    return Fleet(
        tuple(rates[i] for i in order),
        tuple(limits[i] for i in order),
        tuple(order),
        tuple(pairwise(edges)),
    )


def solve_fleet(
    fleet: Fleet,
    arrival_rate: float,
    start: S,
    steps_within: Callable[[Bounds], Callable[[S], Iterable[Step[S]]]],
    queues_of: Callable[[S], Queues],
    tolerance: float,
    max_states: int,
) -> ChainResult:
    """Solve within growing bounds until no more than `tolerance` steps a job are suppressed.

    If that takes more than `max_states`, WORST_ERROR is enough; the result says what was suppressed.
    A step that would leave the bounds is marked "cut queue", "cut imbalance" or "cut messages" and not made.

    Raises:
        ValueError: If an argument is out of range, or even `max_states` states leave an error above WORST_ERROR:
            the system is unstable or too large for an exact chain.
    """
    if not 0 < arrival_rate < math.inf:
        raise ValueError(f"arrival_rate = {arrival_rate}, but a chain needs a finite arrival rate > 0")
    load = arrival_rate / sum(fleet.rates)
    if load >= 1 and all(math.isinf(capacity) for capacity in fleet.capacities):
        raise ValueError(f"load = {load:.6g}, but servers of infinite capacity need a load below 1")
    finite = [int(capacity) for capacity in fleet.capacities if math.isfinite(capacity)]
    # A fleet of finite servers is followed whole.
    most = max(finite) if len(finite) == len(fleet.capacities) else max([12, *finite])
    bounds = Bounds(most, most)
    goal, error = tolerance, math.inf
    chain: Stationary[S] | None = None
    solved: list[tuple[Bounds, Cuts]] = []
    while error > goal:
        try:
            chain = solve_chain(start, steps_within(bounds), max_states)
        except TooManyStates:
            if chain is None or error <= WORST_ERROR or goal >= WORST_ERROR:
                break
            goal = WORST_ERROR  # too far for the tolerance: go as far as any answer needs
        else:
            cuts = {name: chain.flows.get(f"cut {name}", 0.0) / arrival_rate for name in CUTS}
            error = sum(cuts.values())
            solved.append((bounds, cuts))
        bounds, cuts = solved[-1]
        bounds = bounds.wider(cuts, goal, solved[-2] if len(solved) > 1 else None)
    if chain is None or error > max(WORST_ERROR, tolerance):
        raise ValueError(
            f"{max_states} states are not enough for {len(fleet.rates)} servers at arrival rate {arrival_rate}: "
            "the system is unstable or too large for an exact chain"
        )
    return _read(fleet, arrival_rate, chain, queues_of, error)


def _read(
    fleet: Fleet,
    arrival_rate: float,
    chain: Stationary[S],
    queues_of: Callable[[S], Queues],
    error: float,
) -> ChainResult:
    weights = chain.probabilities
    queues = np.array([queues_of(state) for state in chain.states])
    totals = queues.sum(axis=1)
    mean = float(weights @ totals)
    perpendicular = (queues.astype(np.float64) ** 2).sum(axis=1) - totals**2 / queues.shape[1]
    per_arrival = {name: flow / arrival_rate for name, flow in chain.flows.items()}
    blocked = per_arrival.get("block", 0.0)
    tails: list[Floats] = [np.empty(0)] * len(fleet.order)
    for low, high in fleet.groups:
        lengths = np.bincount(
            queues[:, low:high].ravel(),
            weights=np.repeat(weights / (high - low), high - low),
            minlength=int(queues.max()) + 1,
        ).astype(np.float64)
        for server in range(low, high):
            tails[fleet.order[server]] = np.cumsum(lengths[::-1])[::-1]
    busy = np.array([tail[1] for tail in tails])
    rates = np.empty(len(busy))
    rates[list(fleet.order)] = fleet.rates
    sojourn = mean / (arrival_rate * (1 - blocked))
    return ChainResult(
        block_probability=blocked,
        wait_probability=per_arrival.get("wait", 0.0),
        waiting_mean=max(mean - float(busy.sum()), 0.0) / (arrival_rate * (1 - blocked)),
        sojourn_mean=sojourn,
        jobs_in_system_mean=mean,
        jobs_in_system_variance=max(float(weights @ totals.astype(np.float64) ** 2) - mean**2, 0.0),
        perpendicular_second_moment=float(weights @ perpendicular),
        utilisation=tuple(busy.tolist()),
        job_shares=tuple((busy * rates / float(busy @ rates)).tolist()),
        server_tails=tuple(tails),
        queue_tail=np.mean(tails, axis=0),
        random_probability=per_arrival.get("random", 0.0),
        stale_probability=per_arrival.get("stale", 0.0),
        pull_messages=per_arrival.get("pull", 0.0),
        withdrawals=per_arrival.get("withdraw", 0.0),
        truncation_error=error,
        states=len(chain.states),
    )
