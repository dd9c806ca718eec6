"""A router in slotted time: the policies of continuous time, told what a slot tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from router.policy import Answer, Assign, Block, Job, Policy, Probe, Server
from router.protocol.errors import LocalProtocolError


class Placed(NamedTuple):
    """Where a job went.

    Attributes:
        place: Of its server.
        assign: The decision. `stale`: the queue length that it was made on was not the true one.
    """

    place: int
    assign: Assign
    stale: bool


class SlottedRouter:
    """One router: its policy, and its own picture of the servers.

    Rule: what it learns of a server is the queue length at the start of the slot, to which it adds the jobs that it has
    itself sent there in this slot; it never sees what other routers send in this slot. It asks the servers that its
    policy wants to probe once in a slot, for all jobs of its batch. Servers that `Assign.refresh` names are asked after
    the batch.

    Attributes:
        asked: Servers that it has asked for their lengths so far; each costs a probe and a report.
    """

    def __init__(self, name: str, policy: Policy, servers: list[Server]) -> None:
        self.name = name
        self.policy = policy
        self.servers = servers
        self.asked = 0
        kind = type(policy)
        reports = policy.needs.reports
        self._place = {server: place for place, server in enumerate(servers)}
        self._asks_all = reports is not None and reports.change
        self._on_slot = kind.on_slot is not Policy.on_slot
        self._on_report = kind.on_report is not Policy.on_report
        self._on_sent = kind.on_sent is not Policy.on_sent
        self._on_job_ended = kind.on_job_ended is not Policy.on_job_ended
        self._lengths: Sequence[int] = ()
        self._own: dict[int, int] = {}
        self._probed: Sequence[Server] = ()
        self._refresh: dict[Server, None] = {}
        self._whole: Assign | None = None
        for server in servers:
            server.view = 0  # all begin empty, and say so
            policy.on_join(server)

    def begin(self, lengths: Sequence[int]) -> None:
        """A slot begins; what the policy samples in every slot is asked now.

        Args:
            lengths: The queue length of each server at the start of this slot.
        """
        self._lengths = lengths
        if self._on_slot:
            sampled = self.policy.on_slot()
            self.asked += len(sampled)
            for server in sampled:
                self.told(self._place[server], lengths[self._place[server]])

    def place(self, job: Job) -> Placed:
        """Decide where a job of this slot's batch goes, and send it there."""
        if self._asks_all and not self._own:
            self._ask_all()
        assign = self._decide(job)
        server = assign.server
        place = self._place[server]
        own = self._own.get(place, 0)
        stale = assign.expected is not None and assign.expected != self._lengths[place] + own
        self._own[place] = own + 1
        server.sent += 1
        server.outstanding += 1
        if server.view is not None:
            server.view += 1
        if self._on_sent:
            self.policy.on_sent(server)
        if assign.refresh:
            self._refresh.update(dict.fromkeys(assign.refresh))
        return Placed(place, assign, stale)

    def batch_over(self) -> None:
        """All jobs of this slot have been sent."""
        if self._refresh:
            self.asked += len(self._refresh)
            for server in self._refresh:
                place = self._place[server]
                self.told(place, self._lengths[place] + self._own.get(place, 0))
            self._refresh = {}
        self._own = {}
        self._probed = ()
        self._whole = None

    def told(self, place: int, length: int) -> None:
        """A server's queue length is known."""
        server = self.servers[place]
        server.view = length
        if self._on_report:
            self.policy.on_report(server)

    def ended(self, place: int, length: int | None) -> None:
        """A job of this router has been served; `length`: what rides on its end, if anything does."""
        server = self.servers[place]
        server.outstanding -= 1
        if length is not None:
            server.view = length
        if self._on_job_ended:
            self.policy.on_job_ended(server)

    def _ask_all(self) -> None:
        self.asked += len(self.servers)
        for place, (server, length) in enumerate(zip(self.servers, self._lengths, strict=True)):
            if server.view != length:
                self.told(place, length)

    def _decide(self, job: Job) -> Assign:
        if self._whole is not None:
            return self._whole
        decision: Assign | Probe | Block
        if self._probed:
            decision = self.policy.on_reports(job, self._answers())
        else:
            decision = self.policy.on_arrival(job)
            if type(decision) is Probe:
                self._probed = decision.servers
                self.asked += len(decision.servers)
                decision = self.policy.on_reports(job, self._answers())
        if type(decision) is not Assign:
            raise LocalProtocolError(f"router {self.name}: {decision}, though every server has unlimited room")
        if self.policy.whole_batches:
            self._whole = decision
        return decision

    def _answers(self) -> list[Answer]:
        answers = []
        for server in self._probed:
            place = self._place[server]
            answers.append((server, self._lengths[place] + self._own.get(place, 0)))
        return answers
