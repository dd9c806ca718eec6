"""Stability of the shortest of d random servers."""

from __future__ import annotations

import re
from itertools import combinations
from math import comb

import pytest

from services.models.sampling_stability import sampling_stability
from services.scenario import parse_scenario
from services.simulator.run import simulate


def test_equal_servers_are_stable_up_to_load_one() -> None:
    for d, replacement in ((1, False), (2, False), (3, True)):
        found = sampling_stability([2.0] * 10, d, replacement)
        assert found.slowest == 10
        assert [found.arrival_rate, found.load] == pytest.approx([20.0, 1.0])


def test_two_speeds_of_golden_row_g59() -> None:
    # Both samples are slow with probability (50 · 49) / (100 · 99), and the slow ones serve 50 · 0.1 jobs a slot.
    found = sampling_stability([1.0] * 50 + [0.1] * 50, 2)
    assert found.arrival_rate == pytest.approx(5 * 99 / 24.5)
    assert found.load == pytest.approx(5 * 99 / 24.5 / 55) and found.slowest == 50
    assert sampling_stability([1.0] * 50 + [0.1] * 50, 100).load == pytest.approx(1.0)


@pytest.mark.parametrize("replacement", [False, True])
def test_no_other_set_of_servers_fails_before_the_slowest(replacement: bool) -> None:
    rates, d = [0.2, 3.0, 1.0, 0.5, 1.0, 0.7], 2
    limits = {}
    for count in range(1, 7):
        for servers in combinations(range(6), count):
            inside = (count / 6) ** d if replacement else comb(count, d) / comb(6, d)
            if inside:
                limits[servers] = sum(rates[server] for server in servers) / inside
    assert sampling_stability(rates, d, replacement).arrival_rate == pytest.approx(min(limits.values()), rel=1e-12)


@pytest.mark.parametrize(("load", "stable"), [(0.30, True), (0.44, False)])
@pytest.mark.parametrize("time", ["continuous", "slotted"])
def test_queues_of_a_simulation_grow_beyond_the_limit_only(load: float, stable: bool, time: str) -> None:
    # Ten servers of rate 1 and ten of 0.1: both samples are slow with probability 90/380, so the limit is at
    # 1 / (90/380) / 11 = 0.384 of the capacity.
    assert sampling_stability([1.0] * 10 + [0.1] * 10, 2).load == pytest.approx(380 / 90 / 11)
    text = f"""
    name = "x"
    policy.name = "power_of_d"
    routers.count = 2
    pools = [{{name = "fast", servers = 10, rate = 1.0}}, {{name = "slow", servers = 10, rate = 0.1}}]
    arrivals.load = {load}
    run = {{warmup = 0, duration = 4000, time = "{time}"}}
    """
    records = simulate(parse_scenario(text, "x.toml")).records
    sojourn = records.ended - records.intended
    early, late = (
        sojourn[(records.intended >= start) & (records.intended < start + 1000)].mean() for start in (1000, 3000)
    )
    # Times in an overflowing queue grow with the time since empty: 3500 to 1500. It is only some of the jobs that go
    # there, but at such an overload the others take no time to speak of.
    assert (late / early < 1.25) if stable else (late / early > 1.6), late / early


@pytest.mark.parametrize(
    ("rates", "d", "message"),
    [
        ([], 1, "rates = [], but at least one is needed, all finite and above 0"),
        ([1.0, 0.0], 1, "rates = [1.0, 0.0], but at least one is needed"),
        ([1.0], 2, "d = 2 of 1 servers: choose 1 <= d <= 1"),
    ],
)
def test_arguments_out_of_range_are_named(rates: list[float], d: int, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        sampling_stability(rates, d)
