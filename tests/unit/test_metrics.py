"""Histograms that estimate quantiles well, and counters that exist at 0 before the first event."""

import asyncio
import random
from itertools import pairwise
from math import exp, inf, isnan, log

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from router.process.metrics import Histogram, Metric, Metrics

JOBS = Metric("herdless_jobs_total", "Jobs by pool and outcome", "counter", ("pool", "outcome"))
SERVED_TWICE: dict[tuple[str, ...], float] = {("slow", "served"): 2}
SERVED_NINE_TIMES: dict[tuple[str, ...], float] = {("slow", "served"): 9}


def samples(metrics):
    """Scrape as Prometheus does: {(name, sorted labels): value}."""
    body, _ = metrics.exposition()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(body.decode())
        for sample in family.samples
    }


def test_the_bounds_are_multiples_of_the_mean_and_close_together():
    bounds = Histogram(0.1).bounds
    assert bounds[0] == pytest.approx(0.01 * 0.1)
    assert bounds[-1] == pytest.approx(100 * 0.1)
    assert all(1 < high / low <= 1.5 for low, high in pairwise(bounds))


def test_a_value_on_a_bound_belongs_below_it_and_zero_is_apart():
    histogram = Histogram(1.0)
    for value in (0.0, -1e-9, 1e-6, 0.01, 1.0, 1.0000001, 100.0, 1e9):
        histogram.observe(value)
    below = dict(histogram.buckets())
    assert histogram.zeros == 2
    assert below[0.0] == 2
    assert below[0.01] == 4  # the two zeros, 1e-6 and 0.01 itself
    assert below[1.0] == 5
    assert below[1.334] == 6  # 10 ** (1/8) with four digits
    assert below[100.0] == 7
    assert below[inf] == histogram.count == 8
    assert histogram.sum == pytest.approx(1e-6 + 0.01 + 1 + 1.0000001 + 100 + 1e9)


@pytest.mark.parametrize("mean", [0.002, 0.1, 1.0, 7.3])
def test_quantiles_of_an_exponential_sample_are_near_the_truth(mean):
    rng = random.Random(53)
    histogram = Histogram(mean)
    for _ in range(50_000):
        histogram.observe(rng.expovariate(1 / mean))
    for q in (0.5, 0.95, 0.99):
        truth = -mean * log(1 - q)  # the inverse of 1 - exp(-x / mean)
        assert histogram.quantile(q) == pytest.approx(truth, rel=0.08)


def test_quantiles_are_near_the_truth_wherever_they_fall_in_their_bucket():
    # Not a sample but the law itself: each bucket gets its share of 100,000 observations. The law's mean moves
    # through 0.1 to 20 times the histogram's, so that each quantile visits all places of its bucket.
    for step in range(25):
        mean = 0.1 * 200 ** (step / 24)
        histogram = Histogram(1.0)
        for low, high in pairwise((0.0, *histogram.bounds, 1e9)):
            for _ in range(round(1e5 * (exp(-low / mean) - exp(-high / mean)))):
                histogram.observe(high)
        for q in (0.5, 0.95, 0.99):
            assert histogram.quantile(q) == pytest.approx(-mean * log(1 - q), rel=0.05)


def test_zero_waits_pull_the_quantiles_to_zero():
    histogram = Histogram(1.0)
    for value in [0.0] * 80 + [2.0] * 20:
        histogram.observe(value)
    assert histogram.quantile(0.5) == histogram.quantile(0.8) == 0.0
    # 2.0 lies between the bounds 1.778 and 2.371, and the 20 observations spread evenly over that.
    assert histogram.quantile(0.9) == pytest.approx(1.778 + 0.5 * (2.371 - 1.778))


def test_quantiles_at_the_edges():
    histogram = Histogram(1.0)
    assert isnan(histogram.quantile(0.5))
    histogram.observe(1e6)
    assert histogram.quantile(0.5) == 100.0
    with pytest.raises(ValueError, match=r"from 0 to 1, found 1\.5"):
        histogram.quantile(1.5)


@pytest.mark.parametrize("mean", [0.0, -1.0, inf, float("nan")])
def test_a_histogram_needs_a_positive_mean(mean):
    with pytest.raises(ValueError, match="expected a positive number"):
        Histogram(mean)


def test_declared_label_sets_exist_at_zero_and_others_appear_when_they_come():
    counts: dict[tuple[str, ...], int] = {}
    metrics = Metrics(process=False)
    metrics.add(JOBS, lambda: counts, [("slow", "served"), ("slow", "blocked")])

    def key(pool, outcome):
        return ("herdless_jobs_total", (("outcome", outcome), ("pool", pool)))

    assert samples(metrics) == {key("slow", "served"): 0, key("slow", "blocked"): 0}
    counts["slow", "served"] = 3
    counts["fast", "served"] = 1
    assert samples(metrics) == {
        key("slow", "served"): 3,
        key("slow", "blocked"): 0,
        key("fast", "served"): 1,
    }


def test_values_without_labels_and_with_one():
    metrics = Metrics(process=False)
    metrics.add(Metric("herdless_servers", "Servers", "gauge"), lambda: 7)
    messages = Metric("herdless_messages_total", "Messages by kind", "counter", ("kind",))
    metrics.add(messages, lambda: {"pull": 5}, [("pull",), ("withdraw",)])
    assert samples(metrics) == {
        ("herdless_servers", ()): 7,
        ("herdless_messages_total", (("kind", "pull"),)): 5,
        ("herdless_messages_total", (("kind", "withdraw"),)): 0,
    }


def test_a_histogram_is_exposed_as_prometheus_wants_it():
    histogram = Histogram(1.0)
    metrics = Metrics(process=False)
    waiting = Metric("herdless_waiting_seconds", "Waiting time", "histogram", ("pool",))
    metrics.add(waiting, lambda: {"slow": histogram})
    found = samples(metrics)
    assert len(found) == 33 + 2 + 2  # bounds, zero and infinity; sum and count
    assert set(found.values()) == {0}
    for value in (0.0, 0.5, 0.5, 2000.0):
        histogram.observe(value)
    found = samples(metrics)
    assert found["herdless_waiting_seconds_bucket", (("le", "0.0"), ("pool", "slow"))] == 1
    assert found["herdless_waiting_seconds_bucket", (("le", "0.5623"), ("pool", "slow"))] == 3
    assert found["herdless_waiting_seconds_bucket", (("le", "100.0"), ("pool", "slow"))] == 3
    assert found["herdless_waiting_seconds_bucket", (("le", "+Inf"), ("pool", "slow"))] == 4
    assert found["herdless_waiting_seconds_count", (("pool", "slow"),)] == 4
    assert found["herdless_waiting_seconds_sum", (("pool", "slow"),)] == 2001


def test_both_formats_of_prometheus_are_spoken():
    metrics = Metrics(process=False)
    metrics.add(JOBS, lambda: SERVED_TWICE)
    metrics.add(Metric("herdless_sojourn_seconds", "Sojourn time", "histogram"), lambda: Histogram(1.0))
    _, content_type = metrics.exposition()
    assert content_type.startswith("text/plain")
    body, content_type = metrics.exposition("application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    names = [family.name for family in parse_openmetrics(body.decode())]  # raises when it is malformed
    assert names == ["herdless_jobs", "herdless_sojourn_seconds"]


def test_the_basics_of_the_process_are_there_and_registries_are_apart():
    first, second = Metrics(), Metrics()
    first.add(JOBS, lambda: SERVED_TWICE)
    second.add(JOBS, lambda: SERVED_NINE_TIMES)
    assert {2, 9}.isdisjoint(samples(Metrics(process=False)).values())
    found = samples(first)
    assert found["herdless_jobs_total", (("outcome", "served"), ("pool", "slow"))] == 2
    assert found["process_cpu_seconds_total", ()] > 0
    assert found["process_resident_memory_bytes", ()] > 1e6
    assert found["process_open_fds", ()] >= 3
    assert not any(name.startswith("python_") for name, _ in found)


@pytest.mark.parametrize(
    ("name", "kind", "labels", "message"),
    [
        ("herdless_jobs", "counter", (), 'ends in "_total"'),
        ("herdless_jobs_total", "gauge", (), 'ends in "_total"'),
        ("herdless-jobs_total", "counter", (), "found 'herdless-jobs_total'"),
        ("herdless_jobs_total", "counter", ("Pool",), "found 'Pool'"),
    ],
)
def test_a_metric_with_a_bad_name_is_refused(name, kind, labels, message):
    with pytest.raises(ValueError, match=message):
        Metric(name, "help", kind, labels)


def test_names_are_taken_once_and_label_sets_must_fit():
    metrics = Metrics(process=False)
    with pytest.raises(ValueError, match=r"each of \('pool', 'outcome'\), found \('slow',\)"):
        metrics.add(JOBS, dict, [("slow",)])
    metrics.add(JOBS, lambda: {"slow": 1})
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.add(JOBS, dict)
    with pytest.raises(ValueError, match=r"found \('slow',\)"):
        metrics.exposition()


def test_a_value_of_the_wrong_kind_is_called_by_its_metric():
    numbers, histograms = Metrics(process=False), Metrics(process=False)
    numbers.add(Metric("herdless_servers", "Servers", "gauge"), lambda: Histogram(1.0))
    with pytest.raises(TypeError, match="herdless_servers: expected a number, found a Histogram"):
        numbers.exposition()
    histograms.add(Metric("herdless_waiting_seconds", "Waiting", "histogram"), lambda: 3)
    with pytest.raises(TypeError, match="herdless_waiting_seconds: expected a Histogram, found 3"):
        histograms.exposition()


async def test_a_process_tells_how_many_tasks_it_has():
    metrics = Metrics()
    before = samples(metrics)["herdless_process_tasks", ()]
    sleepers = [asyncio.create_task(asyncio.sleep(60.0)) for _ in range(3)]
    assert samples(metrics)["herdless_process_tasks", ()] == before + 3
    for sleeper in sleepers:
        sleeper.cancel()
    await asyncio.gather(*sleepers, return_exceptions=True)
    assert samples(metrics)["herdless_process_tasks", ()] == before


def test_where_no_loop_runs_there_are_no_tasks():
    assert samples(Metrics())["herdless_process_tasks", ()] == 0
