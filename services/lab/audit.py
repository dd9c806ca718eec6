"""Adds a run's folder up: jobs, event logs and the final metrics of all processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from router.protocol.errors import SettingsError
from router.protocol.eventlog import ENDS, Kind
from services.audit.audit import audit
from services.audit.book import NAMED
from services.audit.found import Audit, Mismatch, sentence
from services.audit.ledger import LOST_ON_THE_WAY, Ledger, unkept_ledger
from services.audit.log import Log
from services.audit.story import Story, tell
from services.lab.errors import RunInvalid
from services.lab.events import DAMAGED, read_logs
from services.lab.experiment import read_experiment
from services.lab.folder import write_metrics
from services.lab.ledger import FILE as LEDGER
from services.lab.ledger import read_ledger, write_ledger
from services.lab.left import Left, RunBroken
from services.lab.scrape import Samples
from services.scenario import Scenario
from services.simulator.recording import Recording, ledger_of
from services.simulator.run import simulate

TOLD = 3
"""How many stories of jobs that do not add up are told."""


@dataclass(frozen=True)
class Audited:
    """A run, added up.

    Attributes:
        found: What adding up has given.
        stories: Of the first jobs with which something is wrong.
        logs: What there is of each event log.
    """

    found: Audit
    stories: Sequence[Story]
    logs: Sequence[Mapping[str, Any]]

    @property
    def invalid(self) -> list[str]:
        """Why the run says nothing; empty: everything adds up."""
        return [f"the books do not balance: {mismatch}" for mismatch in self.found.mismatches]

    def json(self) -> dict[str, Any]:
        """The JSON object of the command.

        Returns:
            `holds`, `jobs` (sent), `traced` (their whole way is on record), `mismatches` (`what`, `count`, `jobs`:
            numbers of the first, `named`: in words), `accounted` (WHY: how often something is missing for a reason that
            is on record), `unchecked` (sentences), `logs`, `stories`.
        """
        found = self.found
        return {
            "holds": found.holds, "jobs": found.jobs, "traced": found.traced,
            "mismatches": [
                {"what": each.what, "count": each.count, "jobs": list(each.jobs), "named": list(each.names)}
                for each in found.mismatches
            ],
            "accounted": dict(found.accounted), "unchecked": list(found.unchecked),
            "logs": list(self.logs), "stories": [story.json() for story in self.stories],
        }  # fmt: skip


def keep_and_audit(folder: Path, left: Left, scenario: Scenario, tagged: bool = True) -> Audited:
    """Write down what a live run has left in memory, and add it up as it then stands there.

    Args:
        folder: The run's.
        left: What it has left.
        scenario: What was run.
        tagged: Whether routers were told the numbers of the jobs.
    """
    metrics = write_metrics(folder, left.expositions)
    write_ledger(folder, left, metrics, scenario.time_unit_s, tagged)
    return audit_folder(folder)


@contextmanager
def keeping(folder: Path, scenario: Scenario, tagged: bool = True) -> Iterator[None]:
    """Of a run that breaks off within, write down what there is, and say which jobs that concerns.

    Args:
        folder: The run's.
        scenario: What is run.
        tagged: Whether routers are told the numbers of the jobs.

    Raises:
        RunInvalid: The run has broken off.
    """
    try:
        yield
    except RunBroken as broken:
        try:
            audited = keep_and_audit(folder, broken.left, scenario, tagged)
        except (RunInvalid, SettingsError) as error:  # that disk is full, too
            raise RunInvalid(broken.kind, f"{broken}\nwhat it has left was not kept: {error}") from None
        raise RunInvalid(broken.kind, f"{broken}\n{_left_behind(folder, broken.left, audited)}") from None


def _left_behind(folder: Path, left: Left, audited: Audited) -> str:
    generation = left.generation
    reasons = [place for place, why in enumerate(generation.whys) if why in LOST_ON_THE_WAY]
    lost = np.flatnonzero(np.isin(generation.why, reasons) & (generation.records.outcome >= 0)).tolist()
    whats = [sentence("lost on their way", [f"job {job}" for job in lost[:NAMED]], len(lost))] if lost else []
    whats += [str(mismatch) for mismatch in audited.found.mismatches]
    return (
        f"{audited.found.jobs} jobs were sent by then: {'; '.join(whats) or 'each has its end'} "
        f"(herdless audit {folder}, herdless story {folder} JOB)"
    )


def audit_folder(folder: Path) -> Audited:
    """Add up what a live run has left.

    Raises:
        SettingsError: It is no folder of a live run, nor one of event logs.
    """
    logs = read_logs(folder)
    ledger = unkept_ledger(logs) if _is_of_logs(folder, logs) else read_ledger(folder)
    found = audit(ledger, logs)
    metrics = _read_metrics(folder)
    if missing := [name for name in ledger.metrics if name not in metrics]:
        found.mismatches.append(Mismatch("showed final metrics, but they are missing", len(missing), [], missing))
    found.mismatches += check_counters(metrics, logs)
    if not metrics:
        found.unchecked.append(f"no final metrics in {folder / 'metrics'}: counters are not checked")
    return Audited(found, _stories(ledger, logs, found.mismatches), [log.described() for log in logs])


def _read_metrics(folder: Path) -> dict[str, Samples]:
    """What each process showed at the end, by its name."""
    metrics = {}
    for path in sorted((folder / "metrics").glob("*.txt")):
        try:
            metrics[path.stem] = Samples(path.read_text(encoding="utf-8"))
            if not metrics[path.stem].finite:
                raise ValueError("a value that is infinite or no number")
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{path}: cannot be read: {error}: expected metrics as the run left them: {DAMAGED}"
            ) from None
    return metrics


def story_of(folder: Path, job: int) -> Story:
    """The story of one job of a live run, or of a simulation, whose first run is simulated again for it.

    Raises:
        SettingsError: It is no folder of such a run, or there is no such job.
    """
    if _is_simulation(folder):
        ledger, logs = _simulated(folder)
    elif _is_of_logs(folder, logs := read_logs(folder)):
        try:
            return tell(unkept_ledger(logs, job), logs, job)
        except LookupError:
            message = f"job {job}: there is none of that number in {folder}: expected one that a router has on record"
            raise SettingsError(message) from None
    else:
        ledger = read_ledger(folder)
    jobs = len(ledger.sent)
    if not 0 <= job < jobs:
        expected = f"one of its {jobs} jobs, from 0 to {jobs - 1}" if jobs else "a run in which jobs were sent"
        raise SettingsError(f"job {job}: there is none of that number in {folder}: expected {expected}")
    return tell(ledger, logs, job)


def _is_of_logs(folder: Path, logs: Sequence[Log]) -> bool:
    """Whether there are event logs alone: processes that were started by hand, or a run whose generator has died."""
    return bool(logs) and not any((folder / name).exists() for name in (LEDGER, "jobs.csv", "summary.json"))


def _is_simulation(folder: Path) -> bool:
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(summary, dict) and "policy" in summary and not (folder / LEDGER).exists()


def _simulated(folder: Path) -> tuple[Ledger, list[Log]]:
    """The same jobs and choices once more, on record this time."""
    experiment = read_experiment(str(folder / "scenario.toml"))
    scenario = experiment.scenario
    if scenario.faults or scenario.run.time != "continuous":
        raise SettingsError(f"{folder}: stories are told of simulations in continuous time and without faults")
    recording = Recording()
    run = simulate(scenario, experiment.workload(), wrap=recording.watch)
    return ledger_of(run), recording.logs()


def check_counters(metrics: Mapping[str, Samples], logs: Sequence[Log]) -> list[Mismatch]:
    """The final counters of each process: they balance, and say what its log says.

    Args:
        metrics: By name of the process.
        logs: Of any incarnations; counters are those of the last one.
    """
    last: dict[str, Log] = {}
    for each in sorted(logs, key=lambda each: each.about.epoch):
        last[each.about.id] = each
    found = []
    for name, samples in metrics.items():
        of_router = samples.total("herdless_router_servers") or samples.total("herdless_router_jobs_total")
        balance = _router(samples) if of_router else _server(samples)
        arrivals, ends, here = balance
        if arrivals != ends + here:
            what = f"{name} counts {arrivals} arrivals, but {ends} ends and {here} jobs that are there"
            found.append(_unnamed(what, arrivals - ends - here))
        log = last.get(name)
        if log is not None and not log.overwritten and log.closed_at:
            found += _against_log(name, samples, log)
    return found


def _router(samples: Samples) -> tuple[int, int, int]:
    here = samples.total("herdless_router_in_flight") + samples.total("herdless_router_probing")
    arrivals, ends = samples.total("herdless_router_jobs_total"), samples.total("herdless_router_ends_total")
    return int(arrivals), int(ends), int(here)


def _server(samples: Samples) -> tuple[int, int, int]:
    return (
        int(samples.total("herdless_server_arrivals_total")),
        int(samples.total("herdless_server_jobs_total")),
        int(samples.total("herdless_server_queue_length")),
    )


def _against_log(name: str, samples: Samples, log: Log) -> list[Mismatch]:
    """What was counted before the end may not be missing in the log; arrivals are the same."""
    kinds = log.records["code"] & 255
    outcomes = log.records["code"] >> 8 & 255
    if log.about.role == "router":
        came, went, metric = Kind.ARRIVED, Kind.ENDED, "herdless_router_ends_total"
        arrivals = int(samples.total("herdless_router_jobs_total"))
    else:
        came, went, metric = Kind.RECEIVED, Kind.LEFT_SERVER, "herdless_server_jobs_total"
        arrivals = int(samples.total("herdless_server_arrivals_total"))
    found = []
    written = int((kinds == came).sum())
    if written != arrivals:
        what = f"{name} counts {arrivals} arrivals, its log has {written}"
        found.append(_unnamed(what, written - arrivals))
    for outcome, place in ENDS.items():
        counted = int(samples.total(metric, outcome=outcome))
        written = int(((kinds == went) & (outcomes == place)).sum())
        if counted > written:
            what = f"{name} counts {counted} ends {outcome}, its log has {written}"
            found.append(_unnamed(what, counted - written))
    return found


def _unnamed(what: str, jobs: int) -> Mismatch:
    return Mismatch(what, abs(jobs), [], ["nobody knows which"])


def _stories(ledger: Ledger, logs: Sequence[Log], mismatches: Sequence[Mismatch]) -> list[Story]:
    jobs = dict.fromkeys(job for mismatch in mismatches for job in mismatch.jobs if job < len(ledger.sent))
    return [tell(ledger, logs, job) for job in list(jobs)[:TOLD]]
