"""Several policies live, one after another, each on a cluster of its own and on the same jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from services.lab.audit import keep_and_audit, keeping
from services.lab.cluster import start_cluster
from services.lab.events import event_logs
from services.lab.folder import make_folder, write_summary
from services.lab.live import Live, Plan, Progress, check_continuous, measure_live
from services.lab.report import plain
from services.lab.rivals import Outcome, Rival
from services.lab.simulate import window_of
from services.lab.steady import steadiness
from services.measure.quantities import measure


def measure_rivals(
    rivals: Sequence[Rival], folder: Path, port: int, alarms: float, progress: Progress
) -> list[Outcome]:
    """Measure all policies.

    Args:
        rivals: The policies.
        folder: Each one's run goes into a folder of its own there.
        port: Of the first router; 0: any free ones.
        alarms: The rate of false alarms of all comparisons of halves.
        progress: Called with the share that is done.

    Raises:
        SettingsError: No job arrives, or time is slotted.
        RunInvalid: A process died, a port is in use.
    """
    scenario = rivals[0].scenario
    check_continuous(scenario, "say --simulate")
    rivals[0].experiment.workload()  # that there are jobs, before anything is started
    outcomes = []
    for place, rival in enumerate(rivals):

        def share(stage: str, done: float, place: int = place) -> None:
            if stage == "live":
                progress("live", (place + done) / len(rivals))

        own = make_folder(rival.scenario, folder / f"{place + 1}-{rival.scenario.policy_name}")
        with keeping(own, rival.scenario):
            live = asyncio.run(_measure(rival, own, port, share))
        outcomes.append(_outcome(rival, own, live, alarms / len(rivals)))
    return outcomes


async def _measure(rival: Rival, folder: Path, port: int, progress: Progress) -> Live:
    scenario = rival.scenario
    with event_logs(scenario, folder) as rings:
        async with start_cluster(scenario, folder / "logs", port=port, rings=rings) as cluster:
            plan = Plan(scenario, folder / "scenario.toml", scenario.fleet(), folder)
            return await measure_live(plan, cluster, progress)


def _outcome(rival: Rival, folder: Path, live: Live, alarms: float) -> Outcome:
    found = measure(live.run, window_of(rival.scenario))
    audited = keep_and_audit(folder, live.left, rival.scenario)
    invalid = [*audited.invalid, *live.invalid]
    summary = {
        "policy": dict(rival.scenario.policy),
        "values": {name: plain(quantity.value) for name, quantity in found.items()},
        "invalid": invalid,
        "cpu": plain(live.cpu),
        "audit": audited.json(),
    }
    write_summary(folder, summary)
    steady = steadiness(rival.experiment, [found], alarms)
    jobs = len(live.run.records.intended)
    return Outcome(rival, [found], steady, jobs, live.checks(rival.scenario), invalid)
