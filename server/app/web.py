"""The server process over HTTP: health, readiness, metrics, its servers, and the orders to drain and to misbehave."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from router.process.access import Access
from router.process.limits import Connections, body_of
from router.process.metrics import Metrics
from router.process.web import Route, application, describes, error_reply, looking, reply, shows
from server.app.driver import ServerDriver
from server.app.links import Links
from server.core import Disturbed
from server.openapi import LARGEST, description


class Handlers:
    """Answers HTTP requests.

    Args:
        driver: The servers.
        links: Their links.
    """

    def __init__(self, driver: ServerDriver, links: Links) -> None:
        self._driver = driver
        self._links = links

    async def health(self, _: web.Request) -> web.Response:
        """The process runs."""
        return reply({"status": "ok"})

    async def ready(self, _: web.Request) -> web.Response:
        """The servers are open, every known router has its link, and some server takes jobs."""
        driver, links = self._driver, self._links
        draining = len(driver.draining)
        ready = driver.opened and links.all_up and draining < len(driver.cores)
        state = {"ready": ready, "opened": driver.opened, "links_up": links.up, "all_up": links.all_up,
                 "servers": len(driver.cores), "draining": draining}  # fmt: skip
        return reply(state, 200 if ready else 503)

    async def servers(self, _: web.Request) -> web.Response:
        """The servers of this process."""
        servers = [
            {
                "id": core.spec.id,
                "pool": core.spec.pool,
                "rate": core.spec.rate,
                "queue_length": core.length,
                "in_service": core.busy,
                "epoch": self._links.epoch,
                "state": "draining" if core.draining else "live",
                "disturbance": core.disturbance._asdict(),
            }
            for core in self._driver.cores.values()
        ]
        return reply({"servers": servers})

    async def drain(self, request: web.Request) -> web.Response:
        """Drain all servers, or those that the body names."""
        known = list(self._driver.cores)
        body = await body_of(request)
        try:
            servers = _servers_named(json.loads(body), self._driver) if body else known
        except (ValueError, RecursionError) as error:  # of JSON and UTF-8 too
            return error_reply(400, "request", str(error))
        self._links.drain(servers)
        return reply({"draining": self._driver.draining})

    async def rate(self, request: web.Request) -> web.Response:
        """Give a server another rate."""
        server = request.match_info["id"]
        if server not in self._driver.cores:
            return error_reply(404, "not_found", str(_unknown(server, self._driver)))
        try:
            rate = _rate(json.loads(await body_of(request)))
        except (ValueError, RecursionError) as error:
            return error_reply(400, "request", str(error))
        self._links.rate(server, rate)
        return reply({"rate": rate})

    async def disturb(self, request: web.Request) -> web.Response:
        """Make a server misbehave in the way that the body says, or no more."""
        server = request.match_info["id"]
        if server not in self._driver.cores:
            return error_reply(404, "not_found", str(_unknown(server, self._driver)))
        try:
            disturbance = _disturbance(json.loads(await body_of(request)))
        except (ValueError, RecursionError) as error:
            return error_reply(400, "request", str(error))
        self._driver.disturb(server, disturbance)
        return reply(disturbance._asdict())


def _servers_named(value: Any, driver: ServerDriver) -> list[str]:
    if type(value) is not dict or list(value) != ["servers"] or type(value["servers"]) is not list:
        raise ValueError('expected no body (all servers) or {"servers": ["NAME", …]}')
    servers: list[str] = []
    for name in value["servers"]:
        if type(name) is not str or name not in driver.cores:
            raise _unknown(name, driver)
        servers.append(name)
    return list(dict.fromkeys(servers))


def _unknown(name: Any, driver: ServerDriver) -> ValueError:
    known = list(driver.cores)
    return ValueError(f"server {name!r:.80} is not in this process, which has {known[0]} to {known[-1]}")


def _rate(value: Any) -> float:
    if type(value) is not dict or list(value) != ["rate"]:
        raise ValueError(f'expected {{"rate": …}}, found {value!r:.80}')
    return _factor("rate", value["rate"])


def _disturbance(value: Any) -> Disturbed:
    if type(value) is not dict:
        raise ValueError(f'expected {{"slow": …, "failing": …, "hung": …}}, each optional, found {value!r:.80}')
    if unknown := sorted(value.keys() - set(Disturbed._fields)):
        raise ValueError(f"unknown key {unknown[0]!r:.80}: a disturbance has {', '.join(Disturbed._fields)}")
    slow = _factor("slow", value.get("slow", 1.0))
    for key in ("failing", "hung"):
        if type(value.get(key, False)) is not bool:
            raise ValueError(f"{key} = {value[key]!r:.80}: expected true or false")
    return Disturbed(slow, value.get("failing", False), value.get("hung", False))


def _factor(key: str, value: Any) -> float:
    if type(value) not in (int, float) or not LARGEST >= value >= 1.0 / LARGEST:
        raise ValueError(f"{key} = {value!r:.80}: expected a number from {1.0 / LARGEST:g} to {LARGEST:g}")
    return float(value)


def make_application(
    driver: ServerDriver,
    links: Links,
    metrics: Metrics,
    access: Access | None = None,
    connections: Connections | None = None,
) -> web.Application:
    """The application; it dials routers while it runs. It lets everybody in if it is not told whom."""
    handlers = Handlers(driver, links)
    app = application(
        (
            looking("/health", handlers.health),
            looking("/ready", handlers.ready),
            looking("/metrics", shows(metrics)),
            describes(description),
            looking("/v1/servers", handlers.servers),
            Route("POST", "/v1/drain", handlers.drain),
            Route("PUT", "/v1/servers/{id}", handlers.rate),
            Route("PUT", "/v1/servers/{id}/disturbance", handlers.disturb),
        ),
        access or Access(None),
        connections,
    )

    async def start(_: web.Application) -> None:
        await links.start()

    async def stop(_: web.Application) -> None:
        await links.close()

    app.on_startup.append(start)
    app.on_cleanup.append(stop)
    return app
