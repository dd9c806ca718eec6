"""The commands about scenarios: run, simulate, solve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.access import with_access
from services.cli.options import Alarms, AsJson, ScenarioName, ScenarioSets, check_alarms, progress_bar, say_report

Port = Annotated[int, typer.Option(min=0, max=65535, help="Of the first router, the others follow; 0: any free ones.")]


@with_access
def run(
    scenario: ScenarioName,
    set: ScenarioSets = [],  # noqa: A002, B006 - typer reads the name and the default
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="The run's folder; left out: runs/<UTC time>-<scenario>.")] = None,
    attach: Annotated[
        str, typer.Option(metavar="ROUTERS", help="Measure a cluster that runs: URLs, host:port or names of routers.")
    ] = "",
    servers: Annotated[
        str, typer.Option(metavar="LIST", help="With --attach: the server processes, to read their counters too.")
    ] = "",
    put_policy: Annotated[
        bool, typer.Option("--put-policy", help="With --attach: put the scenario's policy in force first.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Send each job as one HTTP request.")] = False,
    port: Port = 0,
    replications: Annotated[
        int | None, typer.Option(min=2, max=100, help="Simulations of the same jobs; left out: 4 to 16.")
    ] = None,
    alarms: Alarms = 1e-3,
) -> int:
    """Run a scenario live on a local cluster, and compare it with simulation and theory."""
    check_alarms(alarms)
    from router.protocol.errors import SettingsError
    from services.lab.experiment import read_experiment
    from services.lab.run import Options
    from services.lab.run import run as run_live

    if (servers or put_policy) and not attach:
        raise SettingsError("--servers, --put-policy: they belong to --attach")
    options = Options(out, port, http, replications or 0, alarms, attach, servers, put_policy)
    experiment = read_experiment(scenario, set)
    with progress_bar(as_json) as progress:
        report = run_live(experiment, options, progress)
    return say_report(report, as_json)


def simulate(
    scenario: ScenarioName,
    set: ScenarioSets = [],  # noqa: A002, B006
    as_json: AsJson = False,
    replications: Annotated[int, typer.Option(min=1, max=1000, help="Independent simulations.")] = 4,
    alarms: Alarms = 1e-3,
    out: Annotated[
        Path | None, typer.Option(help="The folder of its page; left out: runs/<UTC time>-<scenario>.")
    ] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Whether to write a page with figures.")] = True,
) -> int:
    """Simulate a scenario in virtual time, without delay, and compare it with theory."""
    check_alarms(alarms)
    from services.lab.experiment import read_experiment
    from services.lab.folder import make_folder
    from services.lab.page import keep_simulation
    from services.lab.run import simulate as simulate_scenario

    experiment = read_experiment(scenario, set)
    folder = make_folder(experiment.scenario, out, parts=()) if out else None  # a mistake in it is told at once
    with progress_bar(as_json) as progress:
        report = simulate_scenario(experiment, replications, alarms, progress)
        if page:
            progress("write", 0.0)
            options = [f"--replications={replications}", f"--false-alarms={alarms:g}"]
            report = keep_simulation(report, folder, options)
    return say_report(report, as_json)


def solve(
    scenario: ScenarioName,
    set: ScenarioSets = [],  # noqa: A002, B006
    as_json: AsJson = False,
    method: Annotated[str, typer.Option(help="exact, closed, meanfield, limit or all.")] = "all",
) -> int:
    """Say what mathematical models predict."""
    from services.lab.experiment import read_experiment
    from services.lab.run import solve_scenario

    return say_report(solve_scenario(read_experiment(scenario, set), method), as_json)
