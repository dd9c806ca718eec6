"""What must hold in every run, not within an interval but to within what is in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from router.protocol.messages import OUTCOMES
from services.lab.scrape import Samples, control_messages
from services.measure.quantities import ABANDONED, SERVED
from services.measure.records import Records
from services.scenario import Scenario

HARMLESS = {"slow", "fail", "delay", "resume", "heal"}
"""Kinds of faults after which every pull-message is still where its server believes it to be."""


@dataclass(frozen=True)
class Check:
    """Two counts that must be equal.

    Attributes:
        name: Of the identity. `text`: what is compared.
        found, expected: The two counts.
        tolerance: What is in flight, or was lost with a link, and so may be missing on one side.
    """

    name: str
    text: str
    found: float
    expected: float
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether they are equal to within the tolerance."""
        return abs(self.found - self.expected) <= self.tolerance


@dataclass(frozen=True)
class Totals:
    """What the counters of all processes gained from before the first job until after the last one.

    Attributes:
        jobs: That arrived at routers. `ends`: their ends, by outcome.
        dispatches, fallbacks: As the routers count them.
        sent: Control messages, by kind. `unheld`: withdrawals that came too late.
        held: Pull-messages that routers hold, the gain.
        in_flight: Jobs dispatched and not ended, the gain; `busy`: before and after, added up.
        served_at: What the servers count: dispatches received, and ends; `None`: no server process is known.
        lost: Messages lost with a link.
    """

    jobs: int
    ends: dict[str, int]
    dispatches: int
    fallbacks: int
    sent: dict[str, int]
    unheld: int
    held: int
    in_flight: int
    busy: int
    served_at: tuple[int, int] | None
    lost: int


def totals(
    before: Mapping[str, Samples], after: Mapping[str, Samples], routers: Sequence[str], servers: Sequence[str]
) -> Totals:
    """Add up what the processes, by URL, have counted; of an incarnation that began later, nothing was before."""
    before = {url: before.get(url, Samples("")) for url in after}

    def gain(urls: Sequence[str], name: str, **labels: str) -> int:
        return round(sum(after[url].total(name, **labels) - before[url].total(name, **labels) for url in urls))

    def both(name: str) -> int:
        return round(sum(samples[url].total(name) for url in routers for samples in (before, after)))

    first, last = (
        control_messages([samples[url] for url in routers], [samples[url] for url in servers])
        for samples in (before, after)
    )
    return Totals(
        jobs=gain(routers, "herdless_router_jobs_total"),
        ends={outcome: gain(routers, "herdless_router_ends_total", outcome=outcome) for outcome in OUTCOMES},
        dispatches=gain(routers, "herdless_router_dispatches_total"),
        fallbacks=gain(routers, "herdless_router_fallback_dispatches_total"),
        sent={kind: count - first[kind] for kind, count in last.items()},
        unheld=gain(routers, "herdless_router_unheld_withdrawals_total"),
        held=gain(routers, "herdless_router_pull_messages_held"),
        in_flight=gain(routers, "herdless_router_in_flight") + gain(routers, "herdless_router_probing"),
        busy=both("herdless_router_in_flight"),
        served_at=(
            gain(servers, "herdless_server_arrivals_total"),
            gain(servers, "herdless_server_jobs_total") + gain(servers, "herdless_server_queue_length"),
        )
        if servers
        else None,
        lost=gain(servers, "herdless_server_messages_lost_total"),
    )


def conservation(
    records: Records, found: Totals, *, ended_early: bool = False, unsent: int = 0, router_drained: bool = False
) -> list[Check]:
    """Every job that was sent arrived once and ended once, at the generator, the routers and the servers.

    Args:
        records: One row a job.
        found: What all counters gained.
        ended_early: Processes have ended within the run: nobody knows the last that they counted.
        unsent: Jobs that the generator gave up itself, because a router was not to be reached or was lost.
        router_drained: A router has ended in order: what it counted after it was read for the last time, which may be
            a while before, is in its event log only.
    """
    jobs = len(records.intended)
    ended = int((records.outcome >= 0).sum())
    sent = int(np.isfinite(records.sent).sum())
    failed = found.ends["failed"]
    checks = [Check("conservation.generator", "jobs of the schedule = their ends", ended, jobs)]
    if not router_drained:
        checks.append(Check("conservation.sent", "jobs at routers = jobs sent", found.jobs, sent, unsent))
    at_routers = sum(found.ends.values()) + found.in_flight
    checks.append(Check("conservation.routers", "ends at routers = jobs", at_routers, found.jobs))
    if found.served_at is not None:
        received, left = found.served_at
        if not ended_early:
            text = "jobs at servers = dispatches"
            checks.append(Check("conservation.dispatches", text, received, found.dispatches, failed))
        checks.append(Check("conservation.servers", "ends at servers = jobs", left, received))
    return checks


def identities(scenario: Scenario, records: Records, found: Totals) -> list[Check]:
    """The message identities of the policy, if it has some, and no link was lost."""
    if scenario.policy_name != "pull" or not HARMLESS.issuperset(fault.kind for fault in scenario.timeline()):
        return []
    pulls, used = found.sent["pull"], found.dispatches - found.fallbacks
    in_time = found.sent["withdraw"] - found.unheld
    slack = found.busy + found.ends["failed"] + found.lost
    checks = [
        Check(
            "identity.pull_used", "pull-messages = dispatches by one + withdrawn in time",
            pulls, used + in_time + found.held, slack,
        )
    ]  # fmt: skip
    one_slot = all(pool.slots == 1 for pool in scenario.pools)
    if one_slot and scenario.parameter("announce_at") == 0 and scenario.parameter("stale") != "keep":
        # Each fall of a server to idle is one message, and there are as many rises from idle.
        admitted = (records.outcome == SERVED) | (records.outcome == ABANDONED)
        at_once = int((admitted & (records.waiting == 0.0)).sum())
        text = "pull-messages = jobs that started at once"
        checks.append(Check("identity.pull", text, pulls, at_once, slack))
    return checks
