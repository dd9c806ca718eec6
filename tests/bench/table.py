"""How measured ratios are printed, and how two things are measured fairly on a machine that others use too."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Ratio:
    """One line of the table: first over second, with what they were."""

    name: str
    value: float
    target: str
    first: str
    second: str


def interleaved(first: Callable[[], float], second: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Run both in turns, A B A B …; the median of each."""
    results: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for place, measure in enumerate((first, second)):
            gc.collect()
            results[place].append(measure())
    return median(results[0]), median(results[1])


def timed(work: Callable[[], int]) -> float:
    """Things done per second of processor time, as `work` returns how many it has done."""
    began = time.process_time()
    done = work()
    return done / (time.process_time() - began)


def show(ratios: list[Ratio]) -> None:
    """Print the table."""
    width = max(len(ratio.name) for ratio in ratios)
    for ratio in ratios:
        print(
            f"{ratio.name:{width}}  {ratio.value:7.2f}  {ratio.target:10}  {ratio.first} / {ratio.second}", flush=True
        )
