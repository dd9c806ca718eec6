"""The commands that run a scenario many times: compare, sweep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import AsJson, ScenarioName, ScenarioSets, check_alarms, progress_bar, say

Policies = Annotated[
    list[str],
    typer.Option("--policies", metavar="LIST", show_default=False,
                 help="Policies, commas between, each with its parameters: pull,lsq:refresh=idle:p=0.5; repeatable."),
]  # fmt: skip
Out = Annotated[Path | None, typer.Option(help="The folder; left out: runs/<UTC time>-<scenario>.")]
Replications = Annotated[int, typer.Option(min=1, max=1000, help="Independent simulations of each.")]


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
