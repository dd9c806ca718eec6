"""The commands that are processes: router, server, load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.access import with_access
from services.cli.options import AsJson, RouterList, ScenarioName, ScenarioSets

if TYPE_CHECKING:
    from services.lab.experiment import Experiment

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0: any free one.")]
Seed = Annotated[int, typer.Option(help="The root of all randomness.")]
TimeUnit = Annotated[float, typer.Option("--time-unit-s", help="Seconds in a time unit.")]
WithParent = Annotated[bool, typer.Option("--end-with-parent", help="End when standard input ends.")]
Events = Annotated[str, typer.Option(metavar="FILE", help="Write an event log; one that is there is left alone.")]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Any further setting of the process.", show_default=False),
]


@with_access
def router(
    id: Annotated[str, typer.Option(help="The router's name.")] = "router-1",
    host: Host = "127.0.0.1",
    port: Port = 8080,
    policy: Annotated[str, typer.Option(help="A policy's name, or a [policy] table as JSON.")] = "pull",
    seed: Seed = 1,
    time_unit_s: TimeUnit = 0.1,
    ceiling: Annotated[
        int, typer.Option(help="The most jobs in the router's system; beyond, they fail at once.")
    ] = 100_000,
    retries: Annotated[int, typer.Option(help="How often a job that failed goes to another server.")] = 0,
    memory: Annotated[
        str, typer.Option(help='When servers that fail or hang are set aside, as JSON: {"failures": 3}.')
    ] = "",
    stale_after: Annotated[
        float, typer.Option("--stale-after", help="When a view is stale, in time units; 0: never.")
    ] = 0.0,
    stale: Annotated[str, typer.Option(help="What a stale view counts as: ignore, average or full.")] = "ignore",
    events: Events = "",
    set: Settings = [],  # noqa: A002, B006 - typer reads the name and the default
    end_with_parent: WithParent = False,
    as_json: AsJson = False,
) -> int:
    """Run one router; it says where it listens in one line of JSON."""
    from router.app.main import run
    from router.app.settings import RouterSettings
    from router.process import serve
    from router.registry import make_parameters

    values = {"id": id, "host": host, "port": port, "seed": seed, "time_unit_s": time_unit_s, "events": events}
    values["policy"] = _policy(policy)
    values |= {"ceiling": ceiling, "retries": retries, "stale_after": stale_after or None, "stale": stale}
    if memory:
        values["memory"] = _table("--memory", memory, 'a table as JSON, as {"failures": 3}')
    settings = _make(RouterSettings, "router", values, set)
    make_parameters(settings.policy)  # the exact message, as JSON if that was asked for
    if end_with_parent:
        serve.end_with_parent()
    return run(settings, as_json)


@with_access
def server(
    pool: Annotated[str, typer.Option(help="The name of the pool.", show_default=False)],
    servers: Annotated[int, typer.Option(help="How many of its servers live here.", show_default=False)],
    routers: RouterList,
    id: Annotated[str, typer.Option(help="The name of the process; left out: servers-POOL.")] = "",
    host: Host = "127.0.0.1",
    port: Port = 0,
    pool_index: Annotated[int, typer.Option(help="The place of the pool in the scenario, from 0.")] = 0,
    first: Annotated[int, typer.Option(help="The number of the first server.")] = 1,
    rate: Annotated[float, typer.Option(help="Jobs of unit size per time unit and slot.")] = 1.0,
    slots: Annotated[int, typer.Option(help="Jobs that a server serves at the same time.")] = 1,
    capacity: Annotated[str, typer.Option(help='The most jobs that a server holds, or "inf".')] = "inf",
    ceiling: Annotated[
        int, typer.Option(help="The most jobs at a server of larger capacity; beyond, they fail.")
    ] = 100_000,
    seed: Seed = 1,
    time_unit_s: TimeUnit = 0.1,
    in_service: Annotated[bool, typer.Option("--in-service", help="Patience also ends a service.")] = False,
    events: Events = "",
    set: Settings = [],  # noqa: A002, B006
    end_with_parent: WithParent = False,
    as_json: AsJson = False,
) -> int:
    """Run one server process, with many servers of one pool."""
    from server.app.main import run
    from server.app.settings import ServerSettings

    values = {
        "id": id or f"servers-{pool}", "host": host, "port": port, "pool": pool, "pool_index": pool_index,
        "servers": servers, "first": first, "rate": rate, "slots": slots, "capacity": capacity, "seed": seed,
        "ceiling": ceiling,
        "time_unit_s": time_unit_s, "routers": tuple(filter(None, routers.split(","))), "in_service": in_service,
        "end_with_parent": end_with_parent, "events": events,
    }  # fmt: skip
    return run(_make(ServerSettings, "server", values, set), as_json)


@with_access
def load(
    scenario: ScenarioName,
    routers: RouterList,
    http: Annotated[bool, typer.Option("--http", help="Send each job as one HTTP request.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write the records, an .npz file.")] = None,
    endless: Annotated[
        bool, typer.Option("--endless", help="Send until told to end, to the routers that are there at the time.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --endless: the port of /metrics and /v1/load; 0: any free one.")] = 0,
    set: ScenarioSets = [],  # noqa: A002, B006
    end_with_parent: WithParent = False,
    as_json: AsJson = False,
) -> int:
    """Send a scenario's jobs to routers, on schedule; tell in lines of JSON how it gets on."""
    import asyncio
    import io
    import sys
    from contextlib import redirect_stdout

    from router.protocol.errors import SettingsError
    from services.lab.attach import addresses
    from services.lab.experiment import read_experiment
    from services.loadgen.client.process import LoadSettings, run

    experiment = read_experiment(scenario, set)
    if endless:
        return _load_endlessly(experiment, routers, host, port, out or http, end_with_parent)
    urls = asyncio.run(addresses(routers))
    if len(urls) != experiment.scenario.routers.count:
        raise SettingsError(
            f"routers.count = {experiment.scenario.routers.count}, but --routers leads to {len(urls)}: "
            f"--set routers.count={len(urls)}"
        )
    settings = LoadSettings(
        experiment.workload(), urls, experiment.scenario.time_unit_s, out, http, end_with_parent=end_with_parent
    )
    if not as_json:
        return run(settings)
    lines = io.StringIO()
    with redirect_stdout(lines):
        code = run(settings)
    sys.stdout.write(lines.getvalue().splitlines()[-1] + "\n")
    return code


def _load_endlessly(
    experiment: Experiment, routers: str, host: str, port: int, unfit: object, end_with_parent: bool
) -> int:
    from router.protocol.errors import SettingsError
    from services.loadgen.client.endless_process import EndlessSettings, run

    if unfit:
        raise SettingsError("--endless: records are not kept and jobs go by streams: leave --out and --http out")
    targets = tuple(filter(None, routers.split(",")))
    settings = EndlessSettings(
        experiment.scenario, experiment.trace, targets, host, port, end_with_parent=end_with_parent
    )
    return run(settings)


def _policy(text: str) -> dict[str, Any]:
    """A name, or a table as JSON."""
    if not text.lstrip().startswith("{"):
        return {"name": text}
    return _table("--policy", text, "a policy's name, or a [policy] table as JSON")


def _table(option: str, text: str, expected: str) -> dict[str, Any]:
    from router.protocol.errors import SettingsError

    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{option} {text}: expected {expected}: {error}") from None
    if type(table) is not dict:
        raise SettingsError(f"{option} {text}: expected {expected}")
    return table


def _make(kind: Any, role: str, values: dict[str, Any], changes: list[str]) -> Any:
    """Check and freeze the settings of a process."""
    from pydantic import ValidationError

    from router.protocol.errors import SettingsError
    from router.protocol.faults import explain
    from services.scenario_text import read_table

    for key, value in read_table("", changes).items():
        both = isinstance(value, dict) and isinstance(values.get(key), dict)
        values[key] = values[key] | value if both else value
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise SettingsError(explain(error, kind, values, f"{role}.")) from None
