"""How often the tests are wrong, and what they find."""

from __future__ import annotations

import numpy as np
import pytest

from services.measure.quantities import Quantity
from services.measure.verdict import against, interval95, is_probability, limit, overall, paired

BATCHES = 40


def quantity(batches):
    return Quantity(np.asarray(batches.mean(axis=0)), batches)


def run_of(rng, memory=0.0, mean=0.0, spread=1.0):
    """Batches that resemble their neighbours: the value is a mean, and each batch keeps a part of the one before."""
    noise = rng.normal(size=BATCHES) * np.sqrt(1.0 - memory**2)
    batches = np.empty(BATCHES)
    last = rng.normal()
    for place in range(BATCHES):
        batches[place] = last = memory * last + noise[place]
    return quantity(mean + spread * batches)


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_alike_runs_are_called_different_as_rarely_as_promised(memory):
    rng = np.random.default_rng(17)
    wrong = 0
    for _ in range(1000):
        shared = run_of(rng, memory, spread=3.0).batches  # the jobs are the same in all of them
        live, *simulated = (quantity(shared + run_of(rng, memory).batches) for _ in range(5))
        wrong += paired("waiting_mean", live, simulated, 1, 0.01).word == "differ"
    # Binomial(1000, 0.01) exceeds 20 with probability 0.0015.
    assert wrong <= 20


def test_the_rate_of_false_alarms_is_shared_among_the_tests():
    rng = np.random.default_rng(18)
    live, *simulated = (run_of(rng, mean=5.0) for _ in range(5))
    one, many = (paired("waiting_mean", live, simulated, tests, 0.01).noise for tests in (1, 50))
    assert many > 1.3 * one


def test_a_difference_of_ten_percent_is_found():
    rng = np.random.default_rng(19)
    words = []
    for _ in range(100):
        simulated = [run_of(rng, mean=1.0, spread=0.06) for _ in range(4)]
        live = run_of(rng, mean=1.1, spread=0.06)
        words.append(paired("sojourn_mean", live, simulated, 30, 1e-3).word)
    # Standard error 0.06/√40·√(5/4) = 0.0106. At 1e-3 over 30 tests t is about 4.4, so 0.1 is beyond margin and noise
    # of 0.011 + 0.047 by four standard errors.
    assert words.count("differ") >= 95


def test_what_replications_share_is_no_noise():
    rng = np.random.default_rng(20)
    shared = run_of(rng, spread=10.0).batches
    live, *simulated = (quantity(100.0 + shared + run_of(rng, spread=0.1).batches) for _ in range(5))
    found = paired("jobs_in_system_mean", live, simulated, 1, 1e-3)
    assert found.word == "agree" and found.noise < 0.2


def test_without_differences_among_replications_the_live_runs_own_count():
    rng = np.random.default_rng(21)
    same = [quantity(np.full(BATCHES, 2.0))] * 4
    live = run_of(rng, mean=2.0, spread=0.2)
    found = paired("waiting_mean", live, same, 1, 1e-6)
    assert found.word != "differ" and found.noise > 3 * 0.2 / np.sqrt(BATCHES)


@pytest.mark.parametrize(
    ("name", "difference", "word"),
    [
        ("sojourn_mean", 0.009, "agree"),  # within 1% of 1
        ("sojourn_mean", 0.012, "differ"),
        ("wait_probability", 0.0049, "agree"),  # within 0.005
        ("wait_probability", 0.012, "differ"),  # beyond 0.01 of 1 too
    ],
)
def test_differences_within_the_margin_are_of_no_interest(name, difference, word):
    exact = [quantity(np.full(BATCHES, 1.0))] * 2
    assert paired(name, quantity(np.full(BATCHES, 1.0 + difference)), exact, 1, 1e-3).word == word


def test_too_little_data_is_said_with_how_much_longer_it_takes():
    rng = np.random.default_rng(22)
    live, *simulated = (run_of(rng, mean=1.0, spread=1.0) for _ in range(5))
    found = paired("sojourn_mean", live, simulated, 30, 1e-3)
    assert found.word == "not_enough_data"
    # Noise falls with the root of the length; 10% of the value must be seen.
    assert found.longer == pytest.approx((found.noise / (0.1 * max(live.value, 1e-9))) ** 2, rel=0.5)


def test_few_batches_are_too_little_data():
    few = quantity(np.full(20, 1.0))
    assert paired("sojourn_mean", few, [few, few], 1, 1e-3).word == "not_enough_data"


def test_an_uncertainty_that_is_unknown_allows_no_verdict():
    unknown = Quantity(np.asarray(1.0), np.full(BATCHES, np.nan))
    known = quantity(np.full(BATCHES, 1.0))
    assert paired("sojourn_p99", unknown, [known, known], 1, 1e-3).word == "not_compared"
    assert against("sojourn_p99", unknown, 1.0, 1, 1e-3).word == "not_compared"
    low, high = interval95(unknown)
    assert np.isnan(low) and np.isnan(high)


def test_an_exact_value_is_met_and_a_wrong_one_is_not():
    rng = np.random.default_rng(23)
    found = run_of(rng, memory=0.3, mean=2.0, spread=0.1)
    assert against("sojourn_mean", found, 2.0, 20, 1e-3).word == "agree"
    assert against("sojourn_mean", found, 2.2, 20, 1e-3).word == "differ"


def test_a_zero_that_a_model_computes_is_zero():
    # Servers without room to wait: nobody waits, and a chain's difference of two sums leaves a few roundings.
    nobody_waits = Quantity(np.array(0.0), np.zeros(40))
    assert against("waiting_mean", nobody_waits, 8e-16, 1, 1e-3).word == "agree"
    assert against("waiting_mean", nobody_waits, 1e-9, 1, 1e-3).word == "differ"


def test_a_variance_that_is_small_by_chance_is_no_surer_for_that():
    found = run_of(np.random.default_rng(26), mean=1.0, spread=0.2)
    plain = against("jobs_in_system_mean", found, 2.0, 1, 1e-3).noise
    assert against("jobs_in_system_variance", found, 2.0, 1, 1e-3).noise == pytest.approx(plain * 2.0 / found.value)
    assert against("jobs_in_system_variance", found, 0.5, 1, 1e-3).noise == pytest.approx(plain)
    high = quantity(np.full(BATCHES, 2.0))
    raised = paired("jobs_in_system_variance", high, [found, run_of(np.random.default_rng(27), mean=1.0)], 1, 1e-3)
    usual = paired("jobs_in_system_mean", high, [found, run_of(np.random.default_rng(27), mean=1.0)], 1, 1e-3)
    assert raised.noise > 1.5 * usual.noise


def test_intervals_cover_what_they_should():
    rng = np.random.default_rng(24)
    covered = 0
    for _ in range(1000):
        low, high = interval95(run_of(rng, memory=0.5))
        covered += bool(low <= 0.0 <= high)
    # One series of 40 knows little of its memory, so that 95% are nearly but not quite met.
    assert 890 <= covered <= 990


def test_a_mean_of_its_own_does_not_hide_the_memory_of_a_series():
    rng = np.random.default_rng(28)
    missed = 0
    for _ in range(2000):
        low, high = interval95(run_of(rng, memory=0.7))
        missed += not low <= 0.0 <= high
    # Nominally 5%; with the bias left in, about 10%. The standard deviation of the share found is 0.6%.
    assert missed <= 0.085 * 2000


def test_an_interval_of_a_list_is_a_list():
    rng = np.random.default_rng(25)
    low, high = interval95(quantity(rng.normal(size=(BATCHES, 3))))
    assert low.shape == high.shape == (3,) and (low < high).all()


def test_a_limit_shows_the_gap():
    found = limit(0.80, 0.68)
    assert found.word == "limit" and found.difference == pytest.approx(0.12)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ({"sojourn_mean": "agree", "detail": "differ"}, "differ"),
        ({"sojourn_mean": "agree", "detail": "not_enough_data"}, "agree"),
        ({"sojourn_mean": "not_enough_data", "detail": "agree"}, "not_enough_data"),
        ({"sojourn_mean": "limit"}, "limit"),
        ({"detail": "agree"}, "not_compared"),
    ],
)
def test_one_word_for_a_run(words, word):
    assert overall(words, ["sojourn_mean"]) == word


def test_which_quantities_are_probabilities():
    names = ("wait_probability", "dispatch.random", "utilisation.slow", "job_share.slow", "queue_tail")
    assert all(is_probability(name) for name in names)
    assert not is_probability("waiting_mean") and not is_probability("messages.pull")
