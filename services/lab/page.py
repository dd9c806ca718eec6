"""Writes the page of a command, and its figures, into the run's folder.

What draws them is imported here and not before: it takes long, and not every command needs it.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.protocol.errors import SettingsError
from services.lab.errors import writing
from services.lab.folder import make_folder, write_summary
from services.lab.report import Report
from services.scenario import Scenario, scenario_toml
from services.scenario_parts import TraceArrivals
from services.scenario_text import policy_words

if TYPE_CHECKING:
    from services.report.drawing import Drawing
    from services.report.page import Subject

PAGE = "report.html"

_FILES = {
    "summary.json": "Everything that the command found, as one JSON object.",
    "scenario.toml": "The scenario as it was run.",
    "jobs.csv": "One row a job: its instants, times, router, server and outcome.",
    "results.csv": "One row for each point and policy.",
    "sweep.json": "What was asked for; a sweep that is started again in this folder goes on where it was.",
    "points.jsonl": "Everything that is known of each point, one JSON object a line.",
    "metrics": "The final metrics of each process.",
    "events": "What happened to each job, as routers and servers wrote it down; herdless story tells it.",
    "ledger.json": "Whose clock the instants of jobs.csv are of.",
    "logs": "What the processes said.",
    "figures": "Each figure as SVG and as PDF.",
}


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Attributes:
        command: Of `herdless`. `words`: what it is, for people.
        options: As they stand on a command line, after the scenario.
    """

    command: str
    words: str
    options: Sequence[str] = ()


def write_page(folder: Path, report: Report, asked: Asked) -> Path:
    """Write the page of a live run or a simulation."""
    from services.report.figures import run_figures
    from services.report.run_page import run_page

    summary = report.json()
    scenario = report.scenario
    marks = [(fault.at, fault.words) for fault in scenario.timeline()]
    drawings = run_figures(summary["quantities"], report.curves, scenario.run.warmup, marks)
    write_drawings(folder, drawings)
    return write_text(folder, run_page(subject(folder, scenario, asked, summary), summary, drawings))


def write_contest_page(folder: Path, scenario: Scenario, summary: Mapping[str, Any], asked: Asked) -> Path:
    """Write the page of a comparison of policies.

    Args:
        folder: Its folder.
        scenario: What all policies ran.
        summary: The JSON object of the command.
        asked: What the user asked for.
    """
    from services.report.contest_figures import contest_figures
    from services.report.contest_page import contest_page

    drawings = contest_figures(summary)
    write_drawings(folder, drawings)
    about = _of_many(subject(folder, scenario, asked, summary), summary)
    return write_text(folder, contest_page(about, summary, drawings))


def write_sweep_page(folder: Path, scenario: Scenario, summary: Mapping[str, Any], asked: Asked) -> Path:
    """Write the page of a sweep.

    Args:
        folder: Its folder.
        scenario: Before any key is changed.
        summary: The JSON object of the command.
        asked: What the user asked for.
    """
    from services.report.sweep_figures import sweep_figures
    from services.report.sweep_page import sweep_page

    drawings = sweep_figures(summary)
    write_drawings(folder, drawings)
    about = _of_many(subject(folder, scenario, asked, summary), summary)
    varied = [(key, ", ".join(map(str, values))) for key, values in summary["over"].items()]
    return write_text(folder, sweep_page(replace(about, system=[*varied, *about.system]), summary, drawings))


def _of_many(about: Subject, summary: Mapping[str, Any]) -> Subject:
    """Several policies in the place of the scenario's own."""
    rest = [fact for fact in about.system if fact[0] != "Policy"]
    return replace(about, system=[("Policies", ", ".join(summary["policies"])), *rest])


def keep_simulation(report: Report, folder: Path | None, options: Sequence[str]) -> Report:
    """Write everything that a simulation has found; the report that says where.

    Args:
        report: What it has found.
        folder: Where to; `None`: a new one, and none if there can be none: whoever wants the numbers alone may not be
            able to write here.
        options: Of the command.
    """
    try:
        folder = folder or make_folder(report.scenario, parts=())
    except SettingsError as error:
        return replace(report, hints=[*report.hints, f"no page was written: {error}"])
    places = {"run_folder": str(folder), "report": str(folder / PAGE)}
    report = replace(report, details={**report.details, **places})
    write_summary(folder, report.json())
    write_page(folder, report, Asked("simulate", "simulation", options))
    return report


def write_drawings(folder: Path, drawings: Sequence[Drawing]) -> None:
    """Write each figure as SVG and as PDF."""
    place = folder / "figures"
    with writing(place):
        place.mkdir(exist_ok=True)
        for drawing in drawings:
            (place / f"{drawing.name}.svg").write_text(drawing.svg, encoding="utf-8")
            (place / f"{drawing.name}.pdf").write_bytes(drawing.pdf)


def write_text(folder: Path, page: str) -> Path:
    """Write the page itself."""
    path = folder / PAGE
    with writing(path):
        path.write_text(page, encoding="utf-8")
    return path


def subject(folder: Path, scenario: Scenario, asked: Asked, summary: Mapping[str, Any]) -> Subject:
    """What the page is about, in words."""
    from services.report.page import Subject
    from services.report.sentences import verdict_sentence

    again = ["herdless", asked.command, "scenario.toml", *asked.options]
    return Subject(
        asked.words,
        scenario.title or scenario.name,
        scenario.source,
        (summary["verdict"], verdict_sentence(summary)),
        _system(scenario, summary),
        _machine(),
        scenario_toml(_without_place(scenario)),
        [shlex.join(again)],
        [(name, text) for name, text in _FILES.items() if (folder / name).exists()],
    )


def _without_place(scenario: Scenario) -> Scenario:
    """A trace by its name alone: where it lies on this machine tells a reader nothing."""
    arrivals = scenario.arrivals
    if not isinstance(arrivals, TraceArrivals):
        return scenario
    return scenario.model_copy(update={"arrivals": arrivals.model_copy(update={"path": Path(arrivals.path).name})})


def _system(scenario: Scenario, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    pools = "; ".join(
        f"{pool.servers} {pool.name}: rate {pool.rate:g}, {pool.slots} {'slot' if pool.slots == 1 else 'slots'}, "
        f"capacity {pool.capacity:g}"
        for pool in scenario.pools
    )
    plan = scenario.run
    found = [
        ("Policy", policy_words(scenario.policy)),
        ("Routers", str(scenario.routers.count)),
        ("Servers", pools),
        ("Load", _load(scenario)),
        ("Duration", f"{plan.duration:g} time units, after a warm-up of {plan.warmup:g}; {plan.time} time"),
        ("Time unit", "a slot" if plan.time == "slotted" else f"{scenario.time_unit_s:g} s in live runs"),
        ("Seed", str(scenario.seed)),
    ]
    if faults := scenario.timeline():
        found.append(("Faults", "; ".join(f"{fault.words} at {fault.at:g}" for fault in faults)))
    if "jobs" in summary:
        found.append(("Jobs", f"{summary['jobs']}"))
    if "replications" in summary:
        which = "independent ones of each point" if "over" in summary else "of the same jobs"
        found.append(("Simulations", f"{summary['replications']} {which}"))
    return found


def _load(scenario: Scenario) -> str:
    try:
        return f"{scenario.load:g}"
    except SettingsError:  # the trace alone decides the arrival rate
        return "as the trace has it"


def _machine() -> list[tuple[str, str]]:
    """What may matter to whoever repeats it; no names of machines or places."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "aiohttp"))
    return [
        ("Herdless", version("herdless")),
        ("Python", f"{platform.python_version()} ({sys.implementation.name}), {packages}"),
        ("Machine", f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores"),
    ]
