"""A scenario with everything that it refers to: found, read and checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from router.protocol.errors import SettingsError
from services.loadgen.trace import Trace, read_trace
from services.loadgen.workload import Workload, draw_workload, lay_out
from services.scenario import Scenario, parse_scenario
from services.scenario_parts import TraceArrivals
from services.scenarios import shipped
from services.solver import with_weights

TRACE_WARMUP = 0.1
"""At most that share of a trace which ends before the run would is left to the warm-up."""


@dataclass(frozen=True)
class Experiment:
    """What is to be run.

    Attributes:
        scenario: With the path of its trace, if it has one, made absolute, and the best weights, if it asks for them.
        trace: What it replays.
        notes: What the user should know of the replay.
    """

    scenario: Scenario
    trace: Trace | None
    notes: tuple[str, ...] = ()

    def workload(self) -> Workload:
        """The jobs.

        Raises:
            SettingsError: There are none, or too many.
        """
        workload = draw_workload(self.scenario, self.trace)
        if not len(workload.instants):
            raise SettingsError(f"run.duration = {self.scenario.run.duration:g}: no job arrives: choose a longer one")
        return workload

    def seeded(self, number: int) -> Experiment:
        """The same with other random numbers; 0: the same ones. Of a trace, the jobs are the same all the same."""
        scenario = self.scenario.model_copy(update={"seed": self.scenario.seed + number})
        return replace(self, scenario=scenario)

    @property
    def load(self) -> float | None:
        """The load; `None` where the trace alone decides the arrival rate."""
        try:
            return self.scenario.load
        except SettingsError:
            return None

    def trace_lines(self) -> list[str]:
        """What the trace is, which of its rows are used, and what the user should know of the replay."""
        if self.trace is None:
            return []
        notes = self.notes or lay_out(self.scenario, self.trace).notes
        return [*self.trace.report.lines(), *(f"  {note}" for note in notes)]


def read_experiment(name: str, overrides: Sequence[str] = ()) -> Experiment:
    """Read a scenario and its trace.

    Args:
        name: A TOML file, or the name of a shipped scenario.
        overrides: `KEY=VALUE` each.

    Raises:
        SettingsError: There is none of that name, or something in it is wrong.
        TraceError: The trace cannot be read as asked.
    """
    scenario, folder = _read_scenario(name, overrides)
    scenario = with_weights(scenario)
    if not isinstance(scenario.arrivals, TraceArrivals):
        return Experiment(scenario, None)
    path = _find(scenario.arrivals.path, folder)
    data = _read(path, "arrivals.path")
    trace = read_trace(data, path.name, scenario.arrivals)
    arrivals = scenario.arrivals.model_copy(update={"path": str(path)})
    return _ending_with_its_trace(Experiment(scenario.model_copy(update={"arrivals": arrivals}), trace))


def _ending_with_its_trace(experiment: Experiment) -> Experiment:
    """A window that goes on after the last job would measure empty servers: the run ends when its trace does."""
    assert experiment.trace is not None
    scenario = experiment.scenario
    layout = lay_out(scenario, experiment.trace)
    if layout.ends_at_units is None:
        return experiment
    warmup = min(scenario.run.warmup, TRACE_WARMUP * layout.ends_at_units)
    duration = (layout.ends_at_units - warmup) * (1.0 + 1e-9)  # the last job comes before the end, not at it
    run = scenario.run.model_copy(update={"warmup": warmup, "duration": duration})
    notes = (
        *layout.notes,
        f"the run ends with the trace: warm-up {warmup:.4g}, measured {run.duration:.4g} time units",
    )
    return Experiment(scenario.model_copy(update={"run": run}), experiment.trace, notes)


def _read_scenario(name: str, overrides: Sequence[str]) -> tuple[Scenario, Path]:
    path = Path(name)
    texts = shipped()
    if name in texts and not path.is_file():
        return parse_scenario(texts[name], name, overrides), Path()
    if not path.exists():
        raise SettingsError(f'no scenario "{name}": expected a TOML file, or one of {", ".join(texts)}')
    try:
        text = _read(path, "scenario").decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name}: expected TOML in UTF-8: {error}") from None
    return parse_scenario(text, name, overrides), path.parent


def _find(name: str, folder: Path) -> Path:
    for path in (folder / name, Path(name)):
        if path.is_file():
            return path.resolve()
    beside = "" if folder == Path() else f" beside the scenario, in {folder},"
    raise SettingsError(
        f'arrivals.path = "{name}": no such file{beside} and none in the working directory: '
        "say where the trace is: --set arrivals.path=FILE"
    )


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{what}: {path} cannot be read: {error.strerror}") from None
