"""The simulator against a SimPy program of the same model: power of two choices, 1,000 servers, load 0.7."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

import simpy

from services.loadgen.workload import draw_workload
from services.scenario import parse_scenario
from services.simulator.run import simulate
from tests.bench.table import Ratio, interleaved, timed

SERVERS, LOAD, DURATION = 1000, 0.7, 60.0

SCENARIO = f"""
name = "bench"
policy = {{name = "power_of_d", d = 2}}
pools = [{{name = "a", servers = {SERVERS}}}]
arrivals = {{load = {LOAD}}}
run = {{warmup = 0, duration = {DURATION}}}
"""


def ours() -> int:
    """Simulate; returns the number of jobs."""
    scenario = parse_scenario(SCENARIO, "bench")
    workload = draw_workload(scenario)
    return len(simulate(scenario, workload).records.intended)


def theirs() -> int:
    """The same model as SimPy's users write it: a process a job, a Resource a server, and a row a job at the end."""
    rng = Random(1)
    environment = simpy.Environment()
    servers = [simpy.Resource(environment) for _ in range(SERVERS)]
    rows: list[tuple[float, float, float, float, int]] = []

    def length(server: Any) -> int:
        return len(server.users) + len(server.queue)

    def job() -> Generator[Any, Any, None]:
        arrived = environment.now
        one, other = rng.sample(range(SERVERS), 2)
        difference = length(servers[one]) - length(servers[other])
        place = one if difference < 0 or (difference == 0 and rng.random() < 0.5) else other
        with servers[place].request() as request:
            yield request
            started, service = environment.now, rng.expovariate(1.0)
            yield environment.timeout(service)
        rows.append((arrived, started - arrived, service, environment.now, place))

    def arrivals() -> Generator[Any, Any, None]:
        while environment.now < DURATION:
            yield environment.timeout(rng.expovariate(LOAD * SERVERS))
            environment.process(job())

    environment.process(arrivals())
    environment.run()
    return len(rows)


def ratios() -> list[Ratio]:
    """Jobs per second of processor time, ours over theirs."""
    first, second = interleaved(lambda: timed(ours), lambda: timed(theirs), rounds=5)
    name = f"simulator / SimPy (power_of_d, n = {SERVERS})"
    return [Ratio(name, first / second, ">= 1", f"{first:,.0f} jobs/s", f"{second:,.0f} jobs/s")]
