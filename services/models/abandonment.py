"""Queues that jobs leave when their patience ends: single server, one queue for all servers, random split.

A waiting job abandons at rate gamma; whether the job in service may abandon too is a switch. `abandonment_jsq` holds
the chain of the shortest queue, `abandonment_limits` the limit laws for gamma -> 0.

Two identities hold for any number of servers and any routing, as every arrival is admitted and each ends in one of
two ways: P(abandon) = 1 - mu E[busy servers] / lam = gamma E[jobs that may abandon] / lam.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STATES_MAX = 5_000_000


@dataclass(frozen=True)
class AbandonmentSystem:
    """Servers, rates, and whether a job in service may abandon.

    Units:
        Rates per time unit; `arrival_rate` is the total of all servers.
    Assumes:
        Poisson arrivals, exponential services and patience, unlimited room, first come first served.
    Raises:
        ValueError: A parameter is out of range.
    """

    servers: int
    arrival_rate: float
    service_rate: float
    patience_rate: float
    in_service: bool = False

    def __post_init__(self) -> None:
        if operator.index(self.servers) < 1:
            raise ValueError(f"servers = {self.servers}: must be a whole number >= 1")
        for name in ("arrival_rate", "service_rate", "patience_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} = {value}: must be a finite number > 0")

    def departure_rates(self, jobs: NDArray[np.int64]) -> Array:
        """Return the rate at which jobs leave one queue that all servers serve, service and abandonment together."""
        busy = np.minimum(jobs, self.servers)
        return np.asarray(self.service_rate * busy + self.patience_rate * (jobs if self.in_service else jobs - busy))

    def levels(self, smallest: float = 1e-17) -> tuple[int, int]:
        """Return the numbers of jobs outside of which such a queue is with about that probability at most.

        Raises:
            ValueError: There are more than five million between them.
        """
        depth = -math.log(smallest)
        full_rate = float(self.departure_rates(np.array(self.servers)))
        surplus = self.arrival_rate - full_rate
        start = self.servers + math.floor(max(0.0, surplus) / self.patience_rate)  # where arrivals equal departures
        # From there the probability falls by the factor lam / d a step, d growing by gamma a step.
        reach = math.sqrt(2.5 * depth * self.arrival_rate / self.patience_rate) + 2 * depth
        if surplus < 0:
            reach = min(reach, depth / math.log(full_rate / self.arrival_rate) + 1)
        if start + reach > STATES_MAX:
            raise ValueError(
                f"patience_rate = {self.patience_rate}: about {start + reach:.0f} numbers of jobs are likely, "
                f"more than {STATES_MAX}: take the limit law"
            )
        steps = np.arange(1, math.ceil(reach) + 1)
        above = np.cumsum(np.log(self.departure_rates(start + steps) / self.arrival_rate))
        high = start + 1 + int(np.searchsorted(above, depth))
        if surplus <= 0:
            return 0, high
        down = start - steps[steps < start]
        below = np.cumsum(np.log(self.arrival_rate / self.departure_rates(down)))
        reached = int(np.searchsorted(below, depth))
        return (int(down[reached]) if reached < len(down) else 0), high


@dataclass(frozen=True)
class AbandonmentSteadyState:
    """A steady state with abandonment.

    Units:
        Probabilities per arrival; times in time units; jobs.
    Attributes:
        abandon_probability: Share of arrivals that abandon.
        wait_probability: Share of arrivals that find no idle server at the queue they join.
        waiting_mean: Mean waiting time of all jobs, those that abandon and those that need not wait included.
        sojourn_mean: Mean sojourn time of the jobs that are served.
        jobs_in_system_mean: Mean number of jobs, waiting and in service, in all servers together.
        jobs_in_system_variance: Its variance.
        busy_mean: Mean number of busy servers.
        perpendicular_second_moment: E sum_i (q_i - mean q)^2 over the queues; None if there is one queue for all.
        queue_tail: Share of servers with queue length >= k, k = 0, 1, ...; None if there is one queue for all.
        identity_gap: |(1 - mu E[busy] / lam) - gamma E[may abandon] / lam|: 0 but for rounding and truncation.
        truncation_error: What the truncated chain leaves out: rate of transitions dropped / arrival rate.
        states: Number of states of the chain.
    """

    abandon_probability: float
    wait_probability: float
    waiting_mean: float
    sojourn_mean: float
    jobs_in_system_mean: float
    jobs_in_system_variance: float
    busy_mean: float
    perpendicular_second_moment: float | None
    queue_tail: Array | None
    identity_gap: float
    truncation_error: float
    states: int


def abandon_probability_from_busy(arrival_rate: float, service_rate: float, busy_mean: float) -> float:
    """Return P(abandon) = 1 - mu E[busy] / lam: what arrives and is not served abandons.

    Units:
        Rates per time unit; `arrival_rate` in total, `busy_mean` in servers.
    Assumes:
        Steady state, every arrival admitted; any routing, any patience law.
    Source:
        Balance of flow.
    """
    return 1 - service_rate * busy_mean / arrival_rate


def abandon_probability_from_waiting(arrival_rate: float, patience_rate: float, waiting_jobs_mean: float) -> float:
    """Return P(abandon) = gamma E[waiting] / lam (all jobs in place of waiting ones if those in service abandon too).

    Units:
        Rates per time unit; `arrival_rate` in total.
    Assumes:
        Steady state, every arrival admitted, exponential patience; any routing.
    Source:
        Balance of flow.
    """
    return patience_rate * waiting_jobs_mean / arrival_rate


def erlang_a(system: AbandonmentSystem) -> AbandonmentSteadyState:
    """Solve M/M/n+M: one queue that all servers serve.

    Units:
        As `AbandonmentSystem`.
    Assumes:
        As `AbandonmentSystem`. The birth-death chain pi_k ~ prod_{i<=k} lam / d_i, with
        d_i = min(i, n) mu + gamma max(i - n, 0), or gamma i if jobs in service abandon too.
    Source:
        Palm 1943; Garnett, Mandelbaum, Reiman 2002, "Designing a call center with impatient customers".
    """
    n = system.servers
    jobs = np.arange(system.levels()[1] + 1)
    logarithms = np.cumsum(np.log(system.arrival_rate) - np.log(system.departure_rates(jobs[1:])))
    weights = np.exp(np.append(0.0, logarithms) - max(0.0, logarithms.max()))
    probability = weights / weights.sum()
    result = steady_state(system, probability, jobs, np.minimum(jobs, n), jobs - n + 1, n, float(probability[-1]))
    if n > 1:
        return result
    queue_tail = np.minimum(np.cumsum(probability[::-1])[::-1], 1.0)
    return replace(result, perpendicular_second_moment=0.0, queue_tail=queue_tail)


def single_server(
    arrival_rate: float, service_rate: float, patience_rate: float, in_service: bool = False
) -> AbandonmentSteadyState:
    """Solve M/M/1+M: pi_k ~ prod_{i=1..k} lam / (mu + gamma (i - 1)), or gamma i if the job in service abandons too.

    Units:
        Rates per time unit.
    Assumes:
        As `AbandonmentSystem`.
    Source:
        The product form of a birth-death chain; Palm 1943.
    """
    return erlang_a(AbandonmentSystem(1, arrival_rate, service_rate, patience_rate, in_service))


def random_split(system: AbandonmentSystem) -> AbandonmentSteadyState:
    """Solve uniformly random routing: n independent M/M/1+M, each with a share lam / n of the arrivals.

    Units:
        As `AbandonmentSystem`.
    Assumes:
        As `AbandonmentSystem`; means and variances of independent queues add up, and
        E sum (q_i - mean q)^2 = (n - 1) Var(q_1).
    Source:
        Thinning of a Poisson process; `single_server`.
    """
    n = system.servers
    one = single_server(system.arrival_rate / n, system.service_rate, system.patience_rate, system.in_service)
    return replace(
        one,
        jobs_in_system_mean=n * one.jobs_in_system_mean,
        jobs_in_system_variance=n * one.jobs_in_system_variance,
        busy_mean=n * one.busy_mean,
        perpendicular_second_moment=(n - 1) * one.jobs_in_system_variance,
    )


def steady_state(
    system: AbandonmentSystem,
    probability: Array,
    jobs: NDArray[np.int64],
    busy: NDArray[np.int64],
    places: NDArray[np.int64],
    line_servers: int,
    truncation_error: float,
) -> AbandonmentSteadyState:
    """Sum up a steady state over its states.

    A job that joins a line at place p >= 1 (place 0 and below: served at once) moves up at rate r + (p - 1) gamma,
    r = m (mu, and gamma if those in service abandon) for m servers, and abandons at rate gamma. The product over the
    places telescopes: it reaches service with probability r / (r + p gamma), after sum_{i<=p} 1 / (r + i gamma).

    Units:
        As `AbandonmentSystem`.
    Assumes:
        As `AbandonmentSystem`; jobs that join a line behind a job do not change its fate.
    Args:
        system: The system.
        probability: Probability of each state.
        jobs: Number of jobs in each state.
        busy: Number of busy servers in each state.
        places: Place in line that an arrival gets in each state.
        line_servers: Number m of servers that serve one line.
        truncation_error: Rate of transitions dropped / arrival rate.
    Source:
        Poisson arrivals see time averages; Little's law.
    """
    lam, gamma = system.arrival_rate, system.patience_rate
    mean, busy_mean = float(probability @ jobs), float(probability @ busy)
    abandoning = mean if system.in_service else float(probability @ (jobs - busy))
    abandon = abandon_probability_from_waiting(lam, gamma, abandoning)

    places = np.maximum(places, 0)
    joins = np.bincount(places, weights=probability)
    end_rate = system.service_rate + (gamma if system.in_service else 0.0)  # of a job in service
    place = np.arange(len(joins))
    rates = line_servers * end_rate + place * gamma
    reaches = joins * rates[0] / rates
    waits = np.cumsum(1 / rates) - 1 / rates[0]
    return AbandonmentSteadyState(
        abandon_probability=abandon,
        wait_probability=float(joins[1:].sum()),
        waiting_mean=float(probability @ (jobs - busy)) / lam,
        sojourn_mean=float(reaches @ waits / reaches.sum()) + 1 / end_rate,
        jobs_in_system_mean=mean,
        jobs_in_system_variance=float(probability @ (jobs - mean) ** 2),
        busy_mean=busy_mean,
        perpendicular_second_moment=None,
        queue_tail=None,
        identity_gap=abs(abandon_probability_from_busy(lam, system.service_rate, busy_mean) - abandon),
        truncation_error=truncation_error,
        states=len(probability),
    )
