"""PULL (JIQ) with several routers, under each rule for pull-messages that have gone stale."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from services.models.chains.builder import Step
from services.models.chains.fleet import Bounds, ChainResult, Fleet, make_fleet, solve_fleet

Stale = Literal["withdraw", "keep", "duplicate"]
Order = Literal["random", "fastest"]
Server = tuple[int, ...]
State = tuple[Server, ...]
"""One entry a server: its queue length, and then how many of its pull-messages each router holds."""


@dataclass(frozen=True)
class _Rules:
    """What the steps need to know, checked and scaled once."""

    fleet: Fleet
    router_rates: tuple[float, ...]
    stale: Stale
    order: Order
    random: tuple[tuple[float, int], ...]
    sorted_groups: tuple[tuple[int, int], ...]
    equal_routers: bool


def solve_pull(
    rates: Sequence[float],
    arrival_rate: float,
    capacities: Sequence[float] | None = None,
    *,
    routers: int = 1,
    shares: Sequence[float] | None = None,
    stale: Stale = "withdraw",
    order: Order = "random",
    weights: Sequence[float] | None = None,
    tolerance: float = 1e-12,
    max_states: int = 100_000,
) -> ChainResult:
    """Solve PULL: a server that falls idle sends a pull-message to a router drawn uniformly.

    A router uses up one of its messages for each job, and with none at hand draws any server, full or not.

    Args:
        rates: One service rate a server.
        arrival_rate: Total arrivals per unit time.
        capacities: One capacity a server; None: all infinite.
        routers: Number of routers.
        shares: Share of the jobs that reach each router; None: equal.
        stale: What happens when a random job finds an idle server whose message is still out: "withdraw": the
            server cancels it; "keep": it stays, and the server sends no other one until it is used;
            "duplicate": it stays, and the server sends another each time it falls idle.
        order: "random": uniform over the messages held; "fastest": uniform over those of the fastest servers.
        weights: One weight a server for the random draw; None: all equal.
        tolerance: Suppressed steps per job at which infinite queues (and, for "duplicate", heaps of messages)
            are cut off; heaps have long tails, so "duplicate" wants 1e-4 or so and small capacities.
        max_states: The most states to explore.

    Units: Any unit of time, the same for all rates. In the result, "random" counts draws without a message,
        "stale" jobs sent by a message that found the server busy.
    Assumes: Poisson arrivals, exponential services, first come first served, one slot a server, messages that
        travel in no time; at the start every server is idle with one message out.

    Raises:
        ValueError: If an argument is out of range, or the system is unstable or too large.

    Source: Global balance. The rule: A. Stolyar (2017), arXiv:1512.07873, section 2; Y. Lu et al. (2011),
        doi:10.1016/j.peva.2011.07.015.
    """
    rules = _checked(rates, arrival_rate, capacities, routers, shares, stale, order, weights)
    # Sorted columns put the only router that holds messages last.
    idle = (0, *[0] * (routers - 1), 1)
    return solve_fleet(
        rules.fleet,
        arrival_rate,
        (idle,) * len(rates),
        lambda bounds: _Steps(rules, bounds),
        lambda state: tuple(server[0] for server in state),
        tolerance,
        max_states,
    )


@dataclass(frozen=True)
class _Steps:
    """All steps out of a state, within bounds."""

    rules: _Rules
    bounds: Bounds

    def __call__(self, state: State) -> Iterator[Step[State]]:
        """Services that end, then jobs that arrive at each router."""
        longest = max(server[0] for server in state)
        for index, rate in enumerate(self.rules.fleet.rates):
            server = state[index]
            if not server[0]:
                continue
            if self.bounds.allows_departure(server[0], longest):
                for share, after, marks in _ended(self.rules.stale, server, self.bounds.messages):
                    yield rate * share, self.moved(state, index, after), marks
            else:
                yield rate, state, ("cut imbalance",)
        shortest = min(server[0] for server in state)
        at_random = 0.0  # routers without a message all do the same
        for router, rate in enumerate(self.rules.router_rates, start=1):
            held = _choices(self.rules, state, router)
            if not held:
                at_random += rate
            for chance, index in held:
                after, marks = self.dispatched(state[index], router, index, shortest)
                yield rate * chance, self.moved(state, index, after), marks
        for chance, index in self.rules.random if at_random else ():
            after, marks = self.dispatched(state[index], 0, index, shortest)
            yield at_random * chance, self.moved(state, index, after), marks

    def dispatched(self, server: Server, router: int, index: int, shortest: int) -> tuple[Server, tuple[str, ...]]:
        """A job is sent to a server, by this router's message for it or (router 0) at random."""
        queue, *messages = server
        mark = "random"
        if router:
            messages[router - 1] -= 1
            mark = "stale" if queue else "pulled"
        refusal = self.bounds.refusal(queue, self.rules.fleet.capacities[index], shortest)
        if refusal:
            return (queue, *messages), (mark, refusal)
        if queue:
            return (queue + 1, *messages), (mark, "wait")
        if self.rules.stale == "withdraw" and any(messages):
            return (1, *[0] * len(messages)), (mark, "withdraw")
        return (1, *messages), (mark,)

    def moved(self, state: State, index: int, after: Server) -> State:
        """The state with one server changed, in an order that merges states of equal law."""
        servers = [*state]
        servers[index] = after
        for low, high in self.rules.sorted_groups:
            servers[low:high] = sorted(servers[low:high])
        if not self.rules.equal_routers:
            return tuple(servers)
        # Routers with equal shares are exchangeable too: sort the columns, and then the servers again.
        queues, *columns = zip(*servers, strict=True)
        ordered = sorted(columns)
        if ordered != columns:
            servers = list(zip(queues, *ordered, strict=True))
            for low, high in self.rules.sorted_groups:
                servers[low:high] = sorted(servers[low:high])
        return tuple(servers)


def _ended(stale: Stale, server: Server, most: int) -> Iterator[tuple[float, Server, tuple[str, ...]]]:
    """A service ends: each way in which a server that falls idle may announce itself, with its share."""
    queue, *messages = server
    if queue > 1 or (stale == "keep" and any(messages)):
        yield 1.0, (queue - 1, *messages), ()
        return
    for router, held in enumerate(messages):
        share = 1 / len(messages)
        if held == most:
            yield share, (queue - 1, *messages), ("cut messages",)
        else:
            yield share, (queue - 1, *messages[:router], held + 1, *messages[router + 1 :]), ("pull",)


def _choices(rules: _Rules, state: State, router: int) -> list[tuple[float, int]]:
    """The servers whose message this router may use for the next job, with their chances."""
    held = [(server[router], index) for index, server in enumerate(state) if server[router]]
    if rules.order == "fastest" and held:
        top = max(rules.fleet.rates[index] for _, index in held)
        held = [(count, index) for count, index in held if rules.fleet.rates[index] == top]
    total = sum(count for count, _ in held)
    return [(count / total, index) for count, index in held]


def _checked(
    rates: Sequence[float],
    arrival_rate: float,
    capacities: Sequence[float] | None,
    routers: int,
    shares: Sequence[float] | None,
    stale: Stale,
    order: Order,
    weights: Sequence[float] | None,
) -> _Rules:
    if routers < 1:
        raise ValueError(f"routers = {routers}, but PULL needs at least one")
    split = [1 / routers] * routers if shares is None else list(shares)
    if len(split) != routers:
        raise ValueError(f"{len(split)} shares for {routers} routers: give one a router")
    if not all(share > 0 for share in split) or not math.isclose(sum(split), 1, rel_tol=1e-9):
        raise ValueError(f"shares = {split}, but shares are above 0 and add up to 1")
    if stale not in ("withdraw", "keep", "duplicate"):
        raise ValueError(f"stale = {stale!r}, but it is one of withdraw, keep, duplicate")
    if order not in ("random", "fastest"):
        raise ValueError(f"order = {order!r}, but it is one of random, fastest")
    draw = [1.0] * len(rates) if weights is None else list(weights)
    if len(draw) != len(rates):
        raise ValueError(f"{len(draw)} weights for {len(rates)} servers: give one a server")
    if not all(0 <= weight < math.inf for weight in draw) or (rates and not any(draw)):
        raise ValueError(f"weights = {draw}, but weights are finite, >= 0 and not all 0")
    fleet = make_fleet(rates, capacities, draw)
    total = sum(draw)
    return _Rules(
        fleet,
        tuple(arrival_rate * share for share in split),
        stale,
        order,
        tuple((draw[server] / total, i) for i, server in enumerate(fleet.order) if draw[server] > 0),
        tuple((low, high) for low, high in fleet.groups if high - low > 1),
        routers > 1 and shares is None,
    )
