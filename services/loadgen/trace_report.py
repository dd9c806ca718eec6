"""What a trace is: its length, rate and burstiness, and what became of every row of its file."""

import math
from dataclasses import dataclass

import numpy as np

from services.loadgen.arrivals import Floats
from services.loadgen.trace_columns import LeftOut

# Sizes within this fraction of the largest count as close to it …
_CLOSE = 0.01
# … and this many of them, if they are also this share of all rows, look like a limit of what was recorded.
_CAP_ROWS, _CAP_SHARE = 10, 0.01


@dataclass(frozen=True)
class SizeColumn:
    """One column that the sizes are made of.

    Attributes:
        name: As in the options.
        weight: Its factor in the size.
        mean: Of the values used.
        largest: The largest value used.
        close_to_largest: Rows whose value lies within 1% of it.
        looks_capped: Whether these are so many that the values seem to have been cut off there.
    """

    name: str
    weight: float
    mean: float
    largest: float
    close_to_largest: int
    looks_capped: bool


@dataclass(frozen=True)
class TimeStatistics:
    """The arrivals of a trace as they will be replayed at their recorded speed.

    Units: `…_s` in seconds of the trace.

    Attributes:
        span_s: From the first arrival to the last.
        rate_per_s: Mean rate, (jobs − 1) ÷ span.
        idc_1s, idc_10s: Index of dispersion of the counts in windows of 1 s and 10 s (Poisson: 1); None if
            there are fewer than two full windows.
        gap_cv: Coefficient of variation of the gaps between arrivals (Poisson: 1).
        longest_silence_s, silence_from_s: The longest gap, and when it begins.
        silence_misleads: Whether that silence is so long that the mean rate is not the rate at which jobs come:
            more than 5% of the span, and more than 2 ln(n) mean gaps, which the longest of n exponential gaps
            exceeds with probability about 1/n.
        rate_outside_silence_per_s: The mean rate with the longest silence cut out.
    """

    span_s: float
    rate_per_s: float
    idc_1s: float | None
    idc_10s: float | None
    gap_cv: float
    longest_silence_s: float
    silence_from_s: float
    silence_misleads: bool
    rate_outside_silence_per_s: float

    @classmethod
    def of(cls, instants_s: Floats) -> "TimeStatistics":
        """Compute them from at least two instants, in order, the first at 0 and the last later."""
        gaps = np.diff(instants_s)
        span_s, longest = float(instants_s[-1]), int(gaps.argmax())
        silence_s = float(gaps[longest])
        usual_s = 2.0 * math.log(max(gaps.size, 2)) * span_s / gaps.size
        return cls(
            span_s=span_s,
            rate_per_s=gaps.size / span_s,
            idc_1s=index_of_dispersion(instants_s, 1.0),
            idc_10s=index_of_dispersion(instants_s, 10.0),
            gap_cv=float(gaps.std() / gaps.mean()),
            longest_silence_s=silence_s,
            silence_from_s=float(instants_s[longest]),
            silence_misleads=silence_s > max(0.05 * span_s, usual_s),
            rate_outside_silence_per_s=gaps.size / (span_s - silence_s) if silence_s < span_s else math.inf,
        )


@dataclass(frozen=True)
class SizeStatistics:
    """The sizes of a trace, in the unit of the file, the floor applied.

    Attributes:
        mean, cv, p99_over_mean: Of all sizes.
        floor_applied: How many were raised to the floor.
        columns: What they are made of.
    """

    mean: float
    cv: float
    p99_over_mean: float
    floor_applied: int
    columns: tuple[SizeColumn, ...]

    @classmethod
    def of(cls, sizes: Floats, floor_applied: int, columns: tuple[SizeColumn, ...]) -> "SizeStatistics":
        """Compute them."""
        mean = float(sizes.mean())
        p99 = float(np.percentile(sizes, 99.0))
        return cls(mean, float(sizes.std()) / mean, p99 / mean, floor_applied, columns)

    def lines(self) -> list[str]:
        """Return them as lines for people."""
        formula = " + ".join(
            column.name if column.weight == 1.0 else f"{column.weight:g}·{column.name}" for column in self.columns
        )
        lines = [
            f"  size = {formula}: mean {self.mean:.4g}, CV {self.cv:.3g}, p99 ÷ mean {self.p99_over_mean:.3g}, "
            f"{self.floor_applied} raised to the floor"
        ]
        lines += [
            f"  beware: {column.close_to_largest} values of {column.name} lie within 1% of its largest, "
            f"{column.largest:g}: they seem to be cut off there"
            for column in self.columns
            if column.looks_capped
        ]
        return lines


@dataclass(frozen=True)
class TraceReport:
    """How a trace was read, and what it is.

    Attributes:
        name: What the file is called.
        rows_read: Data rows seen, blank lines not counted.
        rows_used: Those that became jobs.
        left_out: The others, by reason.
        stopped_at_limit: Whether `limit_rows` ended the reading.
        rows_out_of_order: Rows whose arrival is before that of the used row above; they were sorted.
        ties: Jobs with exactly the instant of the job before, as found.
        spread_step_s: The step over which ties were spread, in seconds; None if they were left as they are.
        first, last: The first and the last arrival as found, with their unit.
        times: The arrivals.
        sizes: The sizes; None if the trace gives none.
    """

    name: str
    rows_read: int
    rows_used: int
    left_out: tuple[LeftOut, ...]
    stopped_at_limit: bool
    rows_out_of_order: int
    ties: int
    spread_step_s: float | None
    first: str
    last: str
    times: TimeStatistics
    sizes: SizeStatistics | None

    @property
    def rows_left_out(self) -> int:
        """Rows that were read and did not become jobs."""
        return sum(left_out.rows for left_out in self.left_out)

    def lines(self) -> list[str]:
        """Return the report as a few lines for people."""
        limit = " (limit_rows reached)" if self.stopped_at_limit else ""
        times = self.times
        lines = [
            f"trace {self.name}: {self.rows_read} rows read{limit}, {self.rows_used} used, "
            f"{self.rows_left_out} left out",
            *(f"  left out: {left_out.text()}" for left_out in self.left_out),
            f"  from {self.first} to {self.last}: span {times.span_s:.6g} s, mean rate {times.rate_per_s:.4g} per s",
            f"  {self.rows_out_of_order} rows out of order were sorted; {self._ties_text()}",
            f"  dispersion of counts (Poisson: 1): {_or_dash(times.idc_1s)} in windows of 1 s, "
            f"{_or_dash(times.idc_10s)} of 10 s; CV of gaps {times.gap_cv:.3g}",
            f"  longest silence {times.longest_silence_s:.4g} s, after {times.silence_from_s:.6g} s",
        ]
        if times.silence_misleads:
            lines.append(
                f"  beware: that silence is {times.longest_silence_s / times.span_s:.1%} of the span; outside of it "
                f"the mean rate is {times.rate_outside_silence_per_s:.4g} per s"
            )
        return lines + (["  no sizes"] if self.sizes is None else self.sizes.lines())

    def _ties_text(self) -> str:
        if self.ties == 0:
            return "no ties"
        share = self.ties / (self.rows_used - 1)
        if self.spread_step_s is None:
            return f"{self.ties} ties ({share:.0%}), left as they are"
        return f"{self.ties} ties ({share:.0%}), spread evenly within the step of {self.spread_step_s:.6g} s"


def index_of_dispersion(instants_s: Floats, window_s: float) -> float | None:
    """Variance ÷ mean of the counts in [0, w), [w, 2w), …, full windows only (Poisson: 1).

    Args:
        instants_s: In order, from 0.
        window_s: Length of a window.

    Returns:
        The index, or None if there are fewer than two full windows or no arrival in them.
    """
    windows = int(instants_s[-1] // window_s)
    index = np.floor(instants_s / window_s)
    # Only windows with arrivals are listed, so that a long and sparse trace costs no memory.
    _, counts = np.unique(index[index < windows], return_counts=True)
    if windows < 2 or counts.size == 0:
        return None
    mean = float(counts.sum()) / windows
    return float((counts.astype(np.float64) ** 2).sum()) / windows / mean - mean


def describe_column(name: str, weight: float, values: Floats) -> SizeColumn:
    """Describe one size column, and whether its values seem to have been cut off at the largest one."""
    largest, mean = float(values.max()), float(values.mean())
    close = int(np.count_nonzero(values >= (1.0 - _CLOSE) * largest))
    # Sizes that are all alike, or spread evenly over a small range, also crowd at the largest: not a cap.
    looks_capped = close >= max(_CAP_ROWS, _CAP_SHARE * values.size) and largest > 2.0 * mean
    return SizeColumn(name, weight, mean, largest, close, looks_capped)


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
