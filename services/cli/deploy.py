"""The commands of a deployment: parts of a scenario, each of which finds its name and its peers by itself.

A container, or a host, is told the scenario and what it is in it. Replicas are alike: they get different names from
the names of their hosts, and find one another by DNS.
"""

from __future__ import annotations

import re
import socket
from typing import Annotated

import typer

from services.cli.access import with_access
from services.cli.options import AsJson, RouterList, ScenarioName, ScenarioSets

app = typer.Typer(help="One part of a scenario, as a container runs it; see docs/deploy.md.")

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0: any free one.")]
Name = Annotated[
    str, typer.Option(envvar="HERDLESS_NAME", help="What tells this replica from others; left out: the host's name.")
]


@app.command()
@with_access
def router(
    scenario: ScenarioName,
    name: Name = "",
    host: Host = "0.0.0.0",
    port: Port = 8080,
    set: ScenarioSets = [],  # noqa: A002, B006 - typer reads the name and the default
    as_json: AsJson = False,
) -> int:
    """Run a router of a scenario: its policy, seed and time unit."""
    from router.app.main import run
    from router.app.settings import RouterSettings
    from services.lab.experiment import read_experiment

    del as_json  # it prints nothing but one JSON object anyway
    wanted = read_experiment(scenario, set).scenario
    return run(
        RouterSettings(
            id=f"router-{_own(name)}", host=host, port=port, policy=wanted.policy, seed=wanted.seed,
            time_unit_s=wanted.time_unit_s,
        )
    )  # fmt: skip


@app.command()
@with_access
def servers(
    scenario: ScenarioName,
    pool: Annotated[str, typer.Option(help="The pool of which servers run here.", show_default=False)],
    routers: RouterList,
    count: Annotated[
        int | None, typer.Option("--servers", min=1, help="How many; left out: as many as the pool has.")
    ] = None,
    name: Name = "",
    host: Host = "0.0.0.0",
    port: Port = 8080,
    set: ScenarioSets = [],  # noqa: A002, B006
    as_json: AsJson = False,
) -> int:
    """Run the servers of one pool of a scenario."""
    from router.protocol.errors import SettingsError
    from server.app.main import run
    from server.app.settings import make_settings
    from services.lab.experiment import read_experiment

    del as_json
    wanted = read_experiment(scenario, set).scenario
    pools = {each.name: (place, each) for place, each in enumerate(wanted.pools)}
    if pool not in pools:
        raise SettingsError(f"--pool {pool}: scenario {wanted.name} has {', '.join(pools)}")
    place, its = pools[pool]
    own = _own(name)
    values = {
        "id": f"servers-{pool}-{own}"[:64], "prefix": f"{pool}-{own}", "host": host, "port": port, "pool": pool,
        "pool_index": place, "servers": count or its.servers, "rate": its.rate, "slots": its.slots,
        "capacity": its.capacity, "seed": wanted.seed, "time_unit_s": wanted.time_unit_s,
        "routers": tuple(filter(None, routers.split(","))),
        "in_service": wanted.patience is not None and wanted.patience.in_service,
    }  # fmt: skip
    return run(make_settings(values))


@with_access
def exporter(
    scenario: ScenarioName,
    routers: RouterList,
    load: Annotated[str, typer.Option(metavar="LIST", help="Endless generators, which say what the load is now.")] = "",
    host: Host = "127.0.0.1",
    port: Port = 0,
    set: ScenarioSets = [],  # noqa: A002, B006
    end_with_parent: Annotated[bool, typer.Option("--end-with-parent", help="End when standard input ends.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show to Prometheus what the models predict of a cluster that runs, as its policy, load and size change."""
    from services.lab.experiment import read_experiment
    from services.lab.exporter import ExporterSettings, run

    del as_json  # it prints nothing but one JSON object anyway
    wanted = read_experiment(scenario, set).scenario
    return run(ExporterSettings(wanted, routers, load, host, port, end_with_parent=end_with_parent))


def _own(name: str) -> str:
    """A name that no other replica has, made of letters that names may have."""
    letters = re.sub(r"[^A-Za-z0-9._-]+", "-", name or socket.gethostname()).strip("-._")
    return letters[:60] or "1"
