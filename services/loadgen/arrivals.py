"""The workload, drawn before the run: when each job arrives, its router, its size and its patience.

Everything here is fixed by its generator alone and never looks at completions, so two policies, and a live
and a simulated run, meet the same jobs. Instants, routers, sizes and patience each have a stream of their own
(for instance `Random(f"{seed}:arrivals")`): a longer horizon begins with the same jobs.
"""

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from server.laws import Law

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# 8 bytes for each of four values a job: about 3 GB. A longer schedule is a mistake, not a wish.
MOST_JOBS = 100_000_000
# Gaps are drawn and summed chunk by chunk; the size is fixed so that rounding does not depend on the horizon.
_CHUNK = 1 << 16
_STATES = 1 << 12


def poisson(rate: float, horizon: float, rng: Random) -> Floats:
    """Draw the instants of a Poisson process.

    Units: `rate` in jobs per time unit, `horizon` and the instants in time units.

    Args:
        rate: Mean number of jobs per time unit; 0 gives none.
        horizon: The instants lie in [0, horizon).
        rng: The stream of the arrivals.

    Returns:
        The instants, in order.

    Raises:
        ValueError: `rate` or `horizon` is negative or not finite, or asks for too many jobs.
    """
    _check_length(rate, horizon)
    if rate * horizon == 0.0:
        return np.empty(0)
    chunks = []
    reached = 0.0
    while reached < horizon:
        # 1 − u lies in (0, 1], so the logarithm is finite.
        gaps = np.log1p(-uniforms(_CHUNK, rng)) / -rate
        chunks.append(reached + np.cumsum(gaps))
        reached = float(chunks[-1][-1])
    instants = np.concatenate(chunks)
    return instants[: np.searchsorted(instants, horizon, side="left")]


def deterministic(rate: float, horizon: float) -> Floats:
    """Return equally spaced instants: 0, 1/rate, 2/rate, … below the horizon.

    Units: `rate` in jobs per time unit, `horizon` and the instants in time units.

    Raises:
        ValueError: `rate` or `horizon` is negative or not finite, or asks for too many jobs.
    """
    _check_length(rate, horizon)
    if rate * horizon == 0.0:
        return np.empty(0)
    # Divided, not summed: the instants do not drift. One more than needed, for rounding; then cut.
    instants = np.arange(math.ceil(rate * horizon) + 1) / rate
    return instants[instants < horizon]


def mmpp(rate: float, burst: float, share: float, cycle: float, horizon: float, rngs: tuple[Random, Random]) -> Floats:
    """Draw the instants of a Poisson process whose rate jumps between two values (Markov-modulated, two states).

    Rule: a calm and a burst state take turns, each for an exponentially distributed time; the first is drawn by
    `share`, so the process is stationary from 0 on. A Poisson process of rate 1 is stretched over the integral of
    the rate, so that jobs and states have a stream each.

    Units: `rate` in jobs per time unit; `cycle`, `horizon` and the instants in time units.

    Args:
        rate: Mean number of jobs per time unit; 0 gives none.
        burst: The rate in a burst ÷ the calm rate, >= 1.
        share: The share of time in a burst, between 0 and 1.
        cycle: The mean time from the beginning of a burst to that of the next one.
        horizon: The instants lie in [0, horizon).
        rngs: The streams of the jobs and of the states.

    Returns:
        The instants, in order.

    Raises:
        ValueError: A number is out of its range, or there would be too many jobs or cycles.

    Source: Fischer, Meier-Hellstern 1993, doi:10.1016/0166-5316(93)90035-S.
    """
    _check_length(rate, horizon)
    if not (1.0 <= burst < math.inf and 0.0 < share < 1.0 and 0.0 < cycle < math.inf):
        raise ValueError(
            f"burst = {burst!r}, share = {share!r}, cycle = {cycle!r}: expected burst >= 1, share between 0 and 1, "
            "cycle > 0"
        )
    if horizon / cycle > MOST_JOBS:
        raise ValueError(
            f"{horizon:g} time units are {horizon / cycle:.3g} cycles of {cycle:g}, more than {MOST_JOBS:.0e}: "
            "shorten the run or choose a longer cycle"
        )
    if rate * horizon == 0.0:
        return np.empty(0)
    jobs, states = rngs
    calm_rate = rate / (1.0 + share * (burst - 1.0))
    times, expected = _cumulated(burst * calm_rate, calm_rate, share, cycle, horizon, states)
    # A little more than needed, for rounding; then cut.
    reach = float(np.interp(horizon, times, expected)) * (1.0 + 1e-9)
    instants = np.interp(poisson(1.0, reach, jobs), expected, times)
    return instants[: np.searchsorted(instants, horizon, side="left")]


def _cumulated(
    burst_rate: float, calm_rate: float, share: float, cycle: float, horizon: float, rng: Random
) -> tuple[Floats, Floats]:
    """Draw states until the horizon is passed: when each begins, and how many jobs are expected up to then."""
    in_burst = bool(uniforms(1, rng)[0] < share)
    means, rates = (share * cycle, (1.0 - share) * cycle), (burst_rate, calm_rate)
    if not in_burst:
        means, rates = means[::-1], rates[::-1]
    times, expected = [np.zeros(1)], [np.zeros(1)]
    while times[-1][-1] <= horizon:
        lengths = -np.log1p(-uniforms(_STATES, rng)) * np.tile(means, _STATES // 2)
        times.append(times[-1][-1] + np.cumsum(lengths))
        expected.append(expected[-1][-1] + np.cumsum(lengths * np.tile(rates, _STATES // 2)))
    return np.concatenate(times), np.concatenate(expected)


def router_of_each(count: int, shares: Sequence[float], rng: Random) -> Integers:
    """Draw the router of each job, independently of everything else.

    So a Poisson stream splits into independent Poisson streams, one a router.

    Args:
        count: Number of jobs.
        shares: The share of the jobs that each router gets; they add up to 1.
        rng: The stream of the routers.

    Returns:
        For each job the index of its router in `shares`.

    Raises:
        ValueError: A share is negative, or they do not add up to 1.
    """
    total = math.fsum(shares)
    if not all(share >= 0.0 for share in shares) or not math.isclose(total, 1.0, abs_tol=1e-6):
        raise ValueError(
            f"router shares {list(shares)} add up to {total:g}: none may be negative, they must add up to 1"
        )
    bounds = np.cumsum(np.asarray(shares, dtype=np.float64))
    # Divided by the last, so that it is exactly 1 and a last router of share 0 gets no job by rounding.
    bounds /= bounds[-1]
    return np.searchsorted(bounds, uniforms(count, rng), side="right").astype(np.int64)


def sizes(count: int, law: Law, rng: Random) -> Floats:
    """Draw the size of each job.

    Units: time units at rate 1; the mean of the law is 1.
    """
    return np.fromiter((law.draw(rng) for _ in range(count)), np.float64, count)


def patience(count: int, rate: float, law: Law, rng: Random) -> Floats:
    """Draw how long each job will wait.

    Units: `rate` per time unit, so the mean patience is 1 / rate time units; rate 0 means for ever (`inf`).

    Raises:
        ValueError: `rate` is negative or not finite.
    """
    if not 0.0 <= rate < math.inf:
        raise ValueError(f"patience rate = {rate!r}: it must be a number >= 0 per time unit (0: jobs wait for ever)")
    if rate == 0.0:
        return np.full(count, np.inf)
    return sizes(count, law, rng) / rate


def uniforms(count: int, rng: Random) -> Floats:
    """Draw numbers uniform on [0, 1) in bulk, 53 random bits each.

    The generator hands out its bits in order, eight bytes a number, so however the draws are grouped the
    numbers are the same.
    """
    drawn = np.empty(count)
    for start in range(0, count, _CHUNK):
        part = drawn[start : start + _CHUNK]
        bits = np.frombuffer(rng.randbytes(8 * part.size), dtype="<u8")
        np.multiply(bits >> np.uint64(11), 2.0**-53, out=part)
    return drawn


def _check_length(rate: float, horizon: float) -> None:
    for name, value in (("arrival rate", rate), ("horizon", horizon)):
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{name} = {value!r}: it must be a finite number >= 0")
    if rate * horizon > MOST_JOBS:
        raise ValueError(
            f"{rate:g} jobs per time unit for {horizon:g} time units are {rate * horizon:.3g} jobs, more "
            f"than the {MOST_JOBS:.0e} that a schedule may hold: shorten the run or lower the load"
        )
