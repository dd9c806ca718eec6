"""The console over HTTP: the page and its files, the stream of events, and the controls."""

from __future__ import annotations

import asyncio
import json
import mimetypes
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from aiohttp import web

from router.process.access import Access
from router.process.limits import REFUSALS, Connections, body_of, refusals
from router.process.metrics import Metric, Metrics
from router.process.web import Handler, Route, application, error_reply, looking, reply, shows
from services.console.controls import Refused
from services.console.security import HEADERS, PageAccess, host_fault
from services.console.viewers import MOST_VIEWERS, Viewers

WRITE_LIMIT_S = 5.0
MACHINES = ("/health", "/ready", "/metrics")
"""What is asked for by no browser, and under any name."""

REFUSED = Metric(
    "herdless_console_http_refusals_total",
    "HTTP requests refused, by reason; `limit`: connections or pages too many",
    "counter",
    ("reason",),
)

CarryOut = Callable[[str, Any], Awaitable[dict[str, Any]]]


class ConsoleWeb:
    """The HTTP interface.

    Args:
        viewers: Who is told of what happens.
        carry_out: Does what a page asks for.
        access: Who may change something.
        names: Names with a dot by which the console may be reached.
        ready: Whether the cluster has been seen.
    """

    def __init__(
        self,
        viewers: Viewers,
        carry_out: CarryOut,
        access: PageAccess,
        names: tuple[str, ...],
        ready: Callable[[], bool],
    ) -> None:
        self._connections = Connections()
        self._metrics = console_metrics(access, self._connections)
        self._viewers, self._carry_out, self._access = viewers, carry_out, access
        self._names, self._ready = names, ready
        # Read once: what is not among them does not exist, whatever path is asked for.
        self._files = read_files()

    def application(self) -> web.Application:
        """The application."""
        app = application(
            (
                looking("/health", self.get_health),
                looking("/ready", self.get_ready),
                looking("/metrics", shows(self._metrics)),
                looking("/v1/events", self.get_events),
                Route("POST", "/v1/do/{action}", self.post_action),
                Route("POST", "/v1/login", self.post_login),
                looking("/{path:.*}", self.get_file),
            ),
            self._access,
            self._connections,
        )
        app.middlewares.insert(0, self._check_host)
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._shut_down)
        return app

    async def _shut_down(self, _: web.Application) -> None:
        self._viewers.end_all()

    @web.middleware
    async def _check_host(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = "" if request.path in MACHINES else host_fault(request.headers.get("Host"), self._names)
        return error_reply(421, "host", fault) if fault else await handler(request)

    # -- reading ------------------------------------------------------------------------------

    async def get_health(self, _: web.Request) -> web.Response:
        """The process runs."""
        return reply({"status": "ok", "role": "console"})

    async def get_ready(self, _: web.Request) -> web.Response:
        """The cluster has been seen."""
        ready = self._ready()
        return reply({"ready": ready}, 200 if ready else 503)

    async def get_file(self, request: web.Request) -> web.Response:
        """The page, or a file of it."""
        found = self._files.get(request.path if request.path != "/" else "/index.html")
        if found is None:
            return error_reply(404, "not_found", f"no {request.path:.80}")
        body, content_type = found
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    async def get_events(self, request: web.Request) -> web.StreamResponse:
        """Everything that happens, as server-sent events; the first one is `hello`."""
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store",
                   "X-Accel-Buffering": "no"}  # fmt: skip
        if request.method == "HEAD":
            return web.Response(headers=headers)
        viewer = self._viewers.join()
        if viewer is None:
            self._connections.refusals["limit"] += 1
            return error_reply(503, "limit", f"{MOST_VIEWERS} pages are open, the limit")
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            while (data := await viewer.next()) is not None:
                async with asyncio.timeout(WRITE_LIMIT_S):
                    await response.write(data)
        except (ConnectionError, TimeoutError):
            viewer.dropped = True
        finally:
            self._viewers.leave(viewer)
            if viewer.dropped and request.transport is not None:
                request.transport.abort()  # nothing is kept for a page that does not read
        return response

    # -- changing -----------------------------------------------------------------------------

    async def post_action(self, request: web.Request) -> web.Response:
        """Change something."""
        try:
            body = json.loads(await body_of(request))
        except (ValueError, RecursionError) as mistake:
            return error_reply(400, "json", f"the body is not valid JSON: {mistake}")
        try:
            return reply(await self._carry_out(request.match_info["action"], body))
        except Refused as refusal:
            return error_reply(refusal.status, refusal.kind, str(refusal))

    async def post_login(self, request: web.Request) -> web.Response:
        """Say that the page may change something: else it does not come here."""
        return reply({"login": True})


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def console_metrics(access: Access, connections: Connections) -> Metrics:
    """The metrics of a console."""
    metrics = Metrics()
    metrics.add(REFUSED, lambda: refusals(access, connections), [(reason,) for reason in REFUSALS])
    return metrics


def read_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page, with their content types, by path."""
    found: dict[str, tuple[bytes, str]] = {}

    def read(folder: Traversable, path: str) -> None:
        for entry in folder.iterdir():
            here = f"{path}/{entry.name}"
            if entry.is_dir():
                read(entry, here)
            else:
                found[here] = entry.read_bytes(), _content_type(entry.name)

    read(files("services.console") / "static", "")
    return found


def _content_type(name: str) -> str:
    # Not all machines know that of JavaScript.
    return "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0] or "text/plain"
