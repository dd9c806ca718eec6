"""The commands that run a scenario many times: compare, sweep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.access import with_access
from services.cli.options import AsJson, ScenarioName, ScenarioSets, check_alarms, progress_bar, say

if TYPE_CHECKING:
    from services.lab.sweep import Sweep

Policies = Annotated[
    list[str],
    typer.Option("--policies", metavar="LIST", show_default=False,
                 help="Policies, commas between, each with its parameters: pull,lsq:refresh=idle:p=0.5; repeatable."),
]  # fmt: skip
Out = Annotated[Path | None, typer.Option(help="The folder; left out: runs/<UTC time>-<scenario>.")]
Replications = Annotated[int, typer.Option(min=1, max=1000, help="Independent simulations of each.")]


@with_access
def compare(
    scenario: ScenarioName,
    policies: Policies,
    simulate: Annotated[bool, typer.Option("--simulate", help="In virtual time, not live.")] = False,
    set: ScenarioSets = [],  # noqa: A002, B006 - typer reads the name and the default
    as_json: AsJson = False,
    out: Out = None,
    replications: Replications = 4,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the first router; 0: any free ones.")] = 0,
    alarms: Annotated[
        float, typer.Option("--false-alarms", help="The chance that any interval of a difference misses.")
    ] = 0.05,
) -> int:
    """Run several policies on the same jobs, live or simulated, and say how they differ."""
    check_alarms(alarms)
    from services.lab.contest import Contest
    from services.lab.experiment import read_experiment
    from services.lab.folder import make_folder, write_summary
    from services.lab.page import PAGE, Asked, write_contest_page
    from services.lab.rivals import read_rivals, simulate_rivals
    from services.lab.rivals_live import measure_rivals
    from services.measure.verdict import FALSE_ALARMS

    experiment = read_experiment(scenario, set)
    rivals = read_rivals(experiment, policies)
    folder = make_folder(experiment.scenario, out, parts=())
    with progress_bar(as_json) as progress:
        if simulate:
            outcomes = simulate_rivals(rivals, replications, FALSE_ALARMS, progress)
        else:
            outcomes = measure_rivals(rivals, folder, port, FALSE_ALARMS, progress)
        column = "simulated" if simulate else "live"
        contest = Contest(
            experiment.scenario, column, outcomes, alarms, {"run_folder": str(folder), "report": str(folder / PAGE)}
        )
        progress("write", 0.0)
        write_summary(folder, contest.json())
        given = ["--policies", ",".join(rival.label for rival in rivals), f"--replications={replications}"]
        given += [f"--false-alarms={alarms:g}", *(["--simulate"] if simulate else [])]
        asked = Asked("compare", f"{column} comparison of policies", given)
        write_contest_page(folder, experiment.scenario, contest.json(), asked)
    if as_json:
        say(contest.json())
    else:
        from rich.console import Console

        from services.lab.contest_table import print_contest

        print_contest(contest, Console(width=None if sys.stdout.isatty() else 120))
    return contest.exit_code


def sweep(
    scenario: ScenarioName,
    over: Annotated[
        list[str],
        typer.Option("--over", metavar="KEY=SPEC", show_default=False,
                     help="A key and its values, a list 0.5,0.7,0.9 or a range 0.5:0.95:0.05; repeatable: a grid."),
    ],
    simulate: Annotated[bool, typer.Option("--simulate", help="Simulate each point (default).")] = False,
    solve: Annotated[bool, typer.Option("--solve", help="Solve each point; with --simulate: both.")] = False,
    policies: Policies = [],  # noqa: B006
    set: ScenarioSets = [],  # noqa: A002, B006
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder, or that of a sweep to go on with; left out: runs/<UTC time>-<scenario>")
    ] = None,
    replications: Replications = 4,
) -> int:  # fmt: skip
    """Simulate or solve a scenario at every point of a grid; one that was interrupted goes on where it was."""
    from services.lab.errors import Interrupted
    from services.lab.folder import make_folder, write_summary
    from services.lab.grid import read_axes
    from services.lab.page import PAGE, Asked, write_sweep_page
    from services.lab.sweep import Sweep, run_sweep, sweep_json
    from services.lab.sweep_folder import ASKED, RESULTS, open_sweep_folder, write_csv

    columns = [name for name, wanted in (("simulated", simulate or not solve), ("models", solve)) if wanted]
    asked = Sweep(scenario, set, read_axes(over), policies, columns, replications)
    experiment = asked.experiment
    old = out is not None and (out / ASKED).exists()
    folder = out if out is not None and old else make_folder(experiment.scenario, out, parts=())
    with open_sweep_folder(folder, asked.described()) as opened:
        try:
            with progress_bar(as_json) as progress:
                rows = run_sweep(asked, opened, progress)
        except KeyboardInterrupt:
            again = _resumes(asked, over, folder)
            raise Interrupted(f"interrupted; {opened.kept()} points are kept. To go on: {again}") from None
        write_csv(folder / RESULTS, [axis.key for axis in asked.axes], rows)
    summary = sweep_json(asked, rows, folder) | {"report": str(folder / PAGE)}
    write_summary(folder, summary)
    given = [f"--over={text}" for text in over] + [f"--policies={text}" for text in policies]
    given += [f"--{'simulate' if name == 'simulated' else 'solve'}" for name in columns]
    words = Asked("sweep", "sweep", [*given, f"--replications={replications}"])
    write_sweep_page(folder, experiment.scenario, summary, words)
    if as_json:
        say(summary)
    else:
        from rich.console import Console

        from services.lab.sweep_table import print_sweep

        print_sweep(experiment.scenario, summary, Console(width=None if sys.stdout.isatty() else 120))
    return 0


def _resumes(asked: Sweep, over: list[str], folder: Path) -> str:
    """The command line that goes on with a sweep."""
    import shlex

    options = [("--over", text) for text in over] + [("--policies", text) for text in asked.policies]
    options += [("--set", text) for text in asked.sets]
    flags = ["--simulate", "--solve"] if len(asked.columns) > 1 else ["--solve"] * ("models" in asked.columns)
    words = ["herdless", "sweep", asked.name, *(word for option in options for word in option), *flags]
    return shlex.join([*words, "--replications", str(asked.replications), "--out", str(folder)])
