"""Replay of a real workload: from a trace file's bytes to instants and sizes, and from these to a schedule."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from services.loadgen.arrivals import Floats, Integers
from services.loadgen.trace_columns import RawRows, Tally, read_rows
from services.loadgen.trace_options import TraceError, TraceOptions
from services.loadgen.trace_report import SizeStatistics, TimeStatistics, TraceReport, describe_column
from services.loadgen.trace_values import (
    Clock,
    DateTimeClock,
    Missing,
    clock_for,
    date_time_text,
    number,
    number_clock,
    number_text,
)


@dataclass(frozen=True, eq=False)
class Trace:
    """A workload as recorded.

    Attributes:
        instants_s: Arrival instants in seconds, in order, the first at 0.
        sizes: The size of each job, with mean 1; None if the trace has no size column.
        report: How it was read, and what it is.
    """

    instants_s: Floats
    sizes: Floats | None
    report: TraceReport


def read_trace(data: bytes, name: str, options: TraceOptions) -> Trace:
    """Read a trace file.

    Args:
        data: The file's bytes: CSV with a header line, or JSON lines, plain or gzip-compressed.
        name: What to call the file in messages.
        options: The columns and units.

    Returns:
        The trace; its report accounts for every row.

    Raises:
        TraceError: It cannot be read as asked, or there are not two jobs at different instants.
    """
    weights = options.size_weights
    durations = [options.duration_column] if options.duration_column else []
    raw = read_rows(data, name, options.format, [options.time_column, *durations, *weights], options.limit_rows)
    clock = clock_for(options.time_unit, options.time_column, [row[0] for row in raw.values], name)
    jobs = _jobs_of(raw, clock, _duration_clock(options, clock, name), tuple(weights.values()))
    jobs = _without_zero_sizes(jobs, options, raw.left_out, name)
    _check_enough(jobs, raw, name)

    order = np.argsort(jobs.arrivals_ns, kind="stable")
    arrivals_ns = jobs.arrivals_ns[order]
    instants_s = (arrivals_ns - arrivals_ns[0]) / 1e9
    step_s = _grid_step_s(instants_s) if options.spread_ties else None
    if step_s is not None:
        instants_s = _spread(instants_s, step_s)
    sizes, statistics = _sizes(jobs, options)
    report = TraceReport(
        name=name,
        rows_read=raw.rows_read,
        rows_used=instants_s.size,
        left_out=raw.left_out.result(),
        stopped_at_limit=raw.rows_read == options.limit_rows,
        rows_out_of_order=int(np.count_nonzero(np.diff(jobs.arrivals_ns) < 0)),
        ties=int(np.count_nonzero(np.diff(arrivals_ns) == 0)),
        spread_step_s=step_s,
        first=_time_text(int(arrivals_ns[0]), options, clock),
        last=_time_text(int(arrivals_ns[-1]), options, clock),
        times=TimeStatistics.of(instants_s),
        sizes=statistics,
    )
    return Trace(instants_s, None if sizes is None else sizes[order], report)


@dataclass(frozen=True, eq=False)
class _Jobs:
    """The usable rows: where they stand, when they arrive, what their sizes are made of."""

    lines: Integers
    arrivals_ns: Integers
    components: Floats
    sizes: Floats

    def only(self, kept: npt.NDArray[np.bool_]) -> "_Jobs":
        return _Jobs(self.lines[kept], self.arrivals_ns[kept], self.components[kept], self.sizes[kept])


def _duration_clock(options: TraceOptions, clock: Clock, name: str) -> Clock | None:
    if options.duration_column is None:
        return None
    if options.duration_unit is not None:
        return number_clock(options.duration_unit)
    if isinstance(clock, DateTimeClock):
        raise TraceError(f'{name}: the times are date-times: state duration_unit of "{options.duration_column}"')
    return clock


def _jobs_of(raw: RawRows, clock: Clock, duration_clock: Clock | None, weights: tuple[float, ...]) -> _Jobs:
    first_size = 1 if duration_clock is None else 2
    lines, arrivals, components = [], [], []
    for line, row in zip(raw.lines, raw.values, strict=True):
        arrival = _arrival(row, clock, duration_clock)
        parts = _components(row[first_size:]) if isinstance(arrival, int) else None
        if isinstance(arrival, str):
            raw.left_out.add(arrival, line)
        elif isinstance(parts, str):
            raw.left_out.add(parts, line)
        else:
            lines.append(line)
            arrivals.append(arrival)
            components.append(parts)
    table = np.array(components, dtype=np.float64).reshape(len(lines), len(weights))
    return _Jobs(np.array(lines, dtype=np.int64), np.array(arrivals, dtype=np.int64), table, table @ np.array(weights))


def _arrival(row: tuple[Any, ...], clock: Clock, duration_clock: Clock | None) -> int | str:
    """The arrival in nanoseconds, or why there is none."""
    at_ns = clock(row[0])
    if isinstance(at_ns, Missing):
        return f"time {at_ns.value}"
    if duration_clock is None:
        return at_ns
    duration_ns = duration_clock(row[1])
    if isinstance(duration_ns, Missing):
        return f"duration {duration_ns.value}"
    return at_ns - duration_ns if duration_ns >= 0 else "duration negative"


def _components(raws: tuple[Any, ...]) -> list[float] | str:
    """The values of the size columns, or why a size is missing."""
    values = []
    for raw in raws:
        value = number(raw)
        if isinstance(value, Missing):
            return f"size {value.value}"
        if value < 0:
            return "size negative"
        values.append(float(value))
    return values


def _without_zero_sizes(jobs: _Jobs, options: TraceOptions, left_out: Tally, name: str) -> _Jobs:
    zero = jobs.sizes == 0.0
    if not options.size_weights or options.zero_size == "floor" or not zero.any():
        return jobs
    lines = jobs.lines[zero]
    if options.zero_size is None:
        raise TraceError(
            f"{name}: the size is 0 in {lines.size} rows, first in line {lines[0]}: state "
            f'zero_size = "floor" with size_floor (the smallest size), or zero_size = "drop"'
        )
    for line in lines:
        left_out.add("size zero", int(line))
    return jobs.only(~zero)


def _sizes(jobs: _Jobs, options: TraceOptions) -> tuple[Floats | None, SizeStatistics | None]:
    """The sizes with mean 1, in the order of the file, and what they were before."""
    if not options.size_weights:
        return None, None
    floor = options.size_floor or 0.0
    sizes = np.maximum(jobs.sizes, floor)
    columns = tuple(
        describe_column(column, weight, jobs.components[:, index])
        for index, (column, weight) in enumerate(options.size_weights.items())
    )
    statistics = SizeStatistics.of(sizes, int(np.count_nonzero(jobs.sizes < floor)), columns)
    return sizes / statistics.mean, statistics


def _check_enough(jobs: _Jobs, raw: RawRows, name: str) -> None:
    arrivals = jobs.arrivals_ns
    if arrivals.size >= 2 and arrivals.min() < arrivals.max():
        return
    found = "all of them at the same instant" if arrivals.size >= 2 else "and a rate needs two"
    reasons = "".join(f"; left out: {left_out.text()}" for left_out in raw.left_out.result())
    raise TraceError(
        f"{name}: usable rows: {arrivals.size} of {raw.rows_read} read, {found}{reasons}: "
        f"are columns and units those of the file?"
    )


def _grid_step_s(instants_s: Floats) -> float:
    """The step of the grid on which the times lie: the median of the distances between different instants."""
    return float(np.median(np.diff(np.unique(instants_s))))


def _spread(instants_s: Floats, step_s: float) -> Floats:
    """Spread k jobs of one instant evenly: at 0, 1/k, …, (k − 1)/k of the way to the next instant.

    Nothing is drawn. The way is at most one step of the grid, so that no job moves into a silence. Within a step
    the arrivals become more regular than they were: only windows longer than the step say something.
    """
    different, counts = np.unique(instants_s, return_counts=True)
    ways = np.minimum(np.append(np.diff(different), step_s), step_s)
    first_of_each = np.cumsum(counts) - counts
    place = np.arange(instants_s.size) - np.repeat(first_of_each, counts)
    spread: Floats = instants_s + place * np.repeat(ways / counts, counts)
    return spread


def _time_text(at_ns: int, options: TraceOptions, clock: Clock) -> str:
    if isinstance(clock, DateTimeClock):
        return date_time_text(at_ns, clock.states_offset)
    return number_text(at_ns, options.time_unit)
