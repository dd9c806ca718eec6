"""What a router process counts beside its core: plain numbers, read at scrape time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from router.events import EndJob
from router.policy import Policy, Server
from router.process.metrics import Histogram
from router.process.outbox import Outbox
from router.protocol.codec import FROM_SERVER

PEERS = ("server", "generator")
MAX_DELAY_S = 3600.0
MOST_TOLD = 10  # errors of one policy in the log: it may raise at each job

_log = logging.getLogger(__name__)


class Waits:
    """Waiting of the jobs that servers of one pool admitted, under one policy.

    Attributes:
        admitted: How many ended, served or abandoned.
        zero: Those of them that started at once.
        waiting_s: Their waiting times, added up. `service_s`: their service times.
    """

    __slots__ = ("admitted", "service_s", "waiting_s", "zero")

    def __init__(self) -> None:
        self.admitted = 0
        self.zero = 0
        self.waiting_s = 0.0
        self.service_s = 0.0


class Traffic:
    """The frames between this router and one kind of peer, and how long their messages were under way.

    Attributes:
        outboxes: Those that are open.
        frames_in: Frames received. `bytes_in`: their bytes.
        refusals: Times that a peer was refused for its own mistake, by reason; `slow`: it did not read.
        pauses: Times that jobs were left unread because so much waited for one of these peers.
        delay_s: One-way delays of received messages, added up. `delayed`: of how many messages.
    """

    def __init__(self) -> None:
        self.outboxes: set[Outbox[Any]] = set()
        self.frames_in = 0
        self.bytes_in = 0
        self.refusals: Counter[str] = Counter()
        self.pauses = 0
        self.delay_s = 0.0
        self.delayed = 0
        self._frames_out = 0
        self._bytes_out = 0

    @property
    def frames_out(self) -> int:
        """Frames sent."""
        return self._frames_out + sum(outbox.frames for outbox in self.outboxes)

    @property
    def bytes_out(self) -> int:
        """Their bytes."""
        return self._bytes_out + sum(outbox.bytes for outbox in self.outboxes)

    def opened(self, outbox: Outbox[Any]) -> None:
        """A connection is open."""
        self.outboxes.add(outbox)

    def closed(self, outbox: Outbox[Any]) -> None:
        """It is closed."""
        self.outboxes.discard(outbox)
        self._frames_out += outbox.frames
        self._bytes_out += outbox.bytes
        self.refusals["slow"] += outbox.overflows

    def under_way(self, delay_s: float, messages: int) -> None:
        """Messages of one frame have come in, by clocks that may be compared."""
        if 0.0 <= delay_s < MAX_DELAY_S:  # else the peer's stamp is wrong
            self.delay_s += delay_s * messages
            self.delayed += messages


class Counts:
    """Plain counts of one router process.

    Args:
        policies: The names of all policies that may come into force.
        time_unit_s: Seconds in a time unit; the buckets of the sojourn times are multiples of it.
        max_pools: The most pools that have series.

    Attributes:
        received: Messages from servers, by type.
        unheard: Ends that nobody was there to hear any more, by how the job had come.
        sojourns_s: Sojourn times at this router of served jobs, by policy.
        waits: By policy and pool.
        traffic: By kind of peer.
        pools: The pools of servers that are linked, and of those that were as long as there is room.
        http_refusals: Requests refused for the client's mistake, by reason.
        policy_errors: Times that a policy raised, by its name.
        decision_s: What it took the core to decide where jobs go, or whom to probe first.
    """

    def __init__(self, policies: Sequence[str], time_unit_s: float, max_pools: int = 100) -> None:
        self.received: dict[type, int] = dict.fromkeys(FROM_SERVER, 0)
        self.unheard = {"http": 0, "stream": 0}
        self.sojourns_s = {policy: Histogram(time_unit_s) for policy in policies}
        self.waits: dict[tuple[str, str], Waits] = {}
        self.traffic = {peer: Traffic() for peer in PEERS}
        self.http_refusals: Counter[str] = Counter()
        self.policy_errors: Counter[str] = Counter()
        self.decision_s = 0.0
        self._time_unit_s = time_unit_s
        self._policies = list(policies)
        self._max_pools = max_pools
        self.pools: dict[str, None] = {}

    def know_pool(self, pool: str, servers: Iterable[Server] = ()) -> None:
        """From now on this pool has its series, for each policy.

        One pool too many takes the place of the oldest one that has none of `servers`, which are those linked now:
        else a process that comes back under ever new names of a pool would add series for ever.
        """
        if pool in self.pools:
            return
        if len(self.pools) >= self._max_pools:
            in_use = {server.pool for server in servers}
            self._forget_pool(next((old for old in self.pools if old not in in_use), ""))
        self.pools[pool] = None
        for policy in self._policies:
            self.waits[policy, pool] = Waits()

    def _forget_pool(self, pool: str) -> None:
        self.pools.pop(pool, None)
        for policy in self._policies:
            self.waits.pop((policy, pool), None)

    def know_policy(self, policy: str) -> None:
        """From now on this policy has its series, for each pool."""
        if policy not in self._policies:
            self._policies.append(policy)
            self.sojourns_s[policy] = Histogram(self._time_unit_s)
            for pool in self.pools:
                self.waits[policy, pool] = Waits()

    def policy_failed(self, policy: Policy, error: Exception) -> None:
        """A policy has raised; the log tells where, the first few times."""
        self.policy_errors[policy.name] += 1
        if self.policy_errors[policy.name] <= MOST_TOLD:
            _log.error("policy %s has raised an error, which is a mistake in it", policy.name, exc_info=error)

    def ended(self, effect: EndJob, sojourn_s: float) -> None:
        """A server has ended a job."""
        end, server = effect.end, effect.server
        assert end is not None and server is not None
        outcome = end.outcome
        if outcome == "served":
            self.sojourns_s[effect.policy].observe(sojourn_s)
        elif outcome != "abandoned":
            return
        waits = self.waits[effect.policy, server.pool]
        waits.admitted += 1
        waits.service_s += end.service
        if end.waiting > 0.0:
            waits.waiting_s += end.waiting
        else:
            waits.zero += 1
