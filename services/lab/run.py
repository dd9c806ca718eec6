"""The commands `run`, `simulate` and `solve`, from a scenario to a report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from router.protocol.errors import SettingsError
from services.lab.attach import addresses, attach, put_policy
from services.lab.audit import Audited, keep_and_audit, keeping
from services.lab.checks import Check
from services.lab.cluster import Cluster, start_cluster
from services.lab.compare import Table, compare
from services.lab.events import event_logs
from services.lab.experiment import Experiment
from services.lab.folder import make_folder, write_summary
from services.lab.live import Live, Plan, Progress, check_continuous, measure_live
from services.lab.page import PAGE, Asked, write_page
from services.lab.report import Report, plain
from services.lab.simulate import Quantities, Simulated, Task, pooled, run_tasks, window_of
from services.lab.steady import steadiness
from services.loadgen.workload import Workload
from services.measure.curves import curves, together
from services.measure.quantities import measure
from services.measure.records import Fleet
from services.measure.sinkholes import Sinkhole, sinkholes
from services.measure.stationarity import Stationarity
from services.measure.verdict import FALSE_ALARMS
from services.scenario import Scenario
from services.solver import Prediction, predict, solve

# The fewer jobs, the longer the memory of a queue is beside the run, and the more replications it takes to see that.
REPLICATIONS = (4, 16)
REPLAYED_JOBS = 200_000
SHORTEST_SERVICE_S = 0.020

# The simulation that is compared with models: many times the jobs of a live run, yet no wait for whoever looks on.
IDEAL_FACTOR = 8
IDEAL_JOBS = (100_000, 600_000)
IDEAL_LIMIT_S = 12.0
SEGMENTS = 2

MOST_SINKS = 3
"""Servers that fail their jobs, told one by one."""

Predictions = dict[str, dict[str, Prediction]]


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes:
        out: The run's folder. `port`: of the first router. `http`: one HTTP request a job.
        replications: Simulations of the same jobs; 0: as many as their number asks for.
        alarms: The rate of false alarms of all tests together.
        attach: Routers of a cluster that runs already. `servers`: its server processes.
        put_policy: Put the scenario's policy in force there first.
    """

    out: Path | None = None
    port: int = 0
    http: bool = False
    replications: int = 0
    alarms: float = FALSE_ALARMS
    attach: str = ""
    servers: str = ""
    put_policy: bool = False


def run(experiment: Experiment, options: Options, progress: Progress) -> Report:
    """Measure a scenario live, and compare it with simulation and theory.

    Raises:
        SettingsError: The user's mistake.
        RunInvalid: A process died, a port is in use, nobody answers.
    """
    scenario = experiment.scenario
    check_continuous(scenario, "use `herdless simulate` or `herdless solve`, or --set run.time=continuous")
    if options.attach and scenario.timeline():
        raise SettingsError("faults: a cluster that was there before is not struck: leave --attach or [[faults]] out")
    workload = experiment.workload()
    folder = make_folder(scenario, options.out)
    progress("start", 0.0)
    with keeping(folder, scenario, tagged=not options.http):
        live = asyncio.run(_measure(scenario, folder, options, progress))
    audited = keep_and_audit(folder, live.left, scenario, tagged=not options.http)
    measured = measure(live.run, window_of(scenario))
    paired = _replay(
        scenario.model_copy(update={"faults": list(live.happened)}), workload, live, options.replications, progress
    )
    predictions = _predict(scenario)
    ideal = None
    # A trace cannot be drawn at any length, and faults have their instants.
    if predictions and experiment.trace is None and not scenario.faults:
        ideal = _without_delay(scenario, paired, len(workload.instants), progress)
    steady = steadiness(experiment, [measured], options.alarms)
    table = compare(_comparable(measured, options), [each.quantities for each in paired], ideal, predictions,
                    options.alarms)  # fmt: skip
    checks = live.checks(scenario)
    report = Report(
        scenario, table, "live", checks, [*audited.invalid, *live.invalid, *_disturbances(options, checks)],
        [*_hints(experiment, table, steady), *_live_hints(scenario, live, options),
         *_sinks(sinkholes(live.run))],
        experiment.trace_lines(), _details(live, audited, folder, options, len(paired)), steady,
        {"live": curves(live.run, window_of(scenario)), "simulated": together([each.curves for each in paired])},
    )  # fmt: skip
    progress("write", 0.0)
    write_summary(folder, report.json())
    write_page(folder, report, Asked("run", "live run", _given(options)))
    return report


def _given(options: Options) -> list[str]:
    """The options as a command line has them, but for those that name a place."""
    found = ["--http"] if options.http else []
    found += ["--replications", str(options.replications)] if options.replications else []
    return found + (["--false-alarms", f"{options.alarms:g}"] if options.alarms != FALSE_ALARMS else [])


async def _measure(scenario: Scenario, folder: Path, options: Options, progress: Progress) -> Live:
    async def on(cluster: Cluster, fleet: Fleet) -> Live:
        plan = Plan(scenario, folder / "scenario.toml", fleet, folder, options.http)
        return await measure_live(plan, cluster, progress)

    if not options.attach:
        with event_logs(scenario, folder) as rings:
            async with start_cluster(scenario, folder / "logs", port=options.port, rings=rings) as cluster:
                return await on(cluster, scenario.fleet())
    if options.put_policy:
        await put_policy(await addresses(options.attach), scenario.policy)
    return await on(*await attach(scenario, options.attach, options.servers))


def _comparable(measured: Quantities, options: Options) -> Quantities:
    """Plain HTTP answers do not tell how a job was dispatched."""
    hidden = ("dispatch.random", "dispatch.stale") if options.http else ()
    return {name: quantity for name, quantity in measured.items() if name not in hidden}


def simulate(experiment: Experiment, replications: int, alarms: float, progress: Progress) -> Report:
    """Simulate a scenario without delay, and compare it with the models.

    Raises:
        SettingsError: The scenario has no jobs.
    """
    scenario = experiment.scenario
    tasks = []
    for number in range(replications):
        seeded = experiment.seeded(number)
        workload = seeded.workload()
        tasks.append(Task(seeded.scenario, len(workload.instants), workload))
    found = run_tasks(tasks, lambda share: progress("simulate", share))
    quantities = _pool(found)
    table = compare(None, [quantities], quantities, _predict(scenario), alarms)
    steady = steadiness(experiment, [each.quantities for each in found], alarms)
    hints = [*_hints(experiment, table, steady), *_sinks(found[0].sinkholes)]
    return Report(scenario, table, "simulated", hints=hints, trace=experiment.trace_lines(),
                  stationarity=steady, curves={"simulated": together([each.curves for each in found])})  # fmt: skip


def solve_scenario(experiment: Experiment, method: str) -> Report:
    """What the models predict.

    Raises:
        SettingsError: No model applies.
    """
    solution = solve(experiment.scenario, method)
    table = compare(None, [], None, solution.quantities, FALSE_ALARMS)
    hints = [f"{name}: {reason}" for name, reason in solution.left_out.items()]
    return Report(experiment.scenario, table, "models", hints=hints, trace=experiment.trace_lines())


def _replay(scenario: Scenario, workload: Workload, live: Live, number: int, progress: Progress) -> list[Simulated]:
    """Simulate the jobs that were sent, when they were sent."""
    sent = live.run.records.sent
    sent = np.maximum.accumulate(np.where(np.isfinite(sent), sent, workload.instants))
    jobs = len(workload.instants)
    number = number or min(max(REPLAYED_JOBS // jobs, REPLICATIONS[0]), REPLICATIONS[1])
    tasks = [Task(scenario, jobs, workload, sent, live.delays, replication) for replication in range(number)]
    return run_tasks(tasks, lambda share: progress("replay", share))


def _predict(scenario: Scenario) -> Predictions:
    try:
        return predict(scenario).quantities
    except SettingsError:  # the trace decides the arrival rate, which every model needs
        return {}


def _without_delay(scenario: Scenario, paired: list[Simulated], jobs: int, progress: Progress) -> Quantities:
    """A longer simulation, in segments of their own seeds."""
    jobs_per_s = jobs / max(min(each.took_s for each in paired), 1e-3)
    least, most = IDEAL_JOBS
    wanted = min(max(IDEAL_FACTOR * jobs, least), most, int(SEGMENTS * IDEAL_LIMIT_S * jobs_per_s))
    duration = max(wanted / SEGMENTS / scenario.rate_total - scenario.run.warmup, scenario.run.duration)
    plan = scenario.run.model_copy(update={"duration": duration})
    tasks = [
        Task(scenario.model_copy(update={"run": plan, "seed": scenario.seed + 1 + segment}), wanted // SEGMENTS)
        for segment in range(SEGMENTS)
    ]
    return _pool(run_tasks(tasks, lambda share: progress("models", share)))


def _pool(found: list[Simulated]) -> Quantities:
    return {name: pooled([each.quantities[name] for each in found]) for name in found[0].quantities}


def _hints(experiment: Experiment, table: Table, steady: Stationarity) -> list[str]:
    scenario = experiment.scenario
    hints = [] if steady.is_steady else [steady.why]
    if table.verdict == "not_enough_data":
        longer = scenario.run.duration * table.longer
        hints.append(f"too little data: run {table.longer:.3g} times as long: --set run.duration={longer:.0f}")
    return hints


def _sinks(found: Sequence[Sinkhole]) -> list[str]:
    """A sentence about each server that fails its jobs, and few of them: more than that are no sinkholes any more."""
    told = [sinkhole.sentence() for sinkhole in found[:MOST_SINKS]]
    return told if len(found) <= MOST_SINKS else [*told, f"… and {len(found) - MOST_SINKS} more servers like these"]


def _disturbances(options: Options, checks: Sequence[Check]) -> list[str]:
    """A cluster that others use as well says nothing of this run's jobs; on one of our own it would be our fault."""
    if not options.attach:
        return []
    sent = next(check for check in checks if check.name == "conservation.sent")
    if sent.found <= sent.expected:
        return []
    return ["somebody else sends jobs to these routers: pause that load (0) while this run measures"]


def _live_hints(scenario: Scenario, live: Live, options: Options) -> list[str]:
    hints = []
    mean_s = min(scenario.time_unit_s / pool.rate for pool in scenario.pools)
    if mean_s < SHORTEST_SERVICE_S:
        hints.append(
            f"the mean service time is {mean_s * 1e3:.3g} ms; below {SHORTEST_SERVICE_S * 1e3:.0f} ms "
            "the machine's own delays show: choose a larger time_unit_s"
        )
    if not live.generation.one_clock:
        hints.append("no clock in common with the servers: a job is taken to be as long on its way there as back")
    if options.attach and not options.servers:
        hints.append("the server processes are not known (--servers): messages are counted where routers received them")
    return hints


def _details(live: Live, audited: Audited, folder: Path, options: Options, replications: int) -> dict[str, Any]:
    """What the machine did, in the JSON object."""
    delays = live.delays
    return {
        "run_folder": str(folder),
        "report": str(folder / PAGE),
        "false_alarms": options.alarms,
        "replications": replications,
        "jobs": len(live.run.records.intended),
        "reasons": live.generation.reasons,
        "audit": audited.json(),
        "lateness_p99_units": plain(live.generation.lateness_p99_units),
        "delay_p99_units": plain(live.delay_p99_units),
        "timer_lag_s": None if live.timer_lag_s is None else plain(list(live.timer_lag_s)),
        "cpu": plain(live.cpu),
        **({"happened": [{"at": plain(fault.at), "what": fault.words} for fault in live.happened]}
           if live.happened else {}),
        "delays_units": {
            "generator_router": delays.generator_router, "router_server": delays.router_server,
            "server_router": delays.server_router, "router_generator": delays.router_generator,
        },
    }  # fmt: skip
