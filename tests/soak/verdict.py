"""Whether a soak run went as it must: memory that does not grow, nothing that is left open, books that balance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import median

from tests.soak.sampler import Sample

MIB = 1 << 20
MOST_GROWTH = 0.05
WINDOW_SHARE = 0.1
LEAST_SAMPLES = 3
HELD = ("files", "threads", "tasks")
"""What a process holds in a calm must be no more than it was in the first one."""


@dataclass(frozen=True)
class Life:
    """One incarnation of a process.

    Attributes:
        name: Of the process. `number`: which incarnation, from 1.
        lived_s: From the first look at it to the last one.
        before, after: Private bytes after its warm-up and at its end; nan: it did not live long enough to be judged.
    """

    name: str
    number: int
    lived_s: float
    before: float
    after: float

    @property
    def growth(self) -> float:
        """By which share its memory has grown; nan: not judged."""
        return self.after / self.before - 1.0


def lives(samples: Sequence[Sample], warmup_s: float) -> list[Life]:
    """How the memory of each incarnation has grown.

    Rule: its first `warmup_s` are its warm-up. Of what is left, the median of the last tenth is held against the median
    of the first tenth. An incarnation that lived for less than two warm-ups is not judged.

    Args:
        samples: Of all processes, in order of time.
        warmup_s: How long an incarnation is given to fill its tables.
    """
    by_pid: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for each in samples:
        by_pid[each.name, each.pid].append(each)
    found: list[Life] = []
    numbers: dict[str, int] = defaultdict(int)
    for (name, _), own in by_pid.items():
        numbers[name] += 1
        before, after = _ends(own, warmup_s)
        found.append(Life(name, numbers[name], own[-1].at_s - own[0].at_s, before, after))
    return found


def _ends(own: Sequence[Sample], warmup_s: float) -> tuple[float, float]:
    first_s, last_s = own[0].at_s + warmup_s, own[-1].at_s
    left_s = last_s - first_s
    if left_s < warmup_s:
        return nan, nan
    window_s = WINDOW_SHARE * left_s
    before = [each.private for each in own if first_s <= each.at_s <= first_s + window_s]
    after = [each.private for each in own if each.at_s >= last_s - window_s]
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return nan, nan
    return float(median(before)), float(median(after))


def held(samples: Sequence[Sample], calms: Sequence[tuple[float, float]], name: str, what: str) -> list[float]:
    """What a process held in each calm, at least: what comes and goes beside it is left out; nan: it was not there.

    Args:
        samples: Of all processes.
        calms: From when to when, on their clock.
        name: Of the process.
        what: One of `HELD`.
    """
    found = []
    for from_s, to_s in calms:
        counts = [float(getattr(each, what)) for each in samples if each.name == name and from_s <= each.at_s <= to_s]
        found.append(min((count for count in counts if not isnan(count)), default=nan))
    return found


@dataclass(frozen=True)
class Found:
    """All that is judged.

    Attributes:
        lives: How the memory of each incarnation has grown.
        held: What each process held in each calm, by name and kind.
        staying: The processes that live throughout, whose memory must be judged.
        ledgers: What does not add up, in words.
    """

    lives: Sequence[Life]
    held: Mapping[tuple[str, str], Sequence[float]]
    staying: Sequence[str]
    ledgers: Sequence[str]

    def wrong(self) -> list[str]:
        """What was not as it must be; empty: all was."""
        return [*self.ledgers, *self._grown(), *self._kept()]

    def _grown(self) -> Iterator[str]:
        for life in self.lives:
            if life.growth >= MOST_GROWTH:
                yield (
                    f"memory of {life.name} (incarnation {life.number}) grew by {life.growth:.1%}, from "
                    f"{life.before / MIB:.1f} to {life.after / MIB:.1f} MiB: expected less than {MOST_GROWTH:.0%}"
                )
        for name in self.staying:
            own = [life for life in self.lives if life.name == name]
            if len(own) != 1 or isnan(own[0].growth):
                yield f"memory of {name} cannot be judged: {len(own)} incarnations, expected one that lives throughout"

    def _kept(self) -> Iterator[str]:
        for (name, what), counts in self.held.items():
            for calm, count in enumerate(counts):
                if isnan(count):
                    yield f"{name}: {what} could not be counted in calm {calm}"
                elif count > counts[0]:
                    yield f"{name} has {count:.0f} {what} in calm {calm}: expected {counts[0]:.0f}, as in the first one"
