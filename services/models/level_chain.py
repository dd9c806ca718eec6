"""The stationary distribution of a large Markov chain whose every transition moves one level up or down.

The number of jobs in a system is such a level: an arrival raises it by one, a departure lowers it by one.
Then states of even level lead to states of odd level only and the other way round, so that a Gauss-Seidel
sweep is two sparse products; and the levels by themselves form a birth-death chain, which is solved exactly
after each sweep. What remains to be iterated is the distribution within a level, which forgets its start
within a few events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]


def stationary(rates: Any, levels: NDArray[np.int64], tolerance: float = 1e-12, sweeps: int = 20_000) -> Array:
    """Return the stationary probabilities of the states.

    Units:
        Rates per time unit.
    Assumes:
        The chain is irreducible; levels are 0, 1, ..., each with a state, and every transition changes the
        level by 1.
    Args:
        rates: Sparse matrix; entry (s, t) is the rate from state s to state t, the diagonal is not used.
        levels: The level of each state.
        tolerance: Largest accepted change of the distribution within any level in one sweep.
        sweeps: Most sweeps.
    Raises:
        ArithmeticError: The tolerance was not reached.
    Source:
        Takahashi 1975 (iterative aggregation and disaggregation of Markov chains); Stewart 1994,
        "Introduction to the numerical solution of Markov chains", chapter 6.
    """
    matrix = sparse.csr_matrix(rates)
    matrix.eliminate_zeros()
    origin, target = matrix.nonzero()
    if not np.all(np.abs(levels[target] - levels[origin]) == 1):
        raise ValueError("rates: every transition must change the level by 1")
    size = len(levels)
    out = np.asarray(matrix.sum(axis=1)).ravel()
    rising = levels[target] > levels[origin]
    up_rate = np.bincount(origin[rising], weights=matrix.data[rising], minlength=size)
    down_rate = out - up_rate
    into = sparse.csr_matrix(matrix.T)
    halves = [(part, into[part], out[part]) for part in (levels % 2 == 1, levels % 2 == 0)]

    within = 1 / np.bincount(levels)[levels]  # the distribution within each level
    for _ in range(sweeps):
        state = within * _level_masses(levels, within * up_rate, within * down_rate)[levels]
        for part, inflow, outflow in halves:
            state[part] = (inflow @ state) / outflow
        updated = state / np.bincount(levels, weights=state)[levels]
        change = np.bincount(levels, weights=np.abs(updated - within)).max()
        within = updated
        if change < tolerance:
            return np.asarray(within * _level_masses(levels, within * up_rate, within * down_rate)[levels])
    raise ArithmeticError(f"the stationary distribution of {size} states did not settle in {sweeps} sweeps")


def _level_masses(levels: NDArray[np.int64], up: Array, down: Array) -> Array:
    """Solve the birth-death chain of the levels, given what flows up and down from the states of each."""
    up_rates, down_rates = np.bincount(levels, weights=up), np.bincount(levels, weights=down)
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(up_rates[:-1]) - np.log(down_rates[1:]))])
    # No level vanishes altogether: the distribution within it is still asked for.
    masses = np.maximum(np.exp(logarithms - logarithms.max()), 1e-280)
    return np.asarray(masses / masses.sum())
