"""The ways to choose: uniform where they must be, and never a look at everything."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from scipy.stats import chisquare

from router.choice import Entry, LeastLoaded, Population, WeightedDraw, least, sample

ALPHA = 0.001


class Item(Entry):
    __slots__ = ("name",)

    def __init__(self, name: int) -> None:
        super().__init__()
        self.name = name


class CountingRandom(Random):
    """Counts the numbers drawn."""

    drawn = 0

    def random(self) -> float:
        self.drawn += 1
        return super().random()


def is_uniform(counts: Counter[int], kinds: int) -> bool:
    return len(counts) == kinds and chisquare(list(counts.values())).pvalue > ALPHA


def population(count: int) -> Population[int]:
    members: Population[int] = Population()
    for item in range(count):
        members.add(item)
    return members


def index(ranks: list[float]) -> tuple[LeastLoaded[Item], list[Item]]:
    found: LeastLoaded[Item] = LeastLoaded()
    items = [Item(name) for name in range(len(ranks))]
    for item, rank in zip(items, ranks, strict=True):
        found.insert(item, rank)
    return found, items


# -- Population ------------------------------------------------------------------------------------


def test_a_population_knows_its_members_through_random_changes() -> None:
    rng = Random(1)
    members: Population[int] = Population()
    truth: set[int] = set()
    for step in range(3000):
        if truth and rng.random() < 0.45:
            gone = rng.choice(sorted(truth))
            members.remove(gone)
            truth.remove(gone)
        else:
            members.add(step)
            truth.add(step)
        assert len(members) == len(truth) == len(members.items)
        assert set(members.items) == truth
        assert step in members or step not in truth
        assert -1 not in members


def test_a_population_is_drawn_from_uniformly_after_removals() -> None:
    members = population(12)
    for gone in (0, 11, 5):
        members.remove(gone)
    rng = Random(2)
    assert is_uniform(Counter(members.draw(rng) for _ in range(9000)), 9)


def test_the_only_member_is_drawn_without_a_number() -> None:
    rng = CountingRandom(3)
    assert population(1).draw(rng) == 0
    assert rng.drawn == 0


# -- sample ----------------------------------------------------------------------------------------


def test_of_more_draws_than_could_matter_only_some_are_made() -> None:
    rng, members = CountingRandom(3), population(5)
    assert sorted(sample(members, 10**18, True, rng)) == [0, 1, 2, 3, 4]
    assert rng.drawn == 64 * 5


@pytest.mark.parametrize(("count", "d"), [(5, 2), (5, 4), (6, 3)])
def test_a_sample_without_replacement_makes_all_sets_equally_likely(count: int, d: int) -> None:
    rng, members = Random(4), population(count)
    sets = Counter(frozenset(sample(members, d, False, rng)) for _ in range(20_000))
    assert all(len(drawn) == d for drawn in sets)
    # C(5, 2) = 10, C(5, 4) = 5, C(6, 3) = 20
    assert len(sets) == {(5, 2): 10, (5, 4): 5, (6, 3): 20}[count, d]
    assert chisquare(list(sets.values())).pvalue > ALPHA


@pytest.mark.parametrize("d", [5, 6, 50])
def test_a_sample_of_at_least_all_is_all_and_takes_no_number(d: int) -> None:
    rng = CountingRandom(5)
    assert sorted(sample(population(5), d, False, rng)) == [0, 1, 2, 3, 4]
    assert rng.drawn == 0


def test_draws_with_replacement_coincide_as_often_as_chance_has_it() -> None:
    rng, members = Random(6), population(4)
    samples = [sample(members, 2, True, rng) for _ in range(20_000)]
    # Two draws of 4 are the same with probability 1/4; standard error sqrt(3/16/20000) = 0.0031.
    assert sum(len(drawn) == 1 for drawn in samples) / 20_000 == pytest.approx(0.25, abs=0.0031 * 3.3)
    assert is_uniform(Counter(item for drawn in samples for item in drawn), 4)


def test_a_sample_costs_as_much_as_it_is_large() -> None:
    rng = CountingRandom(7)
    sample(population(100_000), 3, False, rng)
    assert rng.drawn == 3


# -- least -----------------------------------------------------------------------------------------


def test_least_breaks_ties_uniformly_and_otherwise_takes_no_number() -> None:
    rng = CountingRandom(8)
    assert [least([2, 1, 3], rng), least([(0.0, 2.0), (0.0, 1.0)], rng)] == [1, 1]
    assert rng.drawn == 0
    picks = Counter(least([1, 5, 1, 2, 1], rng) for _ in range(9000))
    assert set(picks) == {0, 2, 4}
    assert is_uniform(picks, 3)


# -- LeastLoaded -----------------------------------------------------------------------------------


def test_an_empty_index_chooses_nothing() -> None:
    assert LeastLoaded[Item]().choose(Random(9)) is None


def test_the_index_agrees_with_a_scan_through_random_changes() -> None:
    rng, draws = Random(10), Random(11)
    found: LeastLoaded[Item] = LeastLoaded()
    here: list[Item] = []
    for step in range(20_000):
        action = rng.random()
        if action < 0.25 or not here:
            here.append(Item(step))
            found.insert(here[-1], rng.randrange(8) / 4)
        elif action < 0.5:
            found.remove(here.pop(rng.randrange(len(here))))
        else:
            found.move(rng.choice(here), rng.randrange(8) / 4)
        chosen = found.choose(draws)
        if here:
            assert chosen is not None
            assert chosen.rank == min(item.rank for item in here)
        else:
            assert chosen is None


@pytest.mark.parametrize("moved", [False, True])
def test_ties_are_uniform_whatever_the_order_of_insertion(moved: bool) -> None:
    found, items = index([3, 1, 1, 2, 1, 1, 9])
    if moved:
        for item in items:
            found.move(item, 5)
        for name in (5, 1, 4, 2):
            found.move(items[name], 0)
    rng = Random(12)
    picks: Counter[int] = Counter()
    for _ in range(8000):
        chosen = found.choose(rng)
        assert chosen is not None
        picks[chosen.name] += 1
    assert set(picks) == {1, 2, 4, 5}
    assert is_uniform(picks, 4)


def test_a_choice_without_a_tie_takes_no_number() -> None:
    found, items = index([3, 1, 2])
    rng = CountingRandom(13)
    assert found.choose(rng) is items[1]
    assert rng.drawn == 0
    found.move(items[2], 1)
    found.choose(rng)
    assert rng.drawn == 1


def test_used_up_ranks_do_not_pile_up() -> None:
    found, items = index([0.0, 0.0])
    for step in range(100_000):
        found.move(items[1], 1.0 + step)  # never the lowest, so no choice cleans up behind it
    assert len(found._ranks) == len(found._buckets) <= 64
    assert found.choose(Random(14)) is items[0]


class Watched(float):
    """A rank that counts how often it is compared."""

    compared = 0
    __hash__ = float.__hash__

    def __lt__(self, other: float) -> bool:
        Watched.compared += 1
        return float(self) < float(other)

    def __eq__(self, other: object) -> bool:
        Watched.compared += 1
        return float(self) == other


@pytest.mark.parametrize("distinct", [1, 10_000])
def test_ten_thousand_entries_cost_a_logarithm_of_comparisons(distinct: int) -> None:
    rng = Random(15)
    found, items = index([Watched(name % distinct) for name in range(10_000)])
    Watched.compared = 0
    for _ in range(1000):
        found.move(rng.choice(items), Watched(rng.randrange(distinct)))
        found.choose(rng)
    # A heap of 10^4 ranks: at most 2·log2(10^4) = 27 comparisons up or down, and some for the dict.
    assert Watched.compared / 1000 < 60


# -- WeightedDraw ----------------------------------------------------------------------------------


def drawn(weights: list[float], draws: int = 20_000, seed: int = 16) -> Counter[int]:
    table: WeightedDraw[int] = WeightedDraw()
    for item, weight in enumerate(weights):
        table.add(item, weight)
    rng = Random(seed)
    return Counter(table.draw(rng) for _ in range(draws))


@pytest.mark.parametrize("weights", [[1, 2, 3, 4], [0.5, 0.5], [7], [1, 1, 1, 97], [1e-3, 1, 1e3], [0.1] * 10])
def test_weights_are_met(weights: list[float]) -> None:
    counts = drawn(weights)
    expected = [20_000 * weight / sum(weights) for weight in weights]
    if len(weights) == 1:
        assert counts == {0: 20_000}
    else:
        assert chisquare([counts[item] for item in range(len(weights))], expected).pvalue > ALPHA


def test_weight_zero_is_never_drawn_unless_all_are_zero() -> None:
    assert set(drawn([0, 1, 0, 3])) == {1, 3}
    assert is_uniform(drawn([0, 0, 0]), 3)


def test_infinite_weights_share_everything() -> None:
    counts = drawn([5, float("inf"), 0, float("inf")])
    assert set(counts) == {1, 3}
    assert is_uniform(counts, 2)


def test_a_weighted_draw_follows_its_members() -> None:
    table: WeightedDraw[int] = WeightedDraw()
    for item in range(4):
        table.add(item, 1 + item)
    rng = CountingRandom(17)
    table.draw(rng)
    assert rng.drawn == 1
    table.remove(3)
    table.add(9, 4.0)
    assert len(table) == 4
    counts = Counter(table.draw(rng) for _ in range(20_000))
    # weights 1, 2, 3 and 4 of 10
    assert chisquare([counts[item] for item in (0, 1, 2, 9)], [2000, 4000, 6000, 8000]).pvalue > ALPHA


def test_the_table_is_made_once_for_many_draws() -> None:
    table: WeightedDraw[int] = WeightedDraw()
    for item in range(1000):
        table.add(item, 1.0)
    rng = Random(18)
    table.draw(rng)
    made = table._items
    for _ in range(100):
        table.draw(rng)
    assert table._items is made
