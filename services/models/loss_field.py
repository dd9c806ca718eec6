"""The mean-field equations of maximum vacancy among d in a loss system.

u^j_n is the share of type-j servers with at least n jobs (u^j_0 = 1), and G(v) = sum_j gamma_j u^j_{C_j - v}
the share of all servers with vacancy at most v. A given server with vacancy v is offered jobs at rate

    q(v) = lam (G(v)^d - G(v-1)^d) / (G(v) - G(v-1)) = lam sum_{i<d} G(v)^i G(v-1)^(d-1-i),

the tie among the sampled servers of vacancy v being broken uniformly over servers, and

    d u^j_n / dt = q(C_j - n + 1) (u^j_{n-1} - u^j_n) - n mu (u^j_n - u^j_{n+1}),    n = 1..C_j.

A job is blocked when all d sampled servers are full, with probability G(0)^d, whatever their types.

Source (of everything here): Mukhopadhyay, Mazumdar, Guillemin 2015, doi:10.1109/ITC.2015.22.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.linalg import solve_banded

from services.models.loss import Array, LossSystem, checked_choices

Start = Literal["empty", "full"]


class LossField:
    """The mean-field equations of one system; its unknowns u^j_n, n >= 1, are one flat vector, type by type.

    Units:
        Rates per time unit; shares of servers.
    Assumes:
        Infinitely many servers; sampling with or without replacement is then the same.
    """

    def __init__(self, system: LossSystem, choices: int) -> None:
        self.system = system
        self.choices = checked_choices(choices)
        capacities = np.array(system.capacities)
        ends = np.cumsum(capacities)
        self.slices = [slice(end - c, end) for end, c in zip(ends, capacities, strict=True)]
        self.unknowns, self.largest = int(ends[-1]), int(capacities.max())
        self.jobs = np.concatenate([np.arange(1, c + 1) for c in capacities])
        self.vacancy = np.concatenate([np.arange(c)[::-1] for c in capacities])  # of a server with exactly n jobs
        self._share = np.repeat(system.shares, capacities)
        self._constant = np.zeros(self.largest + 1)
        for share, c in zip(system.shares, capacities, strict=True):
            self._constant[c:] += share  # u = 1 for every index <= 0
        self._first, self._last = np.flatnonzero(self.jobs == 1), np.flatnonzero(self.vacancy == 0)
        self._not_first, self._not_last = np.flatnonzero(self.jobs > 1), np.flatnonzero(self.vacancy > 0)
        self._place_entries()

    def _place_entries(self) -> None:
        """Work out once where the entries of the Jacobian stand.

        The equation of vacancy v has unknowns of vacancy v - 1, v and v + 1 only. Sorted by vacancy the Jacobian is
        therefore a narrow band, and a step costs no more than a few passes over the unknowns.
        """
        row, column = self.vacancy[:, None], self.vacancy[None, :]
        self._by_upper, self._by_lower = np.nonzero(column == row + 1), np.nonzero(column == row)
        index, left, right = np.arange(self.unknowns), self._not_first, self._not_last
        self._rows = np.concatenate([self._by_upper[0], self._by_lower[0], index, left, right])
        self._columns = np.concatenate([self._by_upper[1], self._by_lower[1], index, left - 1, right + 1])
        self._order = np.argsort(self.vacancy, kind="stable")
        place = np.argsort(self._order)
        below = place[self._rows] - place[self._columns]
        self._width = int(np.abs(below).max())
        self._in_band = (self._width + below) * self.unknowns + place[self._columns]

    def at_most_vacant(self, tails: Array) -> Array:
        """Return G(v), v = 0..max capacity: the share of servers with vacancy at most v."""
        return self._constant + np.bincount(self.vacancy, weights=self._share * tails, minlength=self.largest + 1)

    def offered_rates(self, at_most: Array) -> tuple[Array, Array, Array]:
        """Return q(v) for v = 1..max capacity, and its derivatives by G(v) and by G(v-1)."""
        upper, lower = at_most[1:], at_most[:-1]
        total, by_upper, by_lower = np.ones_like(upper), np.zeros_like(upper), np.zeros_like(upper)
        power = np.ones_like(upper)  # lower ** k
        for k in range(self.choices - 1):  # Horner's rule: no division, hence no 0/0
            by_upper = by_upper * upper + total
            by_lower = by_lower * upper + (k + 1) * power
            power = power * lower
            total = total * upper + power
        rate = self.system.arrival_rate
        return rate * total, rate * by_upper, rate * by_lower

    def rhs(self, tails: Array) -> Array:
        """Return du/dt."""
        q, _, _ = self.offered_rates(self.at_most_vacant(tails))
        below, above = self.neighbours(tails)
        return np.asarray(q[self.vacancy] * (below - tails) - self.jobs * self.system.service_rate * (tails - above))

    def jacobian(self, tails: Array) -> Array:
        """Return the matrix of derivatives of du/dt."""
        matrix = np.zeros((self.unknowns, self.unknowns))
        np.add.at(matrix, (self._rows, self._columns), self._entries(tails))
        return matrix

    def implicit_move(self, tails: Array, step: float) -> Array:
        """Return the move of one linearised implicit Euler step; an infinite step is Newton's."""
        size = (2 * self._width + 1, self.unknowns)
        band = np.bincount(self._in_band, weights=-self._entries(tails), minlength=size[0] * size[1]).reshape(size)
        band[self._width] += 1 / step
        move = np.empty(self.unknowns)
        move[self._order] = solve_banded((self._width, self._width), band, self.rhs(tails)[self._order])
        return move

    def _entries(self, tails: Array) -> Array:
        """Return the entries of the Jacobian, several to a place, in the order of `_place_entries`."""
        q, by_upper, by_lower = (values[self.vacancy] for values in self.offered_rates(self.at_most_vacant(tails)))
        step = self.neighbours(tails)[0] - tails
        departure = self.jobs * self.system.service_rate
        return np.concatenate(
            [
                (step * by_upper)[self._by_upper[0]] * self._share[self._by_upper[1]],
                (step * by_lower)[self._by_lower[0]] * self._share[self._by_lower[1]],
                -q - departure,
                q[self._not_first],
                departure[self._not_last],
            ]
        )

    def start(self, state: Start | Sequence[Array]) -> Array:
        """Return the flat vector of a start: every server empty, every server full, or given tails n = 0..C_j."""
        if isinstance(state, str):
            if state not in ("empty", "full"):
                raise ValueError(f'start = "{state}": must be "empty", "full" or the tails of each type')
            return np.full(self.unknowns, 1.0 if state == "full" else 0.0)
        parts = [np.asarray(tail, dtype=float) for tail in state]
        expected = [(c + 1,) for c in self.system.capacities]
        if [part.shape for part in parts] != expected:
            raise ValueError(f"start has shapes {[part.shape for part in parts]}: expected {expected}, n = 0..C_j")
        for part in parts:
            if part[0] != 1 or not np.all((part >= 0) & (part <= 1)) or np.any(np.diff(part) > 0):
                raise ValueError("start: each tail must begin with 1, never rise, and stay within 0 and 1")
        return np.concatenate([part[1:] for part in parts])

    def split(self, tails: Array) -> tuple[Array, ...]:
        """Return the tails n = 0..C_j of each type; works on one vector and on an array (instants, unknowns)."""
        one = np.ones((*tails.shape[:-1], 1))
        return tuple(np.concatenate([one, tails[..., part]], axis=-1) for part in self.slices)

    def birth_death(self, at_most: Array) -> Array:
        """Return the tails that each type would have if q(v) stayed at its values for the given G.

        The product form keeps the *relative* accuracy of tails far below 1e-16.
        """
        q, _, _ = self.offered_rates(at_most)
        with np.errstate(divide="ignore"):
            steps = np.log(q[self.vacancy]) - np.log(self.jobs * self.system.service_rate)
        result = np.empty(self.unknowns)
        for part in self.slices:
            weights = np.concatenate([[0.0], np.cumsum(steps[part])])
            probabilities = np.exp(weights - weights.max())
            upwards = np.cumsum(probabilities[::-1])[::-1]
            result[part] = upwards[1:] / upwards[0]
        return result

    def neighbours(self, tails: Array) -> tuple[Array, Array]:
        """Return u_{n-1} and u_{n+1} beside each u_n."""
        below, above = np.roll(tails, 1), np.roll(tails, -1)
        below[self._first], above[self._last] = 1.0, 0.0
        return below, above
