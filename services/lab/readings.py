"""What the readings of a run's counters say: delays, messages in time, and how busy the processes were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from router.policy import Policy
from router.protocol.messages import CONTROL_KINDS
from services.measure.quantities import SERVED
from services.measure.records import Floats, MessageLog, Records
from services.simulator.network import Delays


@dataclass(frozen=True)
class Reading:
    """All counters of all processes at about one instant.

    Attributes:
        instant_s: On this host's monotonic clock.
        jobs: That had arrived at routers.
        sent: Control messages, by kind.
        delay_s: One-way delays by hop, added up, and `delayed`: of how many messages.
        cpu_s: CPU seconds of each process, by URL.
    """

    instant_s: float
    jobs: int
    sent: dict[str, int]
    delay_s: dict[str, float]
    delayed: dict[str, float]
    cpu_s: dict[str, float]


def message_log(readings: Sequence[Reading], start_s: float, time_unit_s: float) -> MessageLog:
    """The readings as a run keeps them."""
    return MessageLog(
        np.array([(reading.instant_s - start_s) / time_unit_s for reading in readings]),
        np.array([reading.jobs for reading in readings], np.int64),
        {kind: np.array([reading.sent[kind] for reading in readings], np.int64) for kind in CONTROL_KINDS},
    )


def between(readings: Sequence[Reading], from_s: float, to_s: float) -> tuple[Reading, Reading]:
    """The first reading at or after `from_s`, and the last one at or before `to_s`, or those next to them."""
    inside = [reading for reading in readings if from_s <= reading.instant_s <= to_s]
    if len(inside) < 2:
        return readings[0], readings[-1]
    return inside[0], inside[-1]


def measured_delays(
    first: Reading,
    last: Reading,
    records: Records,
    router_generator_units: float,
    time_unit_s: float,
    asked: float = 0.0,
    average: Callable[[Floats], Any] = np.mean,
) -> Delays:
    """Mean one-way delays of the jobs.

    A job's own instants give the whole way there and back: with the time that messages waited to be sent, and with
    the lag of the timer that ended its service. The stamps of messages say how that divides into hops. A job that
    waits for answers goes between router and server three times before it is there. No timer keeps an answer: where
    each job waits for answers, they take a third of that way at most, and the lag of ends, which hold no decision up,
    counts as part of their way home. Else answers would seem older at the decision than they are.

    Args:
        first: The reading at the beginning of the window.
        last: The reading at its end.
        records: Those of the jobs that count.
        router_generator_units: The mean by stamps; nan: unknown.
        time_unit_s: Seconds in a time unit.
        asked: The share of the jobs that waited for answers.
        average: Of many delays; the median does not see the few jobs that something has held up.
    """
    went = (records.server >= 0) & (records.outcome == SERVED)
    if not went.any():
        return Delays()
    there = max(float(average((records.arrived - records.sent)[went])), 0.0)
    back = max(float(average((records.ended - records.arrived - records.waiting - records.service)[went])), 0.0)
    messages = last.delayed.get("generator_router", 0.0) - first.delayed.get("generator_router", 0.0)
    seconds = last.delay_s.get("generator_router", 0.0) - first.delay_s.get("generator_router", 0.0)
    out = min(seconds / messages / time_unit_s, there) if messages else there / 2.0
    home = min(router_generator_units, back) if router_generator_units >= 0.0 else back / 2.0
    # The way there is out + a dispatch + the share asked × (a probe + an answer).
    server_router = min(back - home, (there - out) / 3.0) if asked == 1.0 else back - home
    router_server = max(there - out - asked * server_router, 0.0) / (1.0 + asked)
    return Delays(out, router_server, server_router, back - server_router)


def share_asked(policy: Policy, records: Records) -> float:
    """The share of the jobs whose router asked servers, and waited for the answers, before it decided.

    Rule: a policy that decides on answers waits for them with each job; one that is sent pull-messages as well waits
    only where it holds none, and falls back.
    """
    if not policy.needs.probes or type(policy).on_reports is Policy.on_reports:
        return 0.0
    if policy.needs.pull is None:
        return 1.0
    return float(records.fallback.mean()) if records.fallback.size else 0.0


def cpu_shares(first: Reading, last: Reading) -> dict[str, float]:
    """Cores used by each process between two readings, by URL."""
    seconds = max(last.instant_s - first.instant_s, 1e-9)
    # A process that began later, or anew, has used what it says.
    before = {url: used if used <= last.cpu_s[url] else 0.0 for url, used in first.cpu_s.items()}
    return {url: (used - before.get(url, 0.0)) / seconds for url, used in last.cpu_s.items()}
