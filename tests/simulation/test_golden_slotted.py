"""Slotted time against closed forms and other simulations: LSQ and what it is compared with."""

from __future__ import annotations

import math

import pytest

from tests.simulation.golden import Case, check, rows
from tests.simulation.slotted import simulated

SLOTTED = 'run = {time = "slotted"}\n'
TEN_ROUTERS = f"{SLOTTED}routers = {{count = 10}}"
ALIKE = '{name = "a", servers = 100, rate = 0.2}'
TWO_SPEEDS = '{name = "fast", servers = 50, rate = 1.0}, {name = "slow", servers = 50, rate = 0.1}'
UPDATE = 'name = "lsq"'
IDLE = 'name = "lsq", refresh = "idle"'
SAMPLE = 'name = "lsq", refresh = "sample"'
WEIGHTED_SAMPLE = f'{SAMPLE}, weighted = true, rank = "present"'
SED = 'name = "sed", rank = "present"'
JSQ = 'name = "jsq"'
JSQ2 = 'name = "power_of_d"'
JIQ = 'name = "pull", stale = "keep", batch = "spread"'
WEIGHTED_RANDOM = 'name = "weighted_random"'


def homogeneous(policy: str, jobs: int, sojourn: tuple[float, float], error: float, **more: float) -> Case:
    """Row G57: a hundred servers of rate 0.2, load 0.9, ten routers: 18 jobs a slot. `more`: per job."""
    expected = {"sojourn_mean": sojourn} | {f"messages.{kind}": value for kind, value in more.items()}
    return Case("G57", policy, ALIKE, "load = 0.9", expected, jobs, error, more=TEN_ROUTERS)


def two_speeds(policy: str, jobs: int, sojourn: tuple[float, float], error: float, **more: float) -> Case:
    """Row G59: fifty servers of rate 1 and fifty of rate 0.1, load 0.9, ten routers: 49.5 jobs a slot."""
    expected = {"sojourn_mean": sojourn} | {f"messages.{kind}": value for kind, value in more.items()}
    return Case("G59", policy, TWO_SPEEDS, "load = 0.9", expected, jobs, error, more=TEN_ROUTERS)


QUICK = [
    homogeneous(UPDATE, 100_000, (10.692, 0.014), 0.01, total=0.897, report=0.897, probe=0.0),
    homogeneous(JSQ2, 60_000, (23.813, 0.05), 0.025),
    two_speeds(UPDATE, 100_000, (7.973, 0.010), 0.015, total=0.596),
    # Two messages to and from each of two servers, in each slot and for each router: 2·2·10 / 49.5 jobs.
    two_speeds(WEIGHTED_SAMPLE, 100_000, (9.191, 0.022), 0.015, total=40 / 49.5),
    # The formula of rows G51 and G53, where queues forget sooner: 1 + (0.5 + 2/2) / (2 · 0.5), and Little's law.
    Case("G51", WEIGHTED_RANDOM, '{name = "a", servers = 20, rate = 2.0}', "load = 0.5",
         {"sojourn_mean": 2.5, "jobs_in_system_mean": 30.0, "utilisation.a": 0.5}, 100_000, more=SLOTTED),
]  # fmt: skip

LONG = [
    homogeneous(UPDATE, 1_000_000, (10.692, 0.014), 0.005, total=0.897),
    homogeneous(IDLE, 1_000_000, (11.265, 0.05), 0.01, total=0.375),
    # 2·100 messages for each router with arrivals, 1 − exp(−1.8) of them, each of which has 1.8 jobs on average.
    homogeneous(JSQ, 1_000_000, (10.814, 0.03), 0.01, total=200 * (1 - math.exp(-1.8)) / 1.8),
    homogeneous(JIQ, 1_000_000, (12.350, 0.03), 0.01, total=0.3745),
    homogeneous(JSQ2, 600_000, (23.813, 0.05), 0.01, total=4 * (1 - math.exp(-1.8)) / 1.8),
    two_speeds(JSQ, 1_000_000, (8.867, 0.018), 0.01, total=200 * (1 - math.exp(-4.95)) / 4.95),
    two_speeds(SED, 1_000_000, (9.299, 0.018), 0.01),
    two_speeds(SAMPLE, 1_500_000, (19.995, 0.062), 0.01),
    two_speeds(WEIGHTED_SAMPLE, 1_000_000, (9.191, 0.022), 0.01),
    two_speeds(UPDATE, 1_000_000, (7.973, 0.010), 0.01, total=0.596),
    Case("G51", WEIGHTED_RANDOM, '{name = "a", servers = 20, rate = 2.0}', "load = 0.5",
         {"sojourn_mean": 2.5, "jobs_in_system_mean": 30.0}, 1_500_000, 0.005, more=SLOTTED),
    # A queue at load 0.9 forgets its past in a hundred slots, and those of rate 0.1 in two thousand.
    Case("G51", WEIGHTED_RANDOM, '{name = "a", servers = 1, rate = 10.0}', "load = 0.9",
         {"sojourn_mean": 6.5, "jobs_in_system_mean": 49.5}, 2_000_000, 0.03, more=SLOTTED),
    Case("G53", WEIGHTED_RANDOM, TWO_SPEEDS, "load = 0.9",
         {"sojourn_mean": 23.681818, "jobs_in_system_mean": 1122.75}, 4_500_000, 0.015, more=TEN_ROUTERS),
    homogeneous(WEIGHTED_RANDOM, 1_500_000, (55.5, 0.0), 0.015, total=0.0),
]  # fmt: skip


@pytest.mark.parametrize("case", rows(QUICK, LONG), ids=str)
def test_golden_row(case: Case) -> None:
    check(case, simulated)
