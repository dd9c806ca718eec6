"""The quantities of a run, as a value and per batch of its window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from router.protocol.messages import CONTROL_KINDS, OUTCOMES
from services.measure.occupancy import Occupancy, occupancy
from services.measure.records import Flags, Floats, Ints, MessageLog, Records, Run

LEAST_BEYOND = 100
"""So many jobs must lie beyond a quantile before its uncertainty can be told."""

SERVED, BLOCKED, ABANDONED, FAILED = range(len(OUTCOMES))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, or a list of numbers, that a run has measured.

    Attributes:
        value: Over the whole window; shape () or (k,).
        batches: What each batch of the window adds: their mean is the value, and their spread shows how sure it is.
            Shape (batches,) or (batches, k); all nan where there is too little to tell.
    """

    value: Floats
    batches: Floats


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that counts, cut into batches of equal length.

    Units: time units from the schedule's start.
    """

    start: float
    end: float
    batches: int

    @property
    def edges(self) -> Floats:
        """The borders of the batches; shape (batches + 1,)."""
        return np.linspace(self.start, self.end, self.batches + 1)

    def batch_of(self, instants: Floats) -> Ints:
        """The batch of each instant; outside the window: -1."""
        place = np.searchsorted(self.edges, instants, side="right") - 1
        return np.where((instants >= self.start) & (instants < self.end), place, -1)


def measure(run: Run, window: Window) -> dict[str, Quantity]:
    """All quantities that a run of continuous time gives, by name.

    Jobs count by their intended instant; queue lengths by the time within the window.

    Units: time units; probabilities and messages per arrival; shares of servers.
    """
    seen = occupancy(run, window.edges)
    quantities = dict(_of_jobs(run.records, window))
    quantities |= _of_queues(seen, window, len(run.fleet.servers))
    quantities |= _of_pools(run, seen, window)
    quantities |= _of_messages(run.messages, window)
    return quantities


def _of_jobs(records: Records, window: Window) -> Iterator[tuple[str, Quantity]]:
    batch = window.batch_of(records.intended)
    inside = batch >= 0
    batch = batch[inside]
    outcome = records.outcome[inside]
    waiting = records.waiting[inside]
    served = outcome == SERVED
    admitted = served | (outcome == ABANDONED)
    dispatched = records.server[inside] >= 0

    def share(of: Flags, among: Flags | None = None) -> Quantity:
        return _mean(of.astype(float), batch, window.batches, among)

    yield "block_probability", share(outcome == BLOCKED)
    yield "wait_probability", share(admitted & (waiting > 0.0))
    yield "abandon_probability", share(outcome == ABANDONED)
    yield "failed_probability", share(outcome == FAILED)
    yield "waiting_mean", _mean(waiting, batch, window.batches, admitted)
    sojourn = (records.ended - records.intended)[inside]
    yield "sojourn_mean", _mean(sojourn, batch, window.batches, served)
    for percent in (50, 95, 99):
        yield f"sojourn_p{percent}", _quantile(sojourn, batch, window.batches, served, percent / 100)
    yield "dispatch.random", share(records.fallback[inside], dispatched)
    yield "dispatch.stale", share(records.stale[inside], dispatched)


def _of_queues(seen: Occupancy, window: Window, servers: int) -> dict[str, Quantity]:
    """Of one server, and of all together."""
    one = _Lengths(seen.by_pool.sum(axis=1), window)
    total = _Lengths(seen.total, window)
    squares = one.moment(2)
    return {
        "jobs_in_system_mean": total.mean,
        "jobs_in_system_variance": total.variance,
        "queue_length_mean": one.mean,
        "queue_length_variance": one.variance,
        # Σ (q_i − q̄)² = Σ q_i² − (Σ q_i)² / n
        "perpendicular_second_moment": _of_batches(servers * squares - total.moment(2) / servers),
        "queue_tail": one.tail,
    }


def _of_pools(run: Run, seen: Occupancy, window: Window) -> dict[str, Quantity]:
    fleet, records = run.fleet, run.records
    batch = window.batch_of(records.intended)
    counted = (batch >= 0) & (records.outcome == SERVED)
    batch = batch[counted]
    pool_of_job = fleet.pool_of[records.server[counted]]
    quantities = {}
    for place, pool in enumerate(fleet.pools):
        lengths = _Lengths(seen.by_pool[:, place], window)
        slots = int(fleet.slots[place])
        # A server with k jobs has min(k, slots) busy slots; E min(q, s) = Σ_{k=1..s} P(q ≥ k).
        busy = lengths.tail.batches[:, 1 : slots + 1].sum(axis=1) / slots
        quantities[f"utilisation.{pool}"] = _of_batches(busy)
        quantities[f"job_share.{pool}"] = _mean((pool_of_job == place).astype(float), batch, window.batches)
        quantities[f"queue_length_mean.{pool}"] = lengths.mean
        quantities[f"queue_tail.{pool}"] = lengths.tail
    return quantities


def _of_messages(log: MessageLog, window: Window) -> dict[str, Quantity]:
    """Messages per arrival, from counters that were read now and then."""
    edges = window.edges
    jobs = np.diff(np.interp(edges, log.instants, log.jobs))
    sent = {kind: np.diff(np.interp(edges, log.instants, log.counts[kind])) for kind in CONTROL_KINDS}
    sent["total"] = np.sum(list(sent.values()), axis=0)
    return {f"messages.{kind}": _ratio(number, jobs) for kind, number in sent.items()}


class _Lengths:
    """Moments and tails of a queue length, from the time spent at each."""

    def __init__(self, time_at: Floats, window: Window) -> None:
        """Take the time at each length; shape (batches, lengths)."""
        self._share = time_at / time_at.sum(axis=1, keepdims=True)
        self._levels = np.arange(time_at.shape[1], dtype=float)

    def moment(self, power: int) -> Floats:
        """Per batch; shape (batches,)."""
        moment: Floats = self._share @ self._levels**power
        return moment

    @property
    def mean(self) -> Quantity:
        return _of_batches(self.moment(1))

    @property
    def variance(self) -> Quantity:
        """Around the mean of the whole window, so that batches of equal length average to the variance."""
        mean = self.moment(1).mean()
        return _of_batches(self._share @ (self._levels - mean) ** 2)

    @property
    def tail(self) -> Quantity:
        """Of k = 0, 1, …; each row begins with 1."""
        return _of_batches(np.cumsum(self._share[:, ::-1], axis=1)[:, ::-1])


def _of_batches(batches: Floats) -> Quantity:
    """Of batches of equal length, each of which has a value."""
    return Quantity(batches.mean(axis=0), batches)


def _ratio(numerator: Floats, denominator: Floats) -> Quantity:
    """A ratio of sums, and to first order what each batch adds to it.

    A mean of the batches' own ratios would be another quantity: batches with many jobs are those with long queues.
    """
    total = denominator.sum()
    if not total > 0.0:
        return Quantity(np.asarray(np.nan), np.full(len(numerator), np.nan))
    ratio = numerator.sum() / total
    return Quantity(np.asarray(ratio), ratio + (numerator - ratio * denominator) * (len(numerator) / total))


def _mean(values: Floats, batch: Ints, batches: int, among: Flags | None = None) -> Quantity:
    """The mean over the jobs of each batch, or of those `among` them."""
    if among is not None:
        values, batch = values[among], batch[among]
    sums = np.bincount(batch, weights=values, minlength=batches).astype(float)
    return _ratio(sums, np.bincount(batch, minlength=batches).astype(float))


def _quantile(values: Floats, batch: Ints, batches: int, among: Flags, share: float) -> Quantity:
    """A quantile, and to first order what each batch adds to it.

    Where a batch has more values above the quantile than its share, it pushes the quantile up, the more so the
    thinner the density is there.

    Source: Bahadur 1966, doi:10.1214/aoms/1177699450.
    """
    values, batch = values[among], batch[among]
    if not len(values):
        return Quantity(np.asarray(np.nan), np.full(batches, np.nan))
    value = float(np.quantile(values, share))
    if len(values) * min(share, 1.0 - share) < LEAST_BEYOND:
        return Quantity(np.asarray(value), np.full(batches, np.nan))
    width = min(share, 1.0 - share) / 2.0
    low, high = np.quantile(values, [share - width, share + width])
    above = np.bincount(batch, weights=values > value, minlength=batches)
    more = above - (values > value).mean() * np.bincount(batch, minlength=batches)
    return Quantity(np.asarray(value), value + more * (batches / len(values)) * (high - low) / (2.0 * width))
