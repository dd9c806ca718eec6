"""What a router does with three times the jobs that its servers can serve, and afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

import pytest
from aiohttp import ClientSession, TCPConnector
from prometheus_client.parser import text_string_to_metric_families

from tests.live.test_router_process import Process, cluster

UNIT_S = 0.05
SERVERS = 10
CAPACITY_PER_S = SERVERS / UNIT_S  # 200: all jobs have the mean size
PHASES = (0.8, 1.0, 3.0, 0.8, 0.8)  # in the fourth, what is left of the third is still there
PHASE_S = 0.8
TRIES = 3


@dataclass
class Phase:
    """The answers to the jobs of one load: how long each took, and how many were served while it lasted."""

    served_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    goodput: int = 0


async def post(session: ClientSession, router: Process, phases: list[Phase], own: Phase, began_s: float) -> None:
    """Send one job; it counts as goodput of the phase in which its answer came."""
    sent_s = monotonic()
    async with session.post(f"{router.url}/v1/jobs", json={"size": 1.0}) as response:
        status = response.status
    now = monotonic()
    assert status in (200, 503)
    (own.served_s if status == 200 else own.refused_s).append(now - sent_s)
    if status == 200 and (place := int((now - began_s) / PHASE_S)) < len(phases):
        phases[place].goodput += 1


async def measure(session: ClientSession, router: Process) -> tuple[list[Phase], float]:
    """Send all phases, open loop: no job waits for the answer of another; also, how late the latest job was."""
    phases = [Phase() for _ in PHASES]
    late_s = 0.0
    began_s = monotonic()
    async with asyncio.TaskGroup() as posting:
        for place, load in enumerate(PHASES):
            jobs = round(load * CAPACITY_PER_S * PHASE_S)
            for number in range(jobs):
                due_s = began_s + (place + number / jobs) * PHASE_S
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                late_s = max(late_s, monotonic() - due_s)
                posting.create_task(post(session, router, phases, phases[place], began_s))
    return phases, late_s


@pytest.mark.parametrize(
    ("capacity", "ceiling", "reason"),
    [("inf", 4 * SERVERS, "ceiling"), (4, 100_000, "")],
    ids=["endless queues and a ceiling", "short queues"],
)
async def test_at_three_times_capacity_the_servers_stay_busy_and_the_rest_is_refused_at_once(capacity, ceiling, reason):
    async with cluster() as our, ClientSession(connector=TCPConnector(limit=0)) as session:
        router = our.router(ceiling=ceiling, time_unit_s=UNIT_S)
        our.servers(router, count=SERVERS, capacity=capacity, time_unit_s=UNIT_S)
        await our.ready(router, SERVERS)
        refused = 0
        for _ in range(TRIES):
            phases, late_s = await measure(session, router)
            refused += sum(len(phase.refused_s) for phase in phases)
            if late_s < 0.1 * PHASE_S:
                break  # else it was not the load that was meant: the machine has other things to do
        low, full, over, _, again = phases
        # Each job has one answer.
        assert len(over.served_s) + len(over.refused_s) == round(3.0 * CAPACITY_PER_S * PHASE_S)
        assert over.refused_s
        # The servers get on as well as when they could just do everything, and a refusal waits for none of them.
        assert over.goodput >= 0.9 * full.goodput
        assert median(over.refused_s) < median(over.served_s) / 2
        # When the load has fallen, everything is as it was before.
        assert again.goodput >= 0.9 * low.goodput
        assert len(again.refused_s) < len(over.refused_s) / 3
        assert median(again.served_s) < median(over.served_s)
        counts = await metrics(session, router)
        assert counts["ends_total", "failed" if reason else "blocked", "pull", reason] == refused
        assert (counts["in_flight",], counts["probing",]) == (0, 0)


async def metrics(session: ClientSession, router: Process) -> dict[tuple[str, ...], float]:
    """All samples: {(name without prefix, label value, …): value}, labels in alphabetical order."""
    async with session.get(f"{router.url}/metrics") as response:
        text = await response.text()
    return {
        (sample.name.removeprefix("herdless_router_"), *(value for _, value in sorted(sample.labels.items()))):
            sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }  # fmt: skip
