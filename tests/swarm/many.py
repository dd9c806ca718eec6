"""Many cases, on several cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.swarm.cases import draw
from tests.swarm.run import violation

CHUNK = 20


def failures(seeds: Sequence[int], workers: int) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Run the cases of these seeds; as they are done, how many, and which of them violate what."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    if workers == 1:
        yield from map(_run, chunks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(_run, chunks)


def cores() -> int:
    """How many cores there are."""
    return os.cpu_count() or 1


def _run(seeds: Sequence[int]) -> tuple[int, list[tuple[int, str]]]:
    found = [(seed, violation(draw(seed))) for seed in seeds]
    return len(seeds), [(seed, what) for seed, what in found if what]
