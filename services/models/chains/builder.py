"""From the steps out of a state to the stationary law of the whole chain."""

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, diags_array
from scipy.sparse.linalg import LinearOperator, gmres, spilu, splu

Floats = NDArray[np.float64]
# Elimination costs at most about states · band² operations; above this many, iteration is tried first. That parts
# queues in the plane from those in three dimensions and more. It ends at this relative residual, or fails.
ITERATIVE_FROM = 3e10
RESIDUAL = 1e-14
ROUNDS = 5
# What the preconditioner drops: little is kept first, as a few more iterations cost far less than filling up.
DROPS = (5e-2, 1e-2)
# Generators are nearly symmetric in structure: this ordering fills up least.
SYMMETRIC = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}

S = TypeVar("S", bound=Hashable)

Step = tuple[float, S, tuple[str, ...]]
"""Rate, next state, and the names of what happens (counted as flows). A step to the state itself only counts."""


class TooManyStates(Exception):
    """The chain has more states than allowed."""


@dataclass(frozen=True)
class Stationary(Generic[S]):
    """A chain's states, their stationary probabilities, and the rate of each named event.

    Units: Flows are events per unit of the time in which the rates were given.
    """

    states: list[S]
    probabilities: Floats
    flows: dict[str, float]


def solve_chain(start: S, steps: Callable[[S], Iterable[Step[S]]], max_states: int) -> Stationary[S]:
    """Explore all states that can be reached and solve the balance equations.

    Args:
        start: A state that is visited again and again.
        steps: All steps out of a state; several to the same state add up.
        max_states: The most states to explore.

    Units: Rates per unit of any one time.
    Assumes: `start` is recurrent and the chain finite.

    Raises:
        TooManyStates: If there are more states than `max_states`.

    Source: Global balance, πQ = 0 with π(start) = 1 and then normalised. What is left of Q is a non-singular
        M-matrix, which elimination without pivoting solves with small error in every single component.
    """
    index: dict[S, int] = {start: 0}
    states = [start]
    rows: list[int] = []
    columns: list[int] = []
    rates: list[float] = []
    events: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
    for row, state in enumerate(states):  # grows as it goes
        for rate, to, happens in steps(state):
            if happens:
                at, how_often = events.setdefault(happens, ([], []))
                at.append(row)
                how_often.append(rate)
            if to == state:
                continue
            column = index.get(to)
            if column is None:
                if len(states) == max_states:
                    raise TooManyStates(f"more than {max_states} states")
                column = index[to] = len(states)
                states.append(to)
            rows.append(row)
            columns.append(column)
            rates.append(rate)
    probabilities = balance(len(states), np.array(rows), np.array(columns), np.array(rates))
    flows: dict[str, float] = {}
    for happens, (at, how_often) in events.items():
        flow = float(probabilities[at] @ np.array(how_often))
        for name in happens:
            flows[name] = flows.get(name, 0.0) + flow
    return Stationary(states, probabilities, flows)


def balance(size: int, rows: NDArray[np.int64], columns: NDArray[np.int64], rates: Floats) -> Floats:
    """Stationary law of a generator given by its off-diagonal entries.

    Args:
        size: Number of states.
        rows: From where; duplicates add up.
        columns: Where to.
        rates: How often.

    Units: Rates per unit of any one time.
    Assumes: One recurrent class, and state 0 in it.
    Source: Global balance, as in `solve_chain`.
    """
    leaving = np.bincount(rows, weights=rates, minlength=size).astype(np.float64)
    generator = csc_matrix((rates, (columns, rows)), shape=(size, size)) - diags_array(leaving, format="csc")
    band = float(np.abs(rows - columns).max(initial=0))
    for drop in DROPS if size * band**2 > ITERATIVE_FROM else ():
        probabilities = _iterate(generator, leaving, drop)
        if probabilities is not None:
            return probabilities
    matrix, inflow = _without(generator, 0)
    return _with_reference(splu(matrix, diag_pivot_thresh=0.0, **SYMMETRIC).solve(inflow), 0)


def _without(generator: Any, reference: int) -> tuple[Any, Floats]:
    """Balance of all states but one, which has weight 1: outflow - inflow of the others = inflow from that one."""
    others = np.arange(generator.shape[0]) != reference
    columns = generator[:, others]
    inflow = generator[:, [reference]].toarray().ravel()
    return (-columns[others, :]).tocsc(), np.asarray(inflow[others], dtype=np.float64)


def _with_reference(weights: Floats, reference: int) -> Floats:
    whole = np.insert(weights, reference, 1.0)
    return np.asarray(whole / whole.sum(), dtype=np.float64)


def _iterate(generator: Any, leaving: Floats, drop: float) -> Floats | None:
    """The same by preconditioned GMRES, for chains in three dimensions and more, whose elimination fills up.

    It corrects a guess, round by round, and needs no reference state, which might be a very rare one.
    """
    # The generator is singular, its shadow in the preconditioner must not be. States come in the order of their
    # distance from the first, as good as any for an incomplete elimination.
    shifted = (diags_array(leaving * 1e-6) - generator).tocsc()
    rough = spilu(shifted, drop_tol=drop, fill_factor=4, diag_pivot_thresh=0.0, permc_spec="NATURAL")
    nearly = LinearOperator(shifted.shape, rough.solve)
    probabilities = np.full(len(leaving), 1 / len(leaving))
    for _ in range(ROUNDS):
        imbalance = generator @ probabilities
        # GMRES measures by squares, which are this much smaller than sums at most.
        finest = 0.5 * RESIDUAL * float(leaving @ probabilities) / math.sqrt(len(leaving))
        correction, _ = gmres(-generator, imbalance, rtol=1e-6, atol=finest, restart=100, maxiter=1, M=nearly)
        probabilities = probabilities + correction
        probabilities /= probabilities.sum()
        if np.abs(generator @ probabilities).sum() < RESIDUAL * float(leaving @ probabilities):
            probabilities = np.maximum(probabilities, 0.0)
            return np.asarray(probabilities / probabilities.sum(), dtype=np.float64)
    return None
