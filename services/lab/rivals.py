"""Several policies on the same jobs: who they are, and what each one's runs gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from router.protocol.errors import SettingsError
from services.lab.checks import Check
from services.lab.experiment import Experiment
from services.lab.live import Progress
from services.lab.simulate import Quantities, Task, run_tasks
from services.lab.steady import steadiness
from services.measure.stationarity import Stationarity
from services.scenario import Scenario
from services.scenario_text import parted, read_table
from services.solver import with_weights


@dataclass(frozen=True)
class Rival:
    """One policy of a comparison.

    Attributes:
        label: As it was written: `lsq:refresh=idle`.
        experiment: The scenario under that policy.
    """

    label: str
    experiment: Experiment

    @property
    def scenario(self) -> Scenario:
        """The scenario under that policy."""
        return self.experiment.scenario


@dataclass(frozen=True)
class Outcome:
    """What the runs of one policy gave.

    Attributes:
        rival: The policy.
        runs: The quantities of each run; a live one is one run.
        steady: Whether it had a steady state.
        jobs: In all runs.
        checks: What must hold in a live run. `invalid`: why that says nothing.
    """

    rival: Rival
    runs: Sequence[Quantities]
    steady: Stationarity
    jobs: int
    checks: Sequence[Check] = ()
    invalid: Sequence[str] = ()

    @property
    def has_mean(self) -> bool:
        """Whether its values are those of a steady state."""
        return self.steady.state != "unstable"


def read_rivals(experiment: Experiment, texts: Sequence[str], least: int = 2) -> list[Rival]:
    """Read policies with their parameters.

    Rule: commas part policies, colons part a policy's name and its parameters: `pull,lsq:refresh=idle:p=0.5`. What is
    not said has its default, whatever the scenario's own [policy] table says. Values are read as after `--set`.

    Args:
        experiment: What all of them run.
        texts: One or more policies each.
        least: How many there must be.

    Raises:
        SettingsError: A policy or parameter is not known or does not fit the scenario, or two are the same.
    """
    labels = [label.strip() for text in texts for label in parted(text, ",") if label.strip()]
    if len(labels) < least:
        raise SettingsError(
            f"--policies: expected {least} or more, found {len(labels)}: for instance --policies pull,lsq:refresh=idle"
        )
    for place, label in enumerate(labels):
        if label in labels[:place]:
            raise SettingsError(f"--policies: {label} stands there twice: leave one out")
    return [Rival(label, _under(experiment, label)) for label in labels]


def _under(experiment: Experiment, label: str) -> Experiment:
    name, *parameters = parted(label, ":")
    for parameter in parameters:
        if "=" not in parameter:
            raise SettingsError(
                f"--policies {label}: expected NAME:KEY=VALUE:KEY=VALUE, found {parameter!r}: for instance "
                "pull:fallback=view:order=fastest"
            )
    table = {"name": name, **read_table("", parameters)}
    try:
        return Experiment(with_weights(experiment.scenario.with_policy(table)), experiment.trace)
    except SettingsError as error:
        raise SettingsError(f"--policies {label}: {error}") from None


def simulate_rivals(rivals: Sequence[Rival], replications: int, alarms: float, progress: Progress) -> list[Outcome]:
    """Simulate all policies on the same jobs, replication by replication, in parallel processes.

    Args:
        rivals: The policies.
        replications: Independent sets of jobs.
        alarms: The rate of false alarms of all comparisons of halves.
        progress: Called with the share that is done.

    Raises:
        SettingsError: No job arrives.
    """
    tasks = []
    for number in range(replications):
        seeded = [rival.experiment.seeded(number) for rival in rivals]
        workload = seeded[0].workload()
        jobs = len(workload.instants)
        # Each process draws the jobs for itself from the seed; those of a trace cannot be drawn there.
        handed = None if seeded[0].trace is None else workload
        tasks += [Task(each.scenario, jobs, handed, replication=number) for each in seeded]
    found = run_tasks(tasks, lambda share: progress("simulate", share))
    outcomes = []
    for place, rival in enumerate(rivals):
        runs = [each.quantities for each in found[place :: len(rivals)]]
        jobs = sum(task.jobs for task in tasks[place :: len(rivals)])
        outcomes.append(Outcome(rival, runs, steadiness(rival.experiment, runs, alarms / len(rivals)), jobs))
    return outcomes
