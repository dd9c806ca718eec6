"""Random splits, shortest queues and expected delays against closed forms and exact chains."""

from __future__ import annotations

import pytest

from tests.simulation.golden import Case, check, rows

ONE = '{name = "a", servers = 1}'
TWO = '{name = "a", servers = 2}'
THREE = '{name = "a", servers = 3}'
UNEQUAL = '{name = "slow", servers = 1}, {name = "fast", servers = 1, rate = 4.0}'
RANDOM = 'name = "random"'
JSQ = 'name = "jsq"'
JIQ = 'name = "pull"'
TWO_CHOICES = 'name = "power_of_d"'
WITH_REPLACEMENT = 'name = "power_of_d", replacement = true'


def mean(value: float) -> dict[str, float]:
    """The golden table's T: mean sojourn of admitted jobs."""
    return {"sojourn_mean": value}


def erlang_b(slots: int, offered: float, blocking: float, jobs: int) -> Case:
    """One station of Erlang's loss system: utilisation = offered (1 − blocking) / slots, by Little's law."""
    station = f'{{name = "a", servers = 1, slots = {slots}, capacity = {slots}}}'
    expected = {"block_probability": blocking, "utilisation.a": offered * (1 - blocking) / slots, "sojourn_mean": 1.0}
    return Case("G5", RANDOM, station, f"rate_total = {offered}", expected, jobs, error=0.03)


def central_queue(slots: int, sojourn: float, jobs: int, error: float) -> Case:
    """M/M/n as one server of n slots."""
    station = f'{{name = "a", servers = 1, slots = {slots}}}'
    return Case("G3", RANDOM, station, "load = 0.9", mean(sojourn), jobs, error)


def full_of_two(policy: str, blocking: float) -> Case:
    """Two servers that hold two jobs each."""
    pool = '{name = "a", servers = 2, capacity = 2}'
    return Case("G17", policy, pool, "load = 0.9", {"block_probability": blocking}, 30_000)


QUICK = [
    Case("G2", RANDOM, '{name = "a", servers = 1, capacity = 5}', "load = 0.9",
         {"block_probability": 0.12602255, "sojourn_mean": 2.79028595}, 60_000),
    erlang_b(5, 4, 0.19906687, 60_000),
    erlang_b(10, 8, 0.12166106, 60_000),
    erlang_b(20, 18, 0.10921285, 60_000),
    # The supermarket's limit is missed by about 0.4% at 100 servers, and by 1/n of that at n times as many.
    Case("G8", TWO_CHOICES, '{name = "a", servers = 500}', "load = 0.5", mean(1.265686), 40_000,
         error=0.01, bias=0.002, warmup=20),
    Case("G8", TWO_CHOICES, '{name = "a", servers = 500}', "load = 0.7", mean(1.614454), 60_000,
         error=0.01, bias=0.002, warmup=30),
    Case("G11", JSQ, TWO, "load = 0.5", mean(1.42632075), 60_000, error=0.01),
    Case("G11", JSQ, TWO, "load = 0.8", mean(2.95573662), 150_000, error=0.02),
    Case("G13", TWO_CHOICES, THREE, "load = 0.7", mean(1.88479236), 80_000, error=0.015),
    Case("G14", WITH_REPLACEMENT, THREE, "load = 0.7", mean(2.08318883), 80_000, error=0.015),
    full_of_two(RANDOM, 0.29889299),
    full_of_two(JIQ, 0.22765898),
    full_of_two(JSQ, 0.19468265),
    # Load 0.8. The exact values of the two rules for ties differ by 8%, those of rows G19 and G20 by more.
    Case("G19", JSQ, UNEQUAL, "rate_total = 4.0", mean(1.47379490), 80_000, error=0.03),
    Case("G19", f'{JSQ}, ties = "fastest"', UNEQUAL, "rate_total = 4.0", mean(1.35329681), 80_000, error=0.03),
    Case("G19 and G20", 'name = "sed", ties = "fastest"', UNEQUAL, "rate_total = 4.0",
         {"sojourn_mean": 1.25731755, "utilisation.slow": 0.51452671, "utilisation.fast": 0.87136832}, 80_000,
         error=0.03),
]  # fmt: skip

LONG = [
    # M/M/1 at load 0.9: the mean of N sojourns alone has a relative standard error of about √(360 / N).
    Case("G1", RANDOM, ONE, "load = 0.9", mean(10.0), 3_000_000, error=0.02),
    central_queue(2, 5.263158, 1_500_000, 0.02),
    central_queue(10, 1.668732, 1_000_000, 0.02),
    central_queue(100, 1.021694, 1_000_000, 0.01),
    erlang_b(100, 90, 0.02695738, 600_000),
    Case("G8", TWO_CHOICES, '{name = "a", servers = 1000}', "load = 0.8", mean(1.947363), 500_000,
         error=0.01, bias=0.002, warmup=60),
    Case("G8", TWO_CHOICES, '{name = "a", servers = 1000}', "load = 0.9", mean(2.614057), 1_000_000,
         error=0.01, bias=0.003, warmup=150),
    Case("G8", TWO_CHOICES, '{name = "a", servers = 1000}', "load = 0.95", mean(3.383046), 1_500_000,
         error=0.01, bias=0.006, warmup=400),
    Case("G11", JSQ, TWO, "load = 0.9", mean(5.47491282), 1_500_000),
    Case("G13", TWO_CHOICES, THREE, "load = 0.9", mean(4.27408704), 1_500_000),
    Case("G14", WITH_REPLACEMENT, THREE, "load = 0.9", mean(4.61790281), 1_500_000),
    Case("G15", JIQ, TWO, "load = 0.5", mean(1.5), 300_000, error=0.01),
    Case("G15", JIQ, TWO, "load = 0.8", mean(3.46153846), 1_000_000, error=0.01),
    Case("G15", JIQ, TWO, "load = 0.9", mean(6.78571429), 2_000_000),
    Case("G19", 'name = "weighted_random"', UNEQUAL, "rate_total = 4.0", mean(2.0), 3_000_000, error=0.01),
]  # fmt: skip


@pytest.mark.parametrize("case", rows(QUICK, LONG), ids=str)
def test_golden_row(case: Case) -> None:
    check(case)
