"""Arrivals in bursts: mean rate, index of dispersion, states, and what fixes the jobs."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from scipy import stats

from router.protocol.errors import SettingsError
from services.loadgen.arrivals import Floats, mmpp, poisson
from services.loadgen.workload import draw_workload
from services.scenario import parse_scenario
from services.solver import solve

RATE, BURST, SHARE, CYCLE = 20.0, 5.0, 0.2, 10.0

SCENARIO = """
name = "x"
policy.name = "random"
pools = [{name = "p", servers = 10}]
arrivals = {law = "mmpp", burst = 5, share = 0.2, cycle = 10, rate_total = 5.0}
run = {warmup = 10, duration = 90}
"""


def drawn(horizon: float, seed: int = 1, rate: float = RATE, burst: float = BURST) -> Floats:
    return mmpp(rate, burst, SHARE, CYCLE, horizon, (Random(f"{seed}:jobs"), Random(f"{seed}:states")))


def dispersion(window: float) -> float:
    """Variance ÷ mean of the number of jobs in a window.

    Given the rate process R, the number N is Poisson with mean M = ∫ R over the window w, so Var N = E M + Var M.
    R takes the values b r (share s of the time) and r; its two rates of change are 1 / (s c) and 1 / ((1 − s) c), so
    its covariance is K exp(−a t) with K = s (1 − s) (b − 1)² r² and a = 1 / (s (1 − s) c). Hence
    Var M = ∫∫ K exp(−a |t − u|) = (2 K / a) (w − (1 − exp(−a w)) / a), and E M = λ w with λ = r (1 + s (b − 1)).
    """
    calm_rate = RATE / (1 + SHARE * (BURST - 1))
    covariance = SHARE * (1 - SHARE) * (BURST - 1) ** 2 * calm_rate**2
    decay = 1 / (SHARE * (1 - SHARE) * CYCLE)
    variance = 2 * covariance / decay * (window - (1 - math.exp(-decay * window)) / decay)
    return 1 + variance / (RATE * window)


def test_the_formula_by_hand() -> None:
    # r = 20 / 1.8; K = 0.16·16·r² = 316.05, 1 / a = 1.6: 1 + 2·316.05·1.6 / 20 = 51.568 in long windows.
    assert dispersion(1e9) == pytest.approx(51.568, abs=1e-3)
    assert dispersion(1e-5) == pytest.approx(1.0, abs=1e-3)


def test_mean_rate_is_the_rate_asked_for() -> None:
    horizon, runs = 1_000.0, 60
    jobs = np.array([len(drawn(horizon, seed)) for seed in range(runs)])
    error = math.sqrt(dispersion(horizon) * RATE * horizon / runs)
    assert abs(jobs.mean() - RATE * horizon) <= 4.0 * error


def test_it_is_stationary_from_the_start() -> None:
    # The first time unit alone: a burst comes first with probability `share`, not always or never.
    runs = 400
    jobs = np.array([len(drawn(1.0, seed)) for seed in range(runs)])
    assert abs(jobs.mean() - RATE) <= 4.0 * math.sqrt(dispersion(1.0) * RATE / runs)


@pytest.mark.parametrize("window", [0.5, 2.0, 20.0])
def test_index_of_dispersion(window: float) -> None:
    found = []
    for seed in range(60):
        counts = np.histogram(drawn(1_000.0, seed), bins=np.arange(0.0, 1_000.0 + window / 2, window))[0]
        # About the known mean, so that the estimate has no bias.
        found.append(((counts - RATE * window) ** 2).mean() / (RATE * window))
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert error < 0.1 * dispersion(window)
    assert abs(np.mean(found) - dispersion(window)) <= 4.0 * error


def test_the_share_of_time_in_a_burst() -> None:
    # Hardly anybody comes when it is calm, so the time is that of the windows of 0.05 with a job in them. A burst of
    # length l meets l / 0.05 + 1 of them, and there is one a cycle: 0.2 + 0.05 / 10 = 0.205. The share of time of an
    # alternating process has variance 2 s² (1 − s)² c / horizon.
    horizon = 10_000.0
    instants = drawn(horizon, rate=200.0, burst=1e6)
    windows = np.unique((instants / 0.05).astype(int)).size
    error = math.sqrt(2.0 * (SHARE * (1 - SHARE)) ** 2 * CYCLE / horizon)
    assert abs(windows * 0.05 / horizon - 0.205) <= 4.0 * error


def test_jobs_are_in_order_and_below_the_horizon() -> None:
    instants = drawn(1_000.0)
    assert instants.dtype == np.float64
    assert instants[0] >= 0.0 and instants[-1] < 1_000.0
    assert np.all(np.diff(instants) >= 0.0)


@pytest.mark.parametrize("horizon", [0.0, 1e-9, 3.0, 100.0, 327.68, 999.0])
def test_a_longer_horizon_begins_with_the_same_jobs(horizon: float) -> None:
    longest = drawn(1_000.0)
    assert np.array_equal(drawn(horizon), longest[longest < horizon])


def test_many_chunks_of_states_join_without_a_seam() -> None:
    # 4,096 states are drawn at a time; with a cycle of 0.01 that is 20 time units.
    streams = Random("1:jobs"), Random("1:states")
    instants = mmpp(100.0, 3.0, 0.5, 0.01, 1_000.0, streams)
    # The states change so fast that they average out: IDC = 1 + 2·100·0.01·(2·0.25 / 2)² = 1.125.
    assert abs(instants.size - 100_000) <= 4.0 * math.sqrt(1.125 * 100_000)
    assert stats.kstest(instants / 1_000.0, "uniform").pvalue > 0.001


def test_equal_rates_are_a_poisson_process() -> None:
    instants = drawn(100.0, burst=1.0)
    unit = poisson(1.0, RATE * 100.0, Random("1:jobs"))
    assert np.allclose(instants, unit / RATE, rtol=1e-9, atol=1e-9)


def test_the_streams_decide() -> None:
    assert np.array_equal(drawn(100.0), drawn(100.0))
    assert not np.array_equal(drawn(100.0)[:50], drawn(100.0, seed=2)[:50])


def test_nothing_to_do() -> None:
    assert drawn(0.0).size == 0
    assert drawn(10.0, rate=0.0).size == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 2.0, 0.5, 1.0, 10.0), "arrival rate = -1.0"),
        ((1.0, 0.5, 0.5, 1.0, 10.0), "burst = 0.5, share = 0.5, cycle = 1.0: expected burst >= 1"),
        ((1.0, 2.0, 1.0, 1.0, 10.0), "share = 1.0"),
        ((1.0, 2.0, 0.5, math.inf, 10.0), "cycle = inf"),
        ((1.0, 2.0, 0.5, 1e-9, 10.0), r"10 time units are 1e\+10 cycles of 1e-09"),
        ((1e9, 2.0, 0.5, 1.0, 10.0), r"1e\+10 jobs, more than"),
    ],
)
def test_what_cannot_be_drawn(arguments: tuple[float, float, float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mmpp(*arguments, (Random(1), Random(2)))


# -- in a scenario ---------------------------------------------------------------------------------


def test_a_scenario_draws_them_from_streams_of_its_own() -> None:
    found = parse_scenario(SCENARIO, "x.toml")
    expected = mmpp(5.0, 5.0, 0.2, 10.0, 100.0, (Random("1:arrivals:instants"), Random("1:arrivals:states")))
    assert np.array_equal(draw_workload(found).instants, expected)
    steady = draw_workload(parse_scenario(SCENARIO, "x.toml", ["arrivals.law=poisson"]))
    assert np.allclose(steady.sizes[:50], draw_workload(found).sizes[:50], rtol=0, atol=0)


def test_too_many_cycles_name_the_key() -> None:
    with pytest.raises(SettingsError, match=r"^run\.duration = 90: 100 time units are 1e\+11 cycles of 1e-09"):
        draw_workload(parse_scenario(SCENARIO, "x.toml", ["arrivals.cycle=1e-9"]))


def test_no_model_is_asked() -> None:
    with pytest.raises(SettingsError, match=r'arrivals\.law = "mmpp", and every model needs Poisson arrivals'):
        solve(parse_scenario(SCENARIO, "x.toml"))
