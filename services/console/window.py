"""The quantities of the last seconds, from readings of counters; named as in a report."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from router.protocol.messages import CONTROL_KINDS
from services.console.shown import LATENESS, SOJOURN, Shown, buckets

WINDOW_S = 10.0
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Reading:
    """All processes at about one instant.

    Attributes:
        instant_s: On the monotonic clock of this process.
        routers, servers, generators: What each shows, by URL.
    """

    instant_s: float
    routers: Mapping[str, Shown]
    servers: Mapping[str, Shown]
    generators: Mapping[str, Shown] = field(default_factory=dict)


class Window:
    """Keeps the readings of the last seconds.

    Rule: a counter's gain is summed over the processes that are in the first reading and in the last one. One that
    was started anew between them, so that a counter of it has fallen, is left out.

    Args:
        time_unit_s: Seconds in a time unit.
        length_s: How far it reaches back.
    """

    def __init__(self, time_unit_s: float, length_s: float = WINDOW_S) -> None:
        self._time_unit_s = time_unit_s
        self._length_s = length_s
        self._readings: deque[Reading] = deque()

    def clear(self) -> None:
        """Forget all readings: policy or load has changed, and what was before would be mixed in."""
        self._readings.clear()

    def add(self, reading: Reading) -> None:
        """Add the newest reading; forget those that are too old."""
        readings = self._readings
        readings.append(reading)
        while len(readings) > 2 and readings[1].instant_s <= reading.instant_s - self._length_s:
            readings.popleft()

    @property
    def span_s(self) -> float:
        """From the first reading to the last."""
        return self._readings[-1].instant_s - self._readings[0].instant_s if self._readings else 0.0

    def values(self) -> dict[str, float]:
        """All quantities for which there is something to divide by."""
        if self.span_s <= 0.0:
            return {}
        first, last, span_s = self._readings[0], self._readings[-1], self.span_s
        jobs = _gain(first.routers, last.routers)
        values = self._of_jobs(jobs, span_s)
        sent = _gain(first.servers, last.servers)
        if jobs.get("jobs", 0.0) > 0.0:
            messages = _messages(jobs, sent)
            values |= {f"messages.{kind}": count / jobs["jobs"] for kind, count in messages.items()}
            values["messages.total"] = sum(messages.values()) / jobs["jobs"]
        return values | _utilisation(first, last, span_s)

    def rates(self) -> dict[str, dict[str, float]]:
        """By URL of each process: cores that it uses, and, of routers, jobs per second."""
        if self.span_s <= 0.0:
            return {}
        first, last, span_s = (_all(self._readings[0]), _all(self._readings[-1]), self.span_s)
        found = {}
        for url, now in last.items():
            gain = _gain({url: first[url]} if url in first else {}, {url: now})
            if gain:
                found[url] = {"jobs_per_s": gain.get("jobs", 0.0) / span_s, "cpu": gain["cpu_s"] / span_s}
        return found

    def lateness_p99_units(self) -> float:
        """How late one job in a hundred is sent, or later; 0: no generator is known, or nothing was sent."""
        if self.span_s <= 0.0:
            return 0.0
        gain = _gain(self._readings[0].generators, self._readings[-1].generators)
        return quantile(buckets(gain, LATENESS), 0.99) / self._time_unit_s

    def _of_jobs(self, gain: Mapping[str, float], span_s: float) -> dict[str, float]:
        if not gain:
            return {}
        values = {"jobs_per_s": gain["jobs"] / span_s}
        ended = sum(count for name, count in gain.items() if name.startswith("ends."))
        admitted, served = gain["admitted"], gain["served"]
        if ended > 0.0:
            values["wait_probability"] = (admitted - gain["zero_waits"]) / ended
            for word, outcome in (("block", "blocked"), ("abandon", "abandoned"), ("failed", "failed")):
                values[f"{word}_probability"] = gain[f"ends.{outcome}"] / ended
        if admitted > 0.0:
            values["waiting_mean"] = gain["waiting_s"] / admitted / self._time_unit_s
        if served > 0.0:
            values["sojourn_mean"] = gain["sojourn_s"] / served / self._time_unit_s
            sojourns = buckets(gain, SOJOURN)
            for percent in (50, 95, 99):
                values[f"sojourn_p{percent}"] = quantile(sojourns, percent / 100) / self._time_unit_s
        if gain["dispatches"] > 0.0:
            values["dispatch.random"] = gain["fallbacks"] / gain["dispatches"]
            values["dispatch.stale"] = gain["stale"] / gain["dispatches"]
        return values


def quantile(histogram: list[tuple[float, float]], q: float) -> float:
    """A quantile of a histogram, by linear interpolation inside its bucket, as Prometheus does it.

    Args:
        histogram: Upper bound, and observations up to it; the last bound is infinite.
        q: From 0 to 1.

    Returns:
        The estimate; the highest finite bound if it lies beyond; 0 if nothing was observed.
    """
    rank = q * histogram[-1][1] if histogram else 0.0
    if rank <= 0.0 or rank <= histogram[0][1]:
        return 0.0
    for (low, below), (high, up_to) in pairwise(histogram):
        if rank <= up_to:
            return low if high == inf else low + (high - low) * (rank - below) / (up_to - below)
    return histogram[-1][0]


def _all(reading: Reading) -> dict[str, Shown]:
    return {**reading.routers, **reading.servers, **reading.generators}


def _gain(first: Mapping[str, Shown], last: Mapping[str, Shown]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for url, now in last.items():
        before = first[url].counts if url in first else None
        if before is None or any(value < before.get(name, 0.0) - _ROUNDING for name, value in now.counts.items()):
            continue
        for name, value in now.counts.items():
            total[name] += value - before.get(name, 0.0)
    return total


def _messages(jobs: Mapping[str, float], sent: Mapping[str, float]) -> dict[str, float]:
    """Control messages as their senders count them; without servers to ask, as routers received them."""
    of_servers = {kind: sent[f"sent.{kind}"] if sent else jobs[f"received.{kind}"] for kind in CONTROL_KINDS}
    return of_servers | {"probe": jobs["sent.probe"]}


def _utilisation(first: Reading, last: Reading, span_s: float) -> dict[str, float]:
    busy: dict[str, float] = defaultdict(float)
    slots: dict[str, float] = defaultdict(float)
    for url, now in last.servers.items():
        before = first.servers.get(url)
        for name, value in now.gauges.items():
            pool = name.removeprefix("slots.")
            if before is not None and pool != name:
                slots[pool] += value
                busy[pool] += now.counts[f"busy_s.{pool}"] - before.counts.get(f"busy_s.{pool}", 0.0)
    return {f"utilisation.{pool}": busy[pool] / (slots[pool] * span_s) for pool in slots if slots[pool] > 0.0}
