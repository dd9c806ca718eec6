"""Ways to choose that cost the same however many there are to choose from.

Every tie is broken uniformly, and a choice without a tie takes no number from the generator: then two runs that
differ by one such choice still draw the same numbers afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Rank = float | tuple[float, ...]
"""What is compared: the lowest is chosen. All ranks of one index have the same shape."""


class Population(Generic[T]):
    """A list with membership: add, remove, draw and ask in O(1).

    Rule: `draw` is uniform. The order follows from the calls alone: what is removed is replaced by the last one.

    Attributes:
        items: The members; read only.
    """

    __slots__ = ("_places", "items")

    def __init__(self) -> None:
        self.items: list[T] = []
        self._places: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, item: T) -> bool:
        return item in self._places

    def add(self, item: T) -> None:
        """Take in one that is not a member."""
        self._places[item] = len(self.items)
        self.items.append(item)

    def remove(self, item: T) -> None:
        """Let a member go."""
        place = self._places.pop(item)
        last = self.items.pop()
        if last is not item:
            self.items[place] = last
            self._places[last] = place

    def draw(self, rng: Random) -> T:
        """One of the members, each with the same probability."""
        items = self.items
        return items[0] if len(items) == 1 else items[int(rng.random() * len(items))]


_DRAWS_A_MEMBER = 64


def sample(population: Population[T], d: int, replacement: bool, rng: Random) -> list[T]:
    """The members that d uniform draws give, each of them once.

    Rule: without replacement, d different ones (all of them, and no draw, if there are at most d). With replacement,
    the different ones of d independent draws: the fewer, the more often the draws coincide. No more than 64 draws a
    member are made, since any one is missing among those with a probability below e^-64. The order carries no
    meaning. O(d).
    """
    items = population.items
    count = len(items)
    random = rng.random
    if replacement:
        draws = range(min(d, _DRAWS_A_MEMBER * count))
        return [items[place] for place in dict.fromkeys([int(random() * count) for _ in draws])]
    if d >= count:
        return list(items)
    if d == 2:  # the rule below, for what is by far the most frequent
        place, other = int(random() * (count - 1)), int(random() * count)
        return [items[place], items[other if other != place else count - 1]]
    # Floyd: each step adds one place of 0..top, so that all sets of d are equally likely; a dict keeps the order.
    places: dict[int, None] = {}
    for top in range(count - d, count):
        place = int(random() * (top + 1))
        places[place if place not in places else top] = None
    return [items[place] for place in places]


def least(ranks: Sequence[Rank], rng: Random) -> int:
    """The place of the lowest rank; among equals, each with the same probability."""
    lowest = min(ranks)
    ties = ranks.count(lowest)
    if ties == 1:
        return ranks.index(lowest)
    places = [place for place, rank in enumerate(ranks) if rank == lowest]
    return places[int(rng.random() * ties)]


class Entry:
    """Something ranked: subclass it with what it stands for. It knows its own place, so that nothing is searched.

    Attributes:
        rank: Its rank.
        bucket: The entries of equal rank, and `place` its place among them; -1: it is in no index.
    """

    __slots__ = ("bucket", "place", "rank")

    def __init__(self) -> None:
        self.rank: Rank = 0
        self.place = -1
        self.bucket: list[Any] = []


E = TypeVar("E", bound=Entry)


class LeastLoaded(Generic[E]):
    """Finds one of lowest rank, ties broken uniformly.

    Rule: entries of equal rank lie in one bucket, and a heap holds the ranks of the buckets. An update is O(1), or
    O(log r) where a bucket is opened or used up, r being the number of different ranks; nothing is ever scanned.
    """

    __slots__ = ("_buckets", "_limit", "_ranks")

    def __init__(self) -> None:
        self._buckets: dict[Rank, list[E]] = {}
        self._ranks: list[Rank] = []  # a heap of the keys of _buckets
        self._limit = 64

    def insert(self, entry: E, rank: Rank) -> None:
        """Take in an entry that is not here."""
        bucket = self._buckets.get(rank)
        if bucket is None:
            bucket = self._open(rank)
        entry.rank = rank
        entry.bucket = bucket
        entry.place = len(bucket)
        bucket.append(entry)

    def remove(self, entry: E) -> None:
        """Let an entry go."""
        last = entry.bucket.pop()
        if last is not entry:
            entry.bucket[entry.place] = last
            last.place = entry.place
        entry.place = -1

    def move(self, entry: E, rank: Rank) -> None:
        """Give an entry another rank."""
        if entry.rank != rank:
            self.remove(entry)
            self.insert(entry, rank)

    def choose(self, rng: Random) -> E | None:
        """An entry of lowest rank, each with the same probability; `None`: there is no entry."""
        ranks = self._ranks
        while ranks:
            bucket = self._buckets[ranks[0]]
            if bucket:
                return bucket[0] if len(bucket) == 1 else bucket[int(rng.random() * len(bucket))]
            del self._buckets[heappop(ranks)]
        return None

    def shuffle_in(self, entry: E, rank: Rank, rng: Random) -> None:
        """Take in an entry at a uniformly random place among its equals, for `take`.

        Where every entry comes in this way, equals lie in a uniformly random order at all times, whichever are removed:
        then the last one is a uniformly random one, and to take it touches no other. So the work of a random choice is
        done when nobody waits for it.
        """
        self.insert(entry, rank)
        bucket = entry.bucket
        place = int(rng.random() * len(bucket)) if len(bucket) > 1 else 0
        other = bucket[place]
        if other is not entry:
            bucket[entry.place] = other
            bucket[place] = entry
            other.place, entry.place = entry.place, place

    def take(self) -> E | None:
        """Take out an entry of lowest rank, the last one of its equals; `None`: there is no entry."""
        ranks = self._ranks
        while ranks:
            bucket = self._buckets[ranks[0]]
            if bucket:
                entry = bucket.pop()
                entry.place = -1
                return entry
            del self._buckets[heappop(ranks)]
        return None

    def _open(self, rank: Rank) -> list[E]:
        """A bucket for a new rank. An empty one stays until it is lowest, or until there are too many of them."""
        if len(self._buckets) >= self._limit:
            self._buckets = {rank: bucket for rank, bucket in self._buckets.items() if bucket}
            self._ranks = list(self._buckets)
            heapify(self._ranks)
            self._limit = max(64, 2 * len(self._ranks))
        bucket = self._buckets[rank] = []
        heappush(self._ranks, rank)
        return bucket


class WeightedDraw(Generic[T]):
    """Draws items with probability proportional to their weights, with replacement.

    Rule: one number of the generator and O(1) a draw; the table is made anew at the first draw after a change of
    membership. Items of infinite weight share all draws equally. If all weights are 0 they count as equal.

    Source: alias method, Walker 1977, doi:10.1145/355744.355749; the linear set-up is by Vose 1991,
    doi:10.1109/32.92917.
    """

    def __init__(self) -> None:
        self._weights: dict[T, float] = {}
        self._items: list[T] = []  # empty: the table is out of date
        self._keep: list[float] = []
        self._alias: list[T] = []

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, item: T, weight: float) -> None:
        """Take in an item of this weight, at least 0."""
        self._weights[item] = weight
        self._items = []

    def remove(self, item: T) -> None:
        """Let an item go."""
        del self._weights[item]
        self._items = []

    def draw(self, rng: Random) -> T:
        """One item."""
        if not self._items:
            self._build()
        spot = rng.random() * len(self._items)
        place = int(spot)
        return self._items[place] if spot - place < self._keep[place] else self._alias[place]

    def _build(self) -> None:
        """Level the weights: each place keeps a part of its own probability and gets the rest from one other."""
        weights = list(self._weights.values())
        if max(weights) == float("inf"):
            weights = [float(weight == float("inf")) for weight in weights]
        total = sum(weights)
        count = len(weights)
        self._items = list(self._weights)
        self._alias = list(self._items)
        self._keep = [weight * count / total if total else 1.0 for weight in weights]
        poor = [place for place, share in enumerate(self._keep) if share < 1.0]
        rich = [place for place, share in enumerate(self._keep) if share > 1.0]
        while poor and rich:
            taker, giver = poor.pop(), rich[-1]
            self._alias[taker] = self._items[giver]
            self._keep[giver] -= 1.0 - self._keep[taker]
            if self._keep[giver] <= 1.0:
                rich.pop()
                if self._keep[giver] < 1.0:
                    poor.append(giver)
        for place in poor + rich:  # what rounding has left over
            self._keep[place] = 1.0
