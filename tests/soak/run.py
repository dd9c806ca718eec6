"""Makes a soak run: real processes, load, changes, looks at processes, and the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.audit.lines import audit_lines, mismatch_lines
from services.lab.audit import Audited, keep_and_audit
from services.lab.checks import Check
from services.lab.cluster import start_cluster
from services.lab.events import event_logs
from services.lab.live import Live, Progress, measure_live
from services.lab.live import Plan as Measurement
from services.lab.scrape import Samples
from tests.soak.plan import LOAD, MEMBERS, SERVERS, STAYING, Plan
from tests.soak.sampler import GENERATOR, Sample, sample_on
from tests.soak.verdict import HELD, Found, held, lives

LOOKS = 600
EVERY_S = (1.0, 3.0)
"""How often processes are looked at: so often in a run, within these bounds."""

LEFT = (
    "herdless_router_in_flight",
    "herdless_router_probing",
    "herdless_server_queue_length",
    "herdless_server_busy_slots",
)
"""Gauges that are 0 when every job has its end."""


@dataclass(frozen=True)
class Soaked:
    """A soak run that was made.

    Attributes:
        live: What the lab has measured. `audited`: added up.
        samples: All looks at processes while there was load, in seconds from the start of the schedule.
        found: What is judged.
    """

    live: Live
    audited: Audited
    samples: list[Sample]
    found: Found


async def soak(plan: Plan, folder: Path, progress: Progress) -> Soaked:
    """Make the run and judge it.

    Raises:
        RunInvalid: A process died, or could not be started again.
    """
    samples: list[Sample] = []
    scenario = plan.scenario
    with event_logs(scenario, folder) as rings:
        async with start_cluster(scenario, folder / "logs", rings=rings) as cluster:
            assert cluster.running is not None
            every_s = min(max(plan.run_s / LOOKS, EVERY_S[0]), EVERY_S[1])
            looking = asyncio.create_task(sample_on(cluster.running, every_s, samples))
            try:
                measurement = Measurement(scenario, folder / "scenario.toml", scenario.fleet(), folder)
                live = await measure_live(measurement, cluster, progress)
                if looking.done():
                    looking.result()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
    audited = keep_and_audit(folder, live.left, scenario)
    start_s = live.generation.start_s
    there = [each._replace(at_s=each.at_s - start_s) for each in samples]
    there = [each for each in there if 0.0 <= each.at_s <= plan.run_s]
    return Soaked(live, audited, there, _found(plan, there, [*_ledgers(live, audited, live.checks(scenario))]))


def _found(plan: Plan, samples: list[Sample], ledgers: list[str]) -> Found:
    counted = {
        (name, what): held(samples, plan.calms, name, what)
        for name in (*MEMBERS, GENERATOR)
        for what in HELD
        if (name, what) != (GENERATOR, "tasks")  # it shows no metrics
    }
    return Found(lives(samples, plan.warmup_s), counted, (*STAYING, GENERATOR), ledgers)


def _ledgers(live: Live, audited: Audited, checks: list[Check]) -> Iterator[str]:
    """What does not add up."""
    audit = audited.json()
    yield from mismatch_lines(audit)
    yield from (f"not checked: {why}" for why in audit["unchecked"])
    for check in checks:
        if not check.holds:
            yield f"{check.name}: {check.text}: {check.found:g}, expected {check.expected:g} ± {check.tolerance:g}"
    if live.unanswered:
        yield f"{live.unanswered} jobs have no end"
    if live.generation.doubled:
        yield f"{live.generation.doubled} jobs have two ends"
    for name, text in live.expositions.items():
        samples = Samples(text)
        yield from (f"{name} shows {left} = {samples.total(left):g} when all is over: expected 0"
                    for left in LEFT if samples.total(left))  # fmt: skip
        servers = samples.total("herdless_router_servers")
        if name.startswith("router") and servers != 4 * SERVERS:
            yield f"{name} knows {servers:g} servers when all is over: expected {4 * SERVERS}"


def summary(plan: Plan, soaked: Soaked) -> list[str]:
    """What was done and what came of it, in lines."""
    live = soaked.live
    jobs = len(live.run.records.intended)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(live.generation.reasons.items())) or "none"
    return [
        f"{plan.run_s / 60.0:g} minutes at {LOAD:.0%} of capacity, seed {plan.scenario.seed}, policy "
        f"{plan.scenario.policy_name}: {jobs} jobs, {jobs / plan.run_s:.0f} jobs/s",
        "changes: " + ", ".join(f"{count} times {words}" for words, count in sorted(plan.counts().items())),
        f"jobs that failed: {reasons}",
        f"the generator was late by {live.generation.lateness_p99_units * plan.scenario.time_unit_s * 1e3:.1f} ms "
        "(99th percentile)",
        *audit_lines(soaked.audited.json()),
    ]
