"""The server process over HTTP: health, readiness, metrics, its servers, and the order to drain."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from router.process.metrics import Metrics
from router.process.serve import MAX_BODY_BYTES
from server.app.driver import ServerDriver
from server.app.links import Links


class Handlers:
    """Answers HTTP requests.

    Args:
        driver: The servers.
        links: Their links.
        metrics: What `/metrics` shows.
    """

    def __init__(self, driver: ServerDriver, links: Links, metrics: Metrics) -> None:
        self._driver = driver
        self._links = links
        self._metrics = metrics

    async def health(self, _: web.Request) -> web.Response:
        """The process runs."""
        return web.json_response({"status": "ok"})

    async def ready(self, _: web.Request) -> web.Response:
        """The servers are open, every known router has its link, and some server takes jobs."""
        driver, links = self._driver, self._links
        draining = len(driver.draining)
        ready = driver.opened and links.all_up and draining < len(driver.cores)
        state = {"ready": ready, "opened": driver.opened, "links_up": links.up, "all_up": links.all_up,
                 "servers": len(driver.cores), "draining": draining}  # fmt: skip
        return web.json_response(state, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """All metrics, in the format that the scraper asks for."""
        body, content_type = self._metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def servers(self, _: web.Request) -> web.Response:
        """The servers of this process."""
        servers = [
            {
                "id": core.spec.id,
                "pool": core.spec.pool,
                "queue_length": core.length,
                "in_service": core.busy,
                "epoch": self._links.epoch,
                "state": "draining" if core.draining else "live",
            }
            for core in self._driver.cores.values()
        ]
        return web.json_response({"servers": servers})

    async def drain(self, request: web.Request) -> web.Response:
        """Drain all servers, or those that the body names."""
        known = list(self._driver.cores)
        body = await request.read()
        try:
            servers = _servers_named(json.loads(body), self._driver) if body else known
        except (ValueError, RecursionError) as error:  # of JSON and UTF-8 too
            return web.json_response({"error": {"kind": "request", "message": str(error)}}, status=400)
        self._links.drain(servers)
        return web.json_response({"draining": self._driver.draining})


def _servers_named(value: Any, driver: ServerDriver) -> list[str]:
    if type(value) is not dict or list(value) != ["servers"] or type(value["servers"]) is not list:
        raise ValueError('expected no body (all servers) or {"servers": ["NAME", …]}')
    servers: list[str] = []
    for name in value["servers"]:
        if type(name) is not str or name not in driver.cores:
            known = list(driver.cores)
            raise ValueError(f"server {name!r:.80} is not in this process, which has {known[0]} to {known[-1]}")
        servers.append(name)
    return list(dict.fromkeys(servers))


def make_application(driver: ServerDriver, links: Links, metrics: Metrics) -> web.Application:
    """The application; it dials routers while it runs."""
    handlers = Handlers(driver, links, metrics)
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes(
        [
            web.get("/health", handlers.health),
            web.get("/ready", handlers.ready),
            web.get("/metrics", handlers.metrics),
            web.get("/v1/servers", handlers.servers),
            web.post("/v1/drain", handlers.drain),
        ]
    )

    async def start(_: web.Application) -> None:
        await links.start()

    async def stop(_: web.Application) -> None:
        await links.close()

    app.on_startup.append(start)
    app.on_cleanup.append(stop)
    return app
