"""What a decision costs at 100,000 servers, as a multiple of what it costs at 100.

Two costs are measured. The *decision* is the core's work from a job's arrival to its dispatch, the policy's index
brought up to date. The *whole* is all of a router's work for a job: the decision, the messages about it, and its end.
In each round some jobs arrive and are dispatched, their servers report or announce themselves, and as many earlier jobs
end: so the system stays where it is, with half of the servers busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from time import perf_counter

from router.core import JobArrived, RouterCore, RouterEffect, ServerJoined
from router.policy import Job, Server
from router.protocol.messages import Dispatch, End, Pull, Report
from router.registry import make_policy
from tests.bench.table import Ratio, interleaved

FEW, MANY = 100, 100_000
DECISIONS = 30_000
BURST = 20
"""Jobs of a round; a few, so that they are no load worth mentioning to 100 servers."""
POLICIES = {"pull": "<= 1.5", "jsq": "<= 2", "sed": "<= 2"}


class Driven:
    """A router's core, and just enough of the servers to keep it going."""

    def __init__(self, policy: str, servers: int) -> None:
        self.core = RouterCore("router-1", make_policy({"name": policy}, Random(1)))
        self.pulls = policy == "pull"
        self.lengths = {f"s-{place}": 0 for place in range(servers)}
        self.seen = dict.fromkeys(self.lengths, 0)
        self.under_way: deque[Dispatch] = deque()
        self.jobs = 0
        self.numbers = dict.fromkeys(self.lengths, 0)  # of the pull-messages, counted by each server
        rng = Random(2)
        for id in self.lengths:
            rate = rng.choice([1.0, 1.5, 2.0, 4.0]) if policy == "sed" else 1.0
            self.core.handle(ServerJoined(Server(id, "a", rate, 1, float("inf"))), 0.0)
            if self.pulls:
                self._pull(id)
            else:
                self._report(id)
        for _ in range(servers // 2):
            self._arrive()
        # In no order: else the last to come would be the next to go.
        shuffled = list(self.under_way)
        rng.shuffle(shuffled)
        self.under_way = deque(shuffled)

    def decisions_per_s(self) -> float:
        """How many decisions there is time for in a second."""
        handle, deciding_s = self.core.handle, 0.0
        for _ in range(DECISIONS // BURST):
            arrivals = [JobArrived(Job(self.jobs + number)) for number in range(BURST)]
            began = perf_counter()
            dispatches = [handle(arrival, 0.0)[0] for arrival in arrivals]
            deciding_s += perf_counter() - began
            self._dispatched(dispatches)
            for _ in range(BURST):
                self._depart()
        return DECISIONS / deciding_s

    def jobs_per_s(self) -> float:
        """How many jobs there is time for in a second."""
        began = perf_counter()
        for _ in range(DECISIONS):
            self._arrive()
            self._depart()
        return DECISIONS / (perf_counter() - began)

    def _arrive(self) -> None:
        self._dispatched(self.core.handle(JobArrived(Job(self.jobs)), 0.0))

    def _dispatched(self, effects: Sequence[RouterEffect]) -> None:
        self.jobs += len(effects)
        for dispatch in effects:
            assert type(dispatch) is Dispatch
            self.under_way.append(dispatch)
            if not self.pulls:
                self.lengths[dispatch.server] += 1
                self.seen[dispatch.server] += 1
                self._report(dispatch.server)

    def _depart(self) -> None:
        server, router, number, *_ = self.under_way.popleft()
        self.core.handle(End(server, router, number, "served", "", 0.0, 0.0, 1.0, False, None, None), 0.0)
        if self.pulls:
            self._pull(server)
        else:
            self.lengths[server] -= 1
            self._report(server)

    def _pull(self, server: str) -> None:
        self.numbers[server] += 1
        self.core.handle(Pull(server, "router-1", self.numbers[server]), 0.0)

    def _report(self, server: str) -> None:
        self.core.handle(Report(server, "router-1", self.lengths[server], self.seen[server], None), 0.0)


def ratios() -> list[Ratio]:
    """The cost with many servers over that with few."""
    found = []
    for policy, target in POLICIES.items():
        many, few = Driven(policy, MANY), Driven(policy, FEW)
        for what, of_many, of_few, aim in (
            ("a decision", many.decisions_per_s, few.decisions_per_s, target),
            ("a whole job", many.jobs_per_s, few.jobs_per_s, ""),
        ):
            first, second = interleaved(of_many, of_few, rounds=5)
            name = f"{policy}: {what} at {MANY:,} / {FEW} servers"
            found.append(Ratio(name, second / first, aim, f"{1e6 / first:.2f} µs", f"{1e6 / second:.2f} µs"))
    return found
