"""The console as a process, and as a part of `herdless up`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from router.process.access import token_from_environment
from router.process.logs import Strangers, log_to_standard_error
from router.process.serve import CannotListen, Listen, accepting, bind, serve, url_of
from router.process.serve import run as run_loop
from router.process.tls import Tls, tls_from_environment
from services.console.collector import Collector
from services.console.controls import Controls, Owned, allowed
from services.console.local import LocalCluster
from services.console.parameters import policy_forms
from services.console.places import Attached, Http, Places, make_session
from services.console.security import PageAccess
from services.console.status import SERIES
from services.console.web import ConsoleWeb
from services.lab.errors import RunInvalid
from services.lab.watch import Watch
from services.scenario import Scenario


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """A console of a cluster that runs already.

    Attributes:
        scenario: What it is believed to run: service law, patience, time unit and the order of the pools.
        routers, servers, load: URLs, `host:port` or names, with commas between. Without servers, queue lengths are
            what routers have outstanding; without load, it cannot be changed.
        read_only: Nothing may be changed by this page.
        names: Names with a dot by which the console may be reached.
        host, port: Where it listens.
        end_with_parent: End when standard input ends.
    """

    scenario: Scenario
    routers: str
    servers: str = ""
    load: str = ""
    read_only: bool = False
    names: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    end_with_parent: bool = False


def run(settings: ConsoleSettings) -> int:
    """Run until told to end; return the exit code.

    Raises:
        SettingsError: The scenario does not say at what rate jobs arrive.
    """
    log_to_standard_error("console")
    _ = settings.scenario.rate_total
    listen = _listen(settings)

    async def main() -> int:
        places = Attached(settings.routers, settings.servers, settings.load)
        async with console_application(settings, places) as (app, _):
            return await serve(app, listen)

    return run_loop(main)


@asynccontextmanager
async def serve_local(scenario: Scenario, local: LocalCluster, port: int) -> AsyncIterator[str]:
    """Serve the page of a cluster that is this process's own, on the loopback address.

    Args:
        scenario: What was started.
        local: The cluster.
        port: Of the page; 0: any free one.

    Yields:
        The URL of the page.

    Raises:
        RunInvalid: The port is in use.
    """
    routers, load = ",".join(await local.routers()), ",".join(await local.generators())
    settings = ConsoleSettings(scenario, routers, load=load, port=port)
    listen = _listen(settings)
    async with console_application(settings, local, local) as (app, collector):
        local.tell = collector.journal.add
        local.start_faults()
        logging.getLogger("aiohttp.server").addFilter(Strangers())
        try:
            listener = await bind(listen)
        except CannotListen as error:
            message = f"console: cannot listen on {settings.host}:{port}: {error}"
            raise RunInvalid("port_in_use", message) from None
        async with accepting(app, listener, listen.tls.server_context(), listen.close_limit_s):
            yield f"{url_of(listen, listener)}/"


def _listen(settings: ConsoleSettings) -> Listen:
    return Listen("console", "console", settings.host, settings.port, end_with_parent=settings.end_with_parent,
                  tls=for_browsers(tls_from_environment()))  # fmt: skip


@asynccontextmanager
async def console_application(
    settings: ConsoleSettings, places: Places, owned: Owned | None = None
) -> AsyncIterator[tuple[web.Application, Collector]]:
    """The application of a console, which looks at the cluster from now on.

    Args:
        settings: What it shows.
        places: Where the processes are.
        owned: The cluster, if the console runs it.
    """
    scenario, access = settings.scenario, PageAccess(token_from_environment())
    watch = Watch(scenario, settings.routers, settings.load)
    can = allowed(owned is not None, settings.read_only, bool(settings.load))
    async with make_session() as session:
        asks = Http(session)
        collector = Collector(scenario, places, asks, watch, about(scenario, can, access.page, access.needed))
        controls = Controls(places, asks, watch, collector, owned, can)
        pages = ConsoleWeb(
            collector.viewers, controls.carry_out, access, settings.names, lambda: bool(collector.fleet.places)
        )
        looking = asyncio.create_task(collector.run())
        try:
            yield pages.application(), collector
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


def for_browsers(tls: Tls) -> Tls:
    """TLS as on every other port, but for certificates of clients: people log in by the token."""
    return replace(tls, client_ca="")


def about(scenario: Scenario, can: dict[str, bool], token: str, locked: bool = False) -> dict[str, Any]:
    """What every page is told first.

    Args:
        scenario: What was started, or is believed to run.
        can: What the console may do.
        token: The secret of its pages.
        locked: Whether the token of the cluster is needed too.
    """
    pools = [
        {"name": pool.name, "rate": pool.rate, "slots": pool.slots,
         "capacity": None if pool.capacity == float("inf") else int(pool.capacity)}
        for pool in scenario.pools
    ]  # fmt: skip
    return {
        "scenario": {"name": scenario.name, "title": scenario.title, "source": scenario.source,
                     "time_unit_s": scenario.time_unit_s, "pools": pools, "patience": scenario.patience is not None},
        "series": SERIES,
        "policies": policy_forms(),
        "can": can,
        "token": token,
        "locked": locked,
    }  # fmt: skip
