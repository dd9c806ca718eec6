"""A trace laid out in time units: faster or slower than it was recorded, cut at a horizon or repeated."""

import math
from dataclasses import dataclass

import numpy as np

from services.loadgen.arrivals import MOST_JOBS, Floats
from services.loadgen.trace import Trace


@dataclass(frozen=True, eq=False)
class TraceSchedule:
    """A trace laid out in time units.

    Attributes:
        instants_units: Intended arrival instants in time units, in order, the first at 0.
        sizes: The size of each job (their mean is 1 over the whole trace, not over this part of it), or None.
        speedup: How many times faster than recorded it is replayed.
        laps: How often the trace is begun.
        ends_at_units: Where the trace ends if that is before the horizon, else None.
        notes: What the user should know, one sentence each.
    """

    instants_units: Floats
    sizes: Floats | None
    speedup: float
    laps: int
    ends_at_units: float | None
    notes: tuple[str, ...]


def schedule(
    trace: Trace,
    *,
    time_unit_s: float,
    horizon_units: float,
    speedup: float | None = None,
    rate: float | None = None,
    repeat: bool = False,
) -> TraceSchedule:
    """Lay a trace out in time units, faster or slower than it was recorded.

    Units: `rate` in jobs per time unit, `horizon_units` in time units, `speedup` is a number.

    Args:
        trace: What to replay.
        time_unit_s: A time unit in seconds.
        horizon_units: The instants lie in [0, horizon).
        speedup: Replay that many times faster than recorded; or
        rate: replay so that the mean rate over the whole trace is this one. Exactly one of the two.
        repeat: Begin again, one mean gap after the last job, until the horizon is reached.

    Returns:
        The schedule, with notes on whatever makes it differ from what the numbers suggest.

    Raises:
        ValueError: An argument is not positive, both or neither of speedup and rate are given, or there would be
            too many jobs.
    """
    if (speedup is None) == (rate is None):
        raise ValueError(f"speedup = {speedup}, rate = {rate}: state exactly one of them")
    given = {"time_unit_s": time_unit_s, "horizon_units": horizon_units, "speedup": speedup, "rate": rate}
    for argument, value in given.items():
        if value is not None and not 0.0 < value < math.inf:
            raise ValueError(f"{argument} = {value!r}: it must be a finite number > 0")
    if speedup is None:
        assert rate is not None
        speedup = rate / (trace.report.times.rate_per_s * time_unit_s)
    lap = trace.instants_s / (speedup * time_unit_s)
    lap_units = float(lap[-1]) * lap.size / (lap.size - 1)
    laps = math.ceil(horizon_units / lap_units) if repeat else 1
    if laps * lap.size > MOST_JOBS:
        raise ValueError(f"{laps} repetitions of {lap.size} jobs are more than {MOST_JOBS:.0e}: shorten the run")
    instants = (np.arange(laps)[:, np.newaxis] * lap_units + lap).ravel()
    instants = instants[: np.searchsorted(instants, horizon_units, side="left")]
    sizes = None if trace.sizes is None else np.tile(trace.sizes, laps)[: instants.size]
    ends_at = float(lap[-1]) if not repeat and lap[-1] < horizon_units else None
    notes = [
        *_notes_on_length(trace, instants, horizon_units, laps, ends_at),
        *_notes_on_rate(trace, instants, speedup * time_unit_s, min(horizon_units, laps * lap_units)),
    ]
    if sizes is not None and abs(sizes.mean() - 1.0) > 0.01:
        notes.append(f"the sizes of the jobs replayed have mean {sizes.mean():.3f}, those of the whole trace 1")
    return TraceSchedule(instants, sizes, speedup, laps, ends_at, tuple(notes))


def _notes_on_length(
    trace: Trace, instants: Floats, horizon_units: float, laps: int, ends_at: float | None
) -> list[str]:
    jobs = trace.instants_s.size
    if ends_at is not None:
        return [f"the trace ends at {ends_at:.6g} of {horizon_units:.6g} time units: repeat it, or shorten the run"]
    if laps > 1:
        return [f"the trace of {jobs} jobs is replayed {instants.size / jobs:.3g} times to fill the run"]
    if instants.size < jobs:
        return [f"the run ends after {instants.size} of the {jobs} jobs of the trace"]
    return []


def _notes_on_rate(trace: Trace, instants: Floats, scale_s: float, covered_units: float) -> list[str]:
    """Say where the mean rate of the whole trace is not what the run sees; `scale_s`: a time unit in the trace."""
    notes = []
    times = trace.report.times
    mean, found = times.rate_per_s * scale_s, instants.size / covered_units
    if abs(found / mean - 1.0) > 0.01:
        notes.append(
            f"the jobs replayed come at a mean rate of {found:.4g} per time unit, "
            f"those of the whole trace at {mean:.4g}"
        )
    if times.silence_misleads:
        notes.append(
            f"the trace has a silence of {times.longest_silence_s / scale_s:.4g} time units, "
            f"{times.longest_silence_s / times.span_s:.1%} of it: outside of it the mean rate is "
            f"{times.rate_outside_silence_per_s * scale_s:.4g} per time unit, not {mean:.4g}"
        )
    return notes
