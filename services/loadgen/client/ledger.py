"""The generator's book: one row a job, written as things happen."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter

import numpy as np

from router.protocol.errors import RemoteProtocolError
from router.protocol.messages import OUTCOMES
from router.protocol.stream import Answer
from services.loadgen.client.result import Generation
from services.loadgen.workload import Workload
from services.measure.records import NOT_ITS_DOING, Floats, Records

NAN = float("nan")
MOST_TWICE = 100
_PLACE = {outcome: place for place, outcome in enumerate(OUTCOMES)}


class Ledger:
    """Books the sending and the end of each job, in seconds of the monotonic clock.

    Attributes:
        sent: Jobs sent so far. `ended`: those with an end.
        doubled: Ends of jobs that had one already; they change nothing. `twice`: the first such jobs.
        all_ended: Set when every job has its end.
        one_clock: Whether the instants in answers are on this host's clock.
        delay_s: Sum of the one-way delays of answers, of which there are `delays`.
    """

    def __init__(self, workload: Workload) -> None:
        jobs = len(workload.instants)
        self.sent = 0
        self.ended = 0
        self.doubled = 0
        self.twice: list[int] = []
        self.all_ended = asyncio.Event()
        if not jobs:
            self.all_ended.set()
        self.one_clock = True
        self.delay_s = 0.0
        self.delays = 0
        self.reasons: Counter[str] = Counter()
        self._reasons: dict[str, int] = {"": 0}
        self._reason = array("q", [0]) * jobs
        self._workload = workload
        self._servers: dict[str, int] = {"": -1}
        self._pools: list[str] = []
        self._sent_s = array("d", [NAN]) * jobs
        self._ended_s = array("d", [NAN]) * jobs
        self._arrived_s = array("d", [NAN]) * jobs
        self._waiting_s = array("d", [NAN]) * jobs
        self._service_s = array("d", [NAN]) * jobs
        self._server = array("q", [-1]) * jobs
        self._outcome = array("q", [-1]) * jobs
        self._flags = bytearray(jobs)

    def __len__(self) -> int:
        return len(self._outcome)

    def sends(self, job: int, now: float) -> None:
        """The job goes out."""
        self._sent_s[job] = now
        self.sent += 1

    def ends(self, answer: Answer, now: float) -> None:
        """The job has come back.

        Raises:
            RemoteProtocolError: There is no such job.
        """
        row = answer[0]
        if not 0 <= row < len(self._outcome):
            raise RemoteProtocolError(f"the end of job {row}, expected that of one of {len(self._outcome)}, from 0")
        if self._outcome[row] >= 0:
            self.doubled += 1
            if len(self.twice) < MOST_TWICE:
                self.twice.append(row)
            return
        _, outcome, reason, server, pool, _, arrived, waiting, service, fallback, stale = answer
        self.ended += 1
        if self.ended == len(self._outcome):
            self.all_ended.set()
        self._ended_s[row] = now
        self._outcome[row] = _PLACE[outcome]
        if reason:
            self.reasons[reason] += 1
            self._reason[row] = self._reasons.setdefault(reason, len(self._reasons))
        if fallback or stale:
            self._flags[row] = fallback + 2 * stale
        if server:
            place = self._servers.get(server)
            if place is None:
                place = self._servers[server] = len(self._pools)
                self._pools.append(pool)
            self._server[row] = place
            self._arrived_s[row] = arrived
            self._waiting_s[row] = waiting
            self._service_s[row] = service

    def close(self, start_s: float, time_unit_s: float, cpu_share: float) -> Generation:
        """Everything in time units from the schedule's start."""

        def instants(column: array[float]) -> Floats:
            return (np.array(column) - start_s) / time_unit_s

        workload = self._workload
        sent, ended = instants(self._sent_s), instants(self._ended_s)
        waiting, service = np.array(self._waiting_s) / time_unit_s, np.array(self._service_s) / time_unit_s
        symmetric = sent + (ended - sent - waiting - service) / 2.0
        flags = np.frombuffer(bytes(self._flags), np.uint8)
        places = np.array(self._server)
        whose = [place for reason, place in self._reasons.items() if reason not in NOT_ITS_DOING]
        records = Records(
            intended=workload.instants,
            sent=sent,
            arrived=instants(self._arrived_s) if self.one_clock else symmetric,
            ended=ended,
            waiting=waiting,
            service=service,
            size=workload.sizes,
            patience=workload.patience,
            router=workload.routers,
            server=places,
            outcome=np.array(self._outcome),
            faulted=(places >= 0) & np.isin(np.array(self._reason), whose),
            fallback=(flags & 1).astype(bool),
            stale=(flags & 2).astype(bool),
        )
        late = (sent - workload.instants)[np.isfinite(sent)]
        return Generation(
            records=records,
            servers=list(self._servers)[1:],
            pools=self._pools,
            reasons=dict(self.reasons),
            why=np.array(self._reason),
            whys=list(self._reasons),
            doubled=self.doubled,
            twice=self.twice,
            start_s=start_s,
            one_clock=self.one_clock,
            router_generator_units=self.delay_s / self.delays / time_unit_s if self.delays else NAN,
            lateness_p99_units=float(np.quantile(late, 0.99)) if len(late) else 0.0,
            cpu_share=cpu_share,
        )
