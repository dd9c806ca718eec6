"""Maximum vacancy among d sampled servers of a loss system, with infinitely many servers: path and steady state.

The equations are those of `loss_field`.

Source (of everything here): Mukhopadhyay, Mazumdar, Guillemin 2015, doi:10.1109/ITC.2015.22.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from services.models.loss import Array, LossSystem
from services.models.loss_field import LossField, Start


@dataclass(frozen=True)
class LossFixedPoint:
    """The steady state of infinitely many servers.

    Units:
        Probabilities and shares; jobs per server.
    Attributes:
        tails: For each type the share of its servers with at least n jobs, n = 0..C_j.
        block_probability: Share of arrivals lost; the same for every job, as routing does not know a job's
            type.
        full_shares: For each type the share of its servers that is full.
        mean_jobs: For each type the mean number of jobs of a server.
        job_shares: For each type its share of the jobs served.
        mean_jobs_all: Mean number of jobs of a server of any type.
        flow_gap: |lam (1 - blocking) - mu mean_jobs_all| / lam: 0 but for rounding.
        start_gap: Largest difference of a tail between the solutions reached from empty and from full.
    """

    tails: tuple[Array, ...]
    block_probability: float
    full_shares: tuple[float, ...]
    mean_jobs: tuple[float, ...]
    job_shares: tuple[float, ...]
    mean_jobs_all: float
    flow_gap: float
    start_gap: float


@dataclass(frozen=True)
class LossTrajectory:
    """The way of infinitely many servers from a given start.

    Units:
        Time units; probabilities and shares; jobs per server.
    Attributes:
        times: Instants, in time units.
        tails: For each type an array (instants, C_j + 1): the share of its servers with at least n jobs.
        block_probability: Probability that a job arriving at that instant is lost.
        mean_jobs_all: Mean number of jobs of a server of any type at that instant.
    """

    times: Array
    tails: tuple[Array, ...]
    block_probability: Array
    mean_jobs_all: Array


def trajectory(
    system: LossSystem, choices: int, times: Sequence[float], start: Start | Sequence[Array] = "empty"
) -> LossTrajectory:
    """Follow the mean field from a start through the given instants.

    Units:
        Times in time units.
    Assumes:
        Infinitely many servers.
    Args:
        system: Types, capacities and rates.
        choices: Number d of servers sampled; 1 is uniform routing.
        times: Instants >= 0, rising; the start is at 0.
        start: "empty", "full", or the tails of each type.
    Raises:
        ValueError: Times fall or are negative, or the start does not fit the system.
    """
    field, instants = LossField(system, choices), np.asarray(times, dtype=float)
    if instants.ndim != 1 or not len(instants) or instants[0] < 0 or np.any(np.diff(instants) < 0):
        raise ValueError("times: expected one or more instants >= 0 that never fall")
    initial = field.start(start)
    if instants[-1] > 0:
        unique, back = np.unique(instants, return_inverse=True)
        solution = solve_ivp(
            lambda _, u: field.rhs(u),
            (0.0, instants[-1]),
            initial,
            method="LSODA",
            t_eval=unique,
            jac=lambda _, u: field.jacobian(u),
            rtol=1e-9,
            atol=1e-12,
        )
        if not solution.success:
            raise ArithmeticError(f"the mean field could not be followed: {solution.message}")
        path = solution.y.T[back]
    else:
        path = np.tile(initial, (len(instants), 1))
    tails = field.split(path)
    full = sum(share * tail[:, -1] for share, tail in zip(system.shares, tails, strict=True))
    jobs = sum(share * tail[:, 1:].sum(axis=1) for share, tail in zip(system.shares, tails, strict=True))
    return LossTrajectory(instants, tails, np.asarray(full) ** field.choices, np.asarray(jobs))


def fixed_point(system: LossSystem, choices: int) -> LossFixedPoint:
    """Find the steady state of the mean field, once from empty and once from full.

    Units:
        Rates per time unit; probabilities and shares.
    Assumes:
        Infinitely many servers. The fixed point is unique and attracts every start; both solutions must
        agree.
    Args:
        system: Types, capacities and rates.
        choices: Number d of servers sampled; 1 is uniform routing, that is Erlang's formula for each type.
    Raises:
        ArithmeticError: The two solutions differ by more than 1e-8, or the flows do not balance.
    """
    field = LossField(system, choices)
    from_empty, from_full = (_refined(field, _steady(field, field.start(start))) for start in ("empty", "full"))
    gap = float(np.max(np.abs(from_empty - from_full)))
    result = _summary(field, from_empty, gap)
    if gap > 1e-8 or result.flow_gap > 1e-8:
        raise ArithmeticError(
            f"no steady state found: the solutions from empty and from full differ by "
            f"{gap:.2g}, and the flow in differs from the flow out by {result.flow_gap:.2g}"
        )
    return result


def _steady(field: LossField, tails: Array) -> Array:
    """Follow the field by implicit Euler steps that double: first a path in time, then Newton's method."""
    step = 0.5 / (field.system.arrival_rate + field.system.service_rate)
    for _ in range(5000):
        move = field.implicit_move(tails, step)
        if np.max(np.abs(move)) < 1e-14 and step > 1e6:
            break
        trial = tails + move
        below, above = field.neighbours(trial)
        if np.max(trial - below) < 1e-9 and np.max(above - trial) < 1e-9:
            tails, step = trial, min(step * 2, 1e12)
        else:  # linearised too far: a tail would rise or leave [0, 1]
            step /= 4
    return tails


def _refined(field: LossField, tails: Array) -> Array:
    """Give small tails their relative accuracy by the product form.

    Only G(v) that are small are moved: there the form is nearly triangular (a level depends on the ones below
    it), so that repeating it converges fast, which it need not do elsewhere.
    """
    at_most = field.at_most_vacant(tails)
    small = at_most < 1e-3
    for _ in range(len(at_most) + 60):
        tails = field.birth_death(at_most)
        updated = np.where(small, field.at_most_vacant(tails), at_most)
        done = np.all(np.abs(updated - at_most) <= 1e-14 * updated)
        at_most = updated
        if done:
            break
    return tails


def _summary(field: LossField, flat: Array, start_gap: float) -> LossFixedPoint:
    system, tails = field.system, field.split(flat)
    shares = np.array(system.shares)
    full = np.array([tail[-1] for tail in tails])
    jobs = np.array([tail[1:].sum() for tail in tails])
    blocking = float(shares @ full) ** field.choices
    mean = float(shares @ jobs)
    gap = abs(system.arrival_rate * (1 - blocking) - system.service_rate * mean) / system.arrival_rate
    return LossFixedPoint(
        tails=tails,
        block_probability=blocking,
        full_shares=tuple(full.tolist()),
        mean_jobs=tuple(jobs.tolist()),
        job_shares=tuple((shares * jobs / mean).tolist()),
        mean_jobs_all=mean,
        flow_gap=gap,
        start_gap=start_gap,
    )
