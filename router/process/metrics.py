"""Metrics for Prometheus: hot paths count in plain integers, which are read only when somebody scrapes.

requests = Metric("herdless_requests_total", "Requests by outcome", "counter", ("outcome",))
metrics = Metrics()
metrics.add(requests, lambda: counts_by_outcome, label_sets=[("served",), ("blocked",)])
body, content_type = metrics.exposition(accept)
"""

import asyncio
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from typing import Literal

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

Labels = tuple[str, ...]
Values = float | Mapping[Labels, float] | Mapping[str, float]

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Histogram:
    """Counts observations in fixed buckets, fast: one binary search and three additions.

    Shape: zero apart (its own bucket, `le="0.0"`), then the bounds 0.01, …, 100 times `mean`, eight to a
        factor of ten, so that each is 1.33 times the one before; then everything above.
    Assumes: percentiles are read by linear interpolation inside a bucket, as Prometheus does it. Then the
        50th, 95th and 99th of an exponential law are within 5% of the truth for means of 0.1 to 20 times `mean`.

    Args:
        mean: The size that the bounds are multiples of, usually the mean service time; in the unit observed.

    Raises:
        ValueError: `mean` is not a positive number.
    """

    __slots__ = ("_counts", "bounds", "sum", "zeros")

    def __init__(self, mean: float) -> None:
        if not 0 < mean < inf:
            raise ValueError(f"mean of a histogram: expected a positive number, found {mean!r}")
        # Four digits keep the label `le` short.
        self.bounds: tuple[float, ...] = tuple(float(f"{mean * 10 ** (k / 8):.4g}") for k in range(-16, 17))
        self._counts = [0] * (len(self.bounds) + 1)
        self.zeros = 0
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one observation; what is not positive counts as zero."""
        if value > 0:
            self._counts[bisect_left(self.bounds, value)] += 1
            self.sum += value
        else:
            self.zeros += 1

    @property
    def count(self) -> int:
        """How many observations there were, zeros included."""
        return self.zeros + sum(self._counts)

    def buckets(self) -> list[tuple[float, int]]:
        """List (upper bound, observations up to it), from bound 0 to infinity."""
        return list(zip((0.0, *self.bounds, inf), accumulate([self.zeros, *self._counts]), strict=True))

    def quantile(self, q: float) -> float:
        """Estimate a quantile by linear interpolation inside its bucket, as Prometheus does.

        Returns:
            The estimate; the highest bound when it lies beyond that; NaN when nothing was observed.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"quantile: expected a number from 0 to 1, found {q!r}")
        buckets = self.buckets()
        rank = q * buckets[-1][1]
        if buckets[-1][1] == 0:
            return float("nan")
        if rank <= self.zeros:
            return 0.0
        for (low, below), (high, up_to) in pairwise(buckets):
            if rank <= up_to and high < inf:
                return low + (high - low) * (rank - below) / (up_to - below)
        return self.bounds[-1]


Histograms = Histogram | Mapping[Labels, Histogram] | Mapping[str, Histogram]

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is: its name, its meaning, its kind, and the names of its labels.

    Raises:
        ValueError: The name or a label breaks the rules: small letters, digits and underscores; a counter
            ends in `_total`, and nothing else does.
    """

    name: str
    help: str
    kind: Kind
    labels: Labels = ()

    def __post_init__(self) -> None:
        for word in (self.name, *self.labels):
            if not _NAME.fullmatch(word):
                raise ValueError(f"metric {self.name!r}: expected small letters, digits and _, found {word!r}")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f'metric {self.name!r} is a {self.kind}: a counter ends in "_total", nothing else does')


TASKS = Metric("herdless_process_tasks", "asyncio tasks that are there, that of the scrape included", "gauge")
"""Of every process, and in no catalogue."""


class Metrics:
    """The metrics of one process, in a registry of its own.

    Args:
        process: Also show the basics of the process: CPU seconds, memory, open files, tasks.

    Attributes:
        catalogue: All metrics that were added, in order.
    """

    def __init__(self, *, process: bool = True) -> None:
        self.catalogue: list[Metric] = []
        self._registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self._registry)
            self._registry.register(_Reader(TASKS, _tasks, ()))

    def add(self, metric: Metric, read: Callable[[], Values | Histograms], label_sets: Iterable[Labels] = ()) -> None:
        """Show a metric from now on.

        Args:
            metric: What it is.
            read: Called at each scrape. Gives one value, or a mapping from label values to values; with a
                single label the key may be the bare string.
            label_sets: The label values that are shown from the start, as 0 until `read` knows them: a first
                increment is lost to `rate()` when the series did not exist before it. Those of a histogram
                must all be given by `read`, because only it knows the bounds.

        Raises:
            ValueError: The name is taken, or a label set has not one value for each label.
        """
        declared = tuple(label_sets)
        for key in declared:
            _check(metric, key)
        self._registry.register(_Reader(metric, read, declared))
        self.catalogue.append(metric)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Write all metrics down.

        Args:
            accept: The request's `Accept` header: Prometheus asks for its newer format in it.

        Returns:
            The body and the value of the `Content-Type` header.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Reader:
    """Reads the values of one metric at scrape time: a collector in the sense of prometheus_client."""

    def __init__(self, metric: Metric, read: Callable[[], Values | Histograms], declared: tuple[Labels, ...]) -> None:
        self._metric = metric
        self._read = read
        self._declared = declared

    def describe(self) -> list[Family]:
        """Name the metric without reading it: the registry asks when it is added."""
        return [self._family()]

    def collect(self) -> Iterator[Family]:
        """Read the values of now."""
        family = self._family()
        for key, value in self._values().items():
            _check(self._metric, key)
            if isinstance(family, HistogramMetricFamily):
                if not isinstance(value, Histogram):
                    raise TypeError(f"metric {self._metric.name}: expected a Histogram, found {value!r}")
                family.add_metric(key, [(_le(bound), count) for bound, count in value.buckets()], value.sum)
            else:
                if isinstance(value, Histogram):
                    raise TypeError(f"metric {self._metric.name}: expected a number, found a Histogram")
                family.add_metric(key, value)
        yield family

    def _values(self) -> dict[Labels, float | Histogram]:
        found = self._read()
        if not isinstance(found, Mapping):
            return {(): found}
        values: dict[Labels, float | Histogram] = {}
        if self._metric.kind != "histogram":
            values = dict.fromkeys(self._declared, 0.0)
        for key, value in found.items():
            values[(key,) if isinstance(key, str) else key] = value
        return values

    def _family(self) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
        metric = self._metric
        if metric.kind == "counter":
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        if metric.kind == "gauge":
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _tasks() -> float:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # no loop runs
        return 0.0


def _check(metric: Metric, key: Labels) -> None:
    if len(key) != len(metric.labels):
        raise ValueError(f"metric {metric.name}: expected one value for each of {metric.labels}, found {key}")


def _le(bound: float) -> str:
    return "+Inf" if bound == inf else str(bound)
