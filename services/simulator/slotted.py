"""A scenario in slotted time: all that happens in a slot happens at once, in a fixed order.

In each slot (1) the queue lengths Q(t) are read; (2) the messages about them reach the routers; (3) each router's
Poisson batch arrives and is dealt out on what the router knows by then, so that no router sees the jobs that others
send in this slot; (4) each server serves as many jobs as its capacity of this slot allows, first come first served,
those of this slot included: Q(t + 1) = max(Q(t) + arrivals − capacity, 0). Capacities are geometric on 0, 1, 2, … with
mean `rate`. A job that arrives in slot s and is served in slot t has the sojourn time t − s + 1.

Source: Vargaftik, Keslassy, Orda 2020, arXiv:2003.02368. The order of a slot and the laws are those of the simulations
for "Stochastic Coordination in Heterogeneous Load Balancing Systems", Goren, Vargaftik, Moses 2021.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from router.policy import Job, Server
from router.protocol.messages import CONTROL_KINDS, WORK_KINDS
from router.registry import make_policy
from services.loadgen.arrivals import uniforms
from services.loadgen.workload import Workload, draw_workload
from services.measure.records import Floats, Ints, MessageLog, Records, Run
from services.scenario import Scenario
from services.simulator.slotted_router import SlottedRouter
from services.simulator.slotted_servers import SlottedServer

BLOCK = 256
"""Slots whose capacities are drawn at a time."""


def simulate_slotted(
    scenario: Scenario,
    workload: Workload | None = None,
    *,
    replication: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Run a scenario in slotted time, from empty until the last job has been served.

    Its records are such that the measures of continuous time mean what they mean in slotted time: a job that arrives
    in slot s is seen in its queue from the start of slot s + 1 on, and waits until it is served; service takes no time.
    So waiting time is sojourn time − 1, a job waits if it is not served in its own slot, and queue lengths are those at
    the start of slots. `utilisation` is the share of slots that start with jobs at the server; as a geometric capacity
    has no memory, that is arrivals over capacity.

    Messages: lengths that a router asks for cost a probe and a report for each server. `jsq` and `sed` ask all servers
    in each slot that brings them jobs; `power_of_d` and other policies that probe ask once in such a slot; `lsq` with
    `refresh = "sample"` asks in every slot. What servers volunteer costs one message.

    Units: slots.

    Args:
        scenario: What to run; its `run.time` is slotted.
        workload: The jobs; drawn from the scenario if left out. The batch of a slot is what arrives during it.
        replication: Independent choices of the policies on the same jobs and capacities.
        progress: Called now and then with the share of slots that are over.
    """
    if workload is None:
        workload = draw_workload(scenario)
    system = _System(scenario, workload, replication)
    system.run(progress)
    return system.result()


class _System:
    """The whole of a run: routers, servers, and what is written down."""

    def __init__(self, scenario: Scenario, workload: Workload, replication: int) -> None:
        self._workload = workload
        self._fleet = scenario.fleet()
        suffix = f":{replication}" if replication else ""
        specs = scenario.server_specs()
        self._routers = [
            SlottedRouter(
                name,
                make_policy(scenario.policy, Random(f"{scenario.seed}:{name}:policy{suffix}")),
                [Server(spec.id, spec.pool, spec.rate, spec.slots, spec.capacity, spec.pool_index) for spec in specs],
            )
            for name in self._fleet.routers
        ]
        self._servers = [
            SlottedServer(spec, place, self._routers, Random(f"{scenario.seed}:{spec.id}:routers{suffix}"))
            for place, spec in enumerate(specs)
        ]
        self._rates = np.array([spec.rate for spec in specs])
        self._rng = capacity_stream(scenario)
        self._slots = int(np.ceil(scenario.horizon))
        self._slot_of = workload.instants.astype(np.int64)
        needs = self._routers[0].policy.needs
        self._pulls = needs.pull is not None
        self._every = needs.reports.every if needs.reports is not None else None
        self._due = self._every or np.inf

        jobs = len(workload.instants)
        self._server_of = np.empty(jobs, np.int64)
        self._fallback = bytearray(jobs)
        self._stale = bytearray(jobs)
        self._served_by = array("q")
        self._served_in = array("q")
        self._served_number = array("q")
        self._sent = dict.fromkeys((*CONTROL_KINDS, *WORK_KINDS), 0)
        self._readings: dict[str, array[int]] = {kind: array("q", [0]) for kind in self._sent}

    def run(self, progress: Callable[[float], None] | None) -> None:
        """All slots in which jobs may arrive."""
        first = np.searchsorted(self._slot_of, np.arange(self._slots + 1)).tolist()
        for server in self._servers:
            server.open()
        self._deliver_pulls()
        queue = np.zeros(len(self._servers), np.int64)
        for slot, capacity in enumerate(capacities(self._rates, self._slots, self._rng)):
            jobs = range(first[slot], first[slot + 1])
            self._arrive(slot, jobs, queue.tolist())
            queue += np.bincount(self._server_of[jobs.start : jobs.stop], minlength=len(queue))
            served = np.minimum(queue, capacity)
            queue -= served
            self._serve(slot, served)
            for kind, number in self._sent.items():
                self._readings[kind].append(number)
            if progress is not None and slot % BLOCK == 0:
                progress(slot / self._slots)

    def _arrive(self, slot: int, jobs: range, lengths: list[int]) -> None:
        """Messages about the lengths, then the batches; jobs of different routers join a queue in order of arrival."""
        if slot >= self._due:
            self._report_to_all()
        for router in self._routers:
            router.begin(lengths)
        owners = self._workload.routers[jobs.start : jobs.stop].tolist()
        servers = self._servers
        server_of = self._server_of
        for job, owner in zip(jobs, owners, strict=True):
            placed = self._routers[owner].place(Job(job))
            place, assign, wrong_view = placed
            server_of[job] = place
            wrong_message = servers[place].dispatched(owner, placed)
            if assign.fallback:
                self._fallback[job] = 1
            if wrong_view or wrong_message:
                self._stale[job] = 1
        for owner in dict.fromkeys(owners):
            self._routers[owner].batch_over()
        if self._pulls:
            for place in np.unique(server_of[jobs.start : jobs.stop]).tolist():
                servers[place].batches_over(lengths[place])
        self._sent["dispatch"] += len(jobs)

    def _serve(self, slot: int, served: Ints) -> None:
        """Jobs leave, and servers say what they have to say before the next slot."""
        reports = 0
        busy = np.flatnonzero(served)
        numbers = served[busy].tolist()
        places = busy.tolist()
        for place, number in zip(places, numbers, strict=True):
            server = self._servers[place]
            told = server.served(number)
            if told:
                server.deliver(told)
                reports += len(told)
        self._served_by.extend(places)
        self._served_in.extend([slot] * len(places))
        self._served_number.extend(numbers)
        self._sent["end"] += sum(numbers)
        asked = sum(router.asked for router in self._routers)
        self._sent["report"] += reports + asked - self._sent["probe"]
        self._sent["probe"] = asked
        self._deliver_pulls()

    def _report_to_all(self) -> None:
        assert self._every is not None
        self._due += self._every
        for server in self._servers:
            reports = server.report_to_all()
            server.deliver(reports)
            self._sent["report"] += len(reports)

    def _deliver_pulls(self) -> None:
        if self._pulls:
            for server in self._servers:
                pulls, withdrawals = server.deliver_pulls()
                self._sent["pull"] += pulls
                self._sent["withdraw"] += withdrawals

    def result(self) -> Run:
        """One row a job: the k-th job that came to a server is the k-th that it served."""
        workload, jobs = self._workload, len(self._slot_of)
        served_by = np.repeat(np.frombuffer(self._served_by, np.int64), self._served_number)
        served_in = np.repeat(np.frombuffer(self._served_in, np.int64), self._served_number)
        ended = np.empty(jobs)
        for place in range(len(self._servers)):
            mine = np.flatnonzero(self._server_of == place)
            slots = served_in[served_by == place]
            rest = self._rest(place, len(mine) - len(slots))
            ended[mine] = np.concatenate([slots, rest]) + 1
        arrived = self._slot_of.astype(float)
        records = Records(
            intended=arrived,
            sent=arrived,
            arrived=arrived + 1,
            ended=ended,
            waiting=ended - arrived - 1,
            service=np.zeros(jobs),
            size=workload.sizes,
            patience=workload.patience,
            router=workload.routers,
            server=self._server_of,
            outcome=np.zeros(jobs, np.int64),
            faulted=np.zeros(jobs, bool),
            fallback=np.frombuffer(self._fallback, np.uint8).astype(bool),
            stale=np.frombuffer(self._stale, np.uint8).astype(bool),
        )
        starts = np.arange(self._slots + 1)
        log = MessageLog(
            instants=starts.astype(float),
            jobs=np.searchsorted(self._slot_of, starts),
            counts={kind: np.array(readings, np.int64) for kind, readings in self._readings.items()},
        )
        return Run(self._fleet, records, log)

    def _rest(self, place: int, number: int) -> Ints:
        """The slots in which the jobs left over are served.

        Between two services, P(at least k slots end) = (1 + rate)^−k: the same capacities, job by job.
        """
        ends = _geometric(np.array([1.0 / (1.0 + self._rates[place])]), number, self._rng)[:, 0]
        return self._slots + np.cumsum(ends)


def capacity_stream(scenario: Scenario) -> Random:
    """The generator of all capacities of a run: the same for every policy."""
    return Random(f"{scenario.seed}:servers:capacities")


def capacities(rates: Floats, slots: int, rng: Random) -> Iterator[Ints]:
    """The capacities of a slot, slot by slot: P(at least k) = (rate / (1 + rate))^k.

    Args:
        rates: Shape (servers,): their means, in jobs per slot.
        slots: How many.
        rng: The stream of the capacities.

    Yields:
        Shape (servers,).
    """
    for start in range(0, slots, BLOCK):
        yield from _geometric(rates / (1.0 + rates), min(BLOCK, slots - start), rng)


def _geometric(ratios: Floats, rows: int, rng: Random) -> Ints:
    """Independent numbers with P(at least k) = ratio^k; shape (rows, ratios)."""
    drawn = uniforms(rows * len(ratios), rng).reshape(rows, len(ratios))
    return np.floor(np.log1p(-drawn) / np.log(ratios)).astype(np.int64)
