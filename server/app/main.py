"""The server process, from its settings to its exit code."""

from __future__ import annotations

import gc
import logging
import time

from router.process.access import access_from_environment
from router.process.eventlog import open_log
from router.process.identity import make_identity
from router.process.limits import Connections
from router.process.logs import log_to_standard_error
from router.process.serve import Listen, give_up, serve
from router.process.serve import run as run_loop
from router.process.tls import tls_from_environment
from router.protocol.errors import SettingsError
from server.app.driver import ServerDriver
from server.app.links import Links
from server.app.metrics import make_metrics
from server.app.settings import SHORTEST_SERVICE_S, ServerSettings
from server.app.web import make_application

_log = logging.getLogger(__name__)


def run(settings: ServerSettings, as_json: bool = False) -> int:
    """Run a server process until it is told to end; return its exit code.

    On SIGTERM its servers drain: pull-messages are withdrawn, routers are told, the jobs that are there finish
    within `drain_limit_s`.

    Args:
        settings: The settings.
        as_json: Whether mistakes are told as JSON.
    """
    log_to_standard_error(settings.id)
    return run_loop(lambda: serve_servers(settings, as_json))


async def serve_servers(settings: ServerSettings, as_json: bool = False) -> int:
    """Serve in the running loop; see `run`."""
    if settings.mean_service_s < SHORTEST_SERVICE_S:
        _log.warning(
            "the mean service time is %.3g ms; below %.0f ms the machine's own delays show in the results: "
            "choose a larger time_unit_s (now %g)",
            settings.mean_service_s * 1e3, SHORTEST_SERVICE_S * 1e3, settings.time_unit_s,
        )  # fmt: skip
    try:
        access, tls = access_from_environment(), tls_from_environment()
        tls.client_context()  # a file that is not what it should be is told now, not at the first link
        identity = make_identity(settings.id)
        log = open_log(settings, identity, "server")
    except SettingsError as error:
        return give_up(settings.id, "settings", str(error), as_json)
    driver = ServerDriver(settings, log=log)
    links = Links(settings, driver, identity=identity)

    async def drain() -> None:
        links.drain(list(driver.cores))
        await driver.until_empty()

    listen = Listen(
        role="server",
        id=settings.id,
        host=settings.host,
        port=settings.port,
        drain_limit_s=settings.drain_limit_s,
        end_with_parent=settings.end_with_parent,
        as_json=as_json,
        access=access,
        tls=tls,
    )
    connections = Connections(settings.http)
    app = make_application(
        driver, links, make_metrics(settings, driver, links, access, connections), access, connections
    )
    gc.freeze()  # what is there now stays: the collector need not look at it again
    try:
        return await serve(app, listen, drain)
    finally:
        driver.close()
        if log is not None:
            log.close(time.monotonic())
