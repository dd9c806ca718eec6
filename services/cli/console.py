"""The commands with a page to look at: up, console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.access import with_access
from services.cli.options import AsJson, RouterList, ScenarioName, ScenarioSets, say

if TYPE_CHECKING:
    from services.lab.experiment import Experiment

Port = Annotated[int, typer.Option(min=0, max=65535, help="Of the first router, the others follow; 0: any free ones.")]
PagePort = Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; 0: any free one.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Nothing can be changed by the page.")]


@with_access
def up(
    scenario: ScenarioName = "pull",
    set: ScenarioSets = [],  # noqa: A002, B006 - typer reads the name and the default
    as_json: AsJson = False,
    port: Port = 0,
    console_port: PagePort = 0,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Whether to send the scenario's jobs.")] = True,
) -> int:
    """Start a cluster with its load and a live page, and keep them running until Ctrl-C."""
    import asyncio
    import tempfile

    from services.lab.experiment import read_experiment

    chosen = read_experiment(scenario, set)
    with tempfile.TemporaryDirectory(prefix="herdless-") as folder:
        return asyncio.run(_keep_up(chosen, Path(folder), as_json, port, console_port, load))


async def _keep_up(chosen: Experiment, folder: Path, as_json: bool, port: int, console_port: int, load: bool) -> int:
    from router.process.access import access_from_environment
    from services.console.local import start_local
    from services.console.main import serve_local
    from services.lab.errors import RunInvalid
    from services.scenario import scenario_toml

    scenario = chosen.scenario
    async with start_local(scenario, folder, port=port) as local:
        if load:
            file = folder / "scenario.toml"
            file.write_text(scenario_toml(scenario), encoding="utf-8")
            try:
                await local.start_load(file)
            except RunInvalid as error:  # not every scenario can be sent without end
                typer.echo(f"no load is sent: {error}", err=True)
        async with serve_local(scenario, local, console_port) as page:
            if as_json:
                found = {"routers": list(await local.routers()), "servers": list(await local.servers())}
                say({"console": page, **found, "policy": scenario.policy})
            else:
                for url in (*await local.routers(), *await local.servers(), *await local.generators()):
                    typer.echo(f"{local.name(url):<12} {url}")
                typer.echo(f"\nopen  {page}  to see it live")
                if not access_from_environment().needed:
                    typer.echo("Whoever is on this machine may change something, and nobody else: no token is set.")
                typer.echo("Ctrl-C ends it.")
            raise await local.no_router()


@with_access
def console(
    scenario: ScenarioName,
    routers: RouterList,
    servers: Annotated[
        str,
        typer.Option(metavar="LIST", help="Server processes, for their queue lengths; left out: routers are asked."),
    ] = "",
    load: Annotated[str, typer.Option(metavar="LIST", help="Endless generators, to change the load.")] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: PagePort = 0,
    name: Annotated[
        list[str], typer.Option(help="A name with a dot by which browsers reach the page.", show_default=False)
    ] = [],  # noqa: B006
    read_only: ReadOnly = False,
    set: ScenarioSets = [],  # noqa: A002, B006
    end_with_parent: Annotated[bool, typer.Option("--end-with-parent", help="End when standard input ends.")] = False,
    as_json: AsJson = False,
) -> int:
    """Serve a live page of a cluster that runs already."""
    from services.console.main import ConsoleSettings, run
    from services.lab.experiment import read_experiment

    del as_json  # it prints nothing but one JSON object anyway
    settings = ConsoleSettings(
        read_experiment(scenario, set).scenario, routers, servers, load, read_only, tuple(name), host, port,
        end_with_parent=end_with_parent,
    )  # fmt: skip
    return run(settings)
