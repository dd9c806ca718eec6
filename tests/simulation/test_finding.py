"""Which policy for many routers: the comparison gives what rows G91 and G92 of the golden table say.

The rows were simulated elsewhere and come with 95% intervals, which the errors of both sides widen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from services.lab.contest import Contest
from services.lab.experiment import read_experiment
from services.lab.rivals import read_rivals, simulate_rivals
from services.measure.differences import half_width
from services.measure.verdict import FALSE_ALARMS

Known = Mapping[str, tuple[float, float]]

EQUAL: Known = {
    "least_requests:d=2:replacement=true": (4.195, 0.09),
    "least_requests:d=2": (4.13, 0.09),
    "least_requests": (3.376, 0.016),
    "pull": (3.77, 0.045),
    "pull:fallback=view": (2.164, 0.009),
    "lsq": (2.380, 0.011),
    "power_of_d:replacement=true": (2.875, 0.065),
    "jsq": (1.483, 0.033),
}
"""Row G91: mean sojourn times before twenty equal servers at load 0.9."""

TWO_SPEEDS: Known = {
    "least_requests": (4.762, 0.015),
    "lsq:rank=joined": (2.205, 0.007),
    "pull:fallback=view:order=fastest": (1.494, 0.006),
    "sed": (1.460, 0.023),
}
"""Row G92: the same before ten fast and ten slow servers at load 0.8."""

ALARMS = 1e-6 / 100
"""The chance that one value is called different although it is not."""


def compared(name: str, labels: list[str], duration: float, replications: int) -> Contest:
    """As `herdless compare --simulate` does it."""
    experiment = read_experiment(name, [f"run.duration={duration}", "run.warmup=400"])
    rivals = read_rivals(experiment, labels)
    outcomes = simulate_rivals(rivals, replications, FALSE_ALARMS, lambda stage, share: None)
    return Contest(experiment.scenario, "simulated", outcomes, 0.05)


def check_values(contest: Contest, known: Known, precision: float) -> None:
    """Hold each mean sojourn time against its known value; its 95% interval may be that wide, relative to it."""
    for outcome in contest.stable:
        label = outcome.rival.label
        value, half = known[label]
        batches = np.array([run["sojourn_mean"].batches for run in outcome.runs])
        found, own = contest.value(outcome, "sojourn_mean"), half_width(batches, 0.05)
        said = f"{label}: {found:.4g} ± {own:.2g}, known {value:.4g} ± {half:.2g}"
        assert own <= precision * value, f"{said}: too noisy"
        # The known half width is 1.96 standard errors.
        chance = math.hypot(half_width(batches, ALARMS), half * 5.73 / 1.96)
        assert abs(found - value) <= chance, f"{said}: chance explains {chance:.2g}"


def check_differences(contest: Contest, known: Known) -> None:
    """Hold the differences from the first policy, which are surer than the values: what the jobs share cancels."""
    base = contest.outcomes[0].rival.label
    for label, found in contest.differences.items():
        (value, half), (base_value, base_half) = known[label], known[base]
        off = found["sojourn_mean"].value - (value - base_value)
        # `half` is for a family at 5% in all, so a single one misses far less often than that; twice as wide it
        # misses in fewer than 1e-6 of all cases.
        chance = 2.0 * math.hypot(found["sojourn_mean"].half, 5.73 / 1.96 * math.hypot(half, base_half))
        assert abs(off) <= chance, f"{label} against {base}: {off:+.3g} off, chance explains {chance:.2g}"


def test_knowledge_counts_before_equal_servers() -> None:
    labels = ["least_requests", "pull:fallback=view", "lsq", "jsq"]
    contest = compared("finding", labels, 1500.0, 2)
    check_values(contest, EQUAL, 0.3)
    check_differences(contest, EQUAL)
    assert [outcome.rival.label for outcome in contest.ranking] == [
        "jsq",
        "pull:fallback=view",
        "lsq",
        "least_requests",
    ]
    assert contest.leaders == ["jsq"]
    assert {found["sojourn_mean"].word for found in contest.differences.values()} == {"less"}


def test_the_fallback_decides_before_servers_of_two_speeds() -> None:
    labels = ["least_requests", "lsq:rank=joined", "pull:fallback=view:order=fastest", "pull"]
    contest = compared("finding-two-speeds", labels, 2000.0, 2)
    check_values(contest, TWO_SPEEDS, 0.1)
    check_differences(contest, TWO_SPEEDS)
    assert [outcome.rival.label for outcome in contest.ranking] == labels[2::-1]
    random_fallback = contest.outcomes[-1]
    assert random_fallback.steady.state == "unstable" and random_fallback.steady.growth > 2.0


@pytest.mark.long
def test_all_values_before_equal_servers() -> None:
    contest = compared("finding", list(EQUAL), 20_000.0, 4)
    check_values(contest, EQUAL, 0.06)
    check_differences(contest, EQUAL)


@pytest.mark.long
def test_all_values_before_servers_of_two_speeds() -> None:
    contest = compared("finding-two-speeds", [*TWO_SPEEDS, "pull"], 20_000.0, 4)
    check_values(contest, TWO_SPEEDS, 0.03)
    check_differences(contest, TWO_SPEEDS)
    assert contest.outcomes[-1].steady.state == "unstable"
