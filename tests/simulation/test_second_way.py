"""Policies as they run against Markov chains that were written apart from them, on small systems drawn at random.

The chain says what a policy does in every state of queues and messages, so a rule that is a little different (ties,
replacement, which message, what is withdrawn) is another chain. That such a comparison sees it is tested here too.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from router import choice
from router.policies.pull import Pull
from services.models.chains.fleet import ChainResult
from services.models.chains.pull import solve_pull
from services.models.chains.queues import solve_random, solve_shortest
from services.models.loss_chain import loss_chain
from tests.simulation.golden import Case, Estimate, compare, simulated

JOBS = 12_000


class Small:
    """Two or three servers of unequal rates and finite capacities, at a load between 0.7 and 1.1.

    Finite systems forget quickly, so that few jobs say much.
    """

    def __init__(self, seed: int) -> None:
        rng = Random(f"second way {seed}")
        servers = 2 + seed % 2
        self.rates = [rng.choice([1.0, 1.0, 2.0, 3.0]) for _ in range(servers)]
        self.capacities = [rng.randint(2, 5) for _ in range(servers)]
        self.arrival_rate = round(rng.uniform(0.7, 1.1) * sum(self.rates), 3)
        self.routers = 1 + seed % 3
        self.seed = seed + 1

    def simulated(self, policy: str) -> dict[str, Estimate]:
        """What a run of the policy gives."""
        pools = ", ".join(
            f'{{name = "s{place}", servers = 1, rate = {rate}, capacity = {capacity}}}'
            for place, (rate, capacity) in enumerate(zip(self.rates, self.capacities, strict=True))
        )
        return simulated(
            Case("small", policy, pools, f"rate_total = {self.arrival_rate}", {}, JOBS, warmup=50, seed=self.seed,
                 more=f"routers = {{count = {self.routers}}}")
        )  # fmt: skip

    def agrees(self, policy: str, exact: ChainResult) -> None:
        """Hold a run against the chain: blocking, waiting, and where the work goes."""
        found = self.simulated(policy)
        known = {
            "block_probability": exact.block_probability,
            "wait_probability": exact.wait_probability,
            "waiting_mean": exact.waiting_mean,
            "sojourn_mean": exact.sojourn_mean,
            **{f"utilisation.s{place}": busy for place, busy in enumerate(exact.utilisation)},
        }
        if policy.startswith('name = "pull"'):
            known |= {
                "dispatch.random": exact.random_probability,
                "messages.pull": exact.pull_messages,
                "messages.withdraw": exact.withdrawals,
            }
        for name, value in known.items():
            # Rare events have a large relative error: those that make less than 5% say nothing.
            if value > 0.05:
                compare(f"{policy}, seed {self.seed}: {name}", found[name], value, error=0.07)


SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ties", ["random", "fastest"])
@pytest.mark.parametrize("full", ["skip", "ignore"])
def test_shortest_queue(seed: int, ties: Any, full: Any) -> None:
    small = Small(seed)
    exact = solve_shortest(small.rates, small.arrival_rate, small.capacities, ties=ties, full=full)
    small.agrees(f'name = "jsq", ties = "{ties}", full = "{full}"', exact)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rank", "ties"), [("joined", "random"), ("joined", "fastest"), ("present", "random")])
def test_shortest_expected_delay(seed: int, rank: Any, ties: Any) -> None:
    small = Small(seed)
    exact = solve_shortest(small.rates, small.arrival_rate, small.capacities, rank=rank, ties=ties)
    small.agrees(f'name = "sed", rank = "{rank}", ties = "{ties}"', exact)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("replacement", [False, True])
def test_the_best_of_two(seed: int, replacement: bool) -> None:
    small = Small(seed)
    exact = solve_shortest(small.rates, small.arrival_rate, small.capacities, d=2, replacement=replacement)
    small.agrees(f'name = "power_of_d", replacement = {str(replacement).lower()}', exact)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_by_rate(seed: int) -> None:
    small = Small(seed)
    small.agrees(
        'name = "weighted_random"',
        solve_random(small.rates, small.arrival_rate, small.capacities, weights=small.rates),
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("stale", "order"), [("withdraw", "random"), ("withdraw", "fastest"), ("keep", "random")])
def test_pull(seed: int, stale: Any, order: Any) -> None:
    small = Small(seed)
    small.agrees(
        f'name = "pull", stale = "{stale}", order = "{order}"',
        solve_pull(
            small.rates, small.arrival_rate, small.capacities, routers=small.routers, stale=stale, order=order,
        ),
    )  # fmt: skip


def test_pull_with_duplicates() -> None:
    # Any number of messages may be out, so the chain is cut off: of two servers alone it stays small.
    small = Small(0)
    small.routers = 2
    exact = solve_pull(small.rates, small.arrival_rate, small.capacities, routers=2, stale="duplicate", tolerance=1e-6)
    small.agrees('name = "pull", stale = "duplicate"', exact)


@pytest.mark.parametrize(
    ("choices", "replacement"), [(1, False), (2, False), (3, False), ("all", False), (2, True), (3, True)]
)
def test_the_most_vacancy(choices: Any, replacement: bool) -> None:
    exact = loss_chain((2, 1), (2, 3), 1.7, choices, replacement)
    pools = '{name = "a", servers = 2, slots = 2, capacity = 2}, {name = "b", servers = 1, slots = 3, capacity = 3}'
    d = f'"{choices}"' if choices == "all" else choices
    policy = f'name = "max_vacancy", d = {d}, replacement = {str(replacement).lower()}'
    found = simulated(Case("loss", policy, pools, "rate_per_server = 1.7", {}, JOBS, warmup=20))
    compare("blocking", found["block_probability"], exact.block_probability, error=0.03)
    for pool, mean in zip("ab", exact.mean_jobs, strict=True):
        compare(f"jobs at {pool}", found[f"queue_length_mean.{pool}"], mean, error=0.03)


# -- tests of the test: a rule that is a little different is seen ------------------------------------


def test_ties_that_always_go_to_the_first_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two servers of rates 1 and 3, the slow one first: half of all ties would have been its.
    small = Small(0)
    small.rates, small.capacities, small.arrival_rate, small.routers = [1.0, 3.0], [4, 4], 3.0, 1
    exact = solve_shortest(small.rates, small.arrival_rate, small.capacities, d=2)
    small.agrees('name = "power_of_d"', exact)
    monkeypatch.setattr("router.policies.power_of_d.least", lambda ranks, rng: ranks.index(min(ranks)))
    monkeypatch.setattr(
        "router.policies.power_of_d.sample",
        lambda population, d, replacement, rng: choice.sample(population, len(population), False, rng),
    )
    with pytest.raises(AssertionError, match="chance explains"):
        small.agrees('name = "power_of_d"', exact)


def test_messages_that_are_not_deleted_when_used_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # All messages stay, so every server seems to be idle for ever: a random split, and nobody falls back.
    small = Small(1)
    exact = solve_pull(small.rates, small.arrival_rate, small.capacities, routers=small.routers)
    small.agrees('name = "pull"', exact)
    monkeypatch.setattr(Pull, "_drop", lambda self, message: None)
    with pytest.raises(AssertionError, match=r"chance explains|may be"):
        small.agrees('name = "pull"', exact)


def test_messages_of_the_fastest_first_are_seen() -> None:
    small = Small(1)
    small.rates, small.arrival_rate, small.routers = [1.0, 1.0, 4.0], 2.0, 1
    exact = solve_pull(small.rates, small.arrival_rate, small.capacities, routers=small.routers, order="random")
    with pytest.raises(AssertionError, match="chance explains"):
        small.agrees('name = "pull", order = "fastest"', exact)
