"""The console over HTTP: the page and its files, the stream of events, and the controls."""

from __future__ import annotations

import asyncio
import json
import mimetypes
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from aiohttp import web

from router.process.access import CHALLENGE, Access, request_fault
from router.process.limits import CONNECTIONS, Connections, TooSlow, body_of
from router.process.metrics import Metric, Metrics
from router.process.web import shows
from router.protocol.http import MAX_BODY_BYTES
from services.console.controls import Refused
from services.console.security import HEADERS, host_fault, page_fault
from services.console.viewers import Viewers

WRITE_LIMIT_S = 5.0
MACHINES = ("/health", "/ready", "/metrics")
"""What is asked for by no browser, and under any name."""
ACTIONS = ("policy", "load", "drain", "kill", "add")

REFUSED = Metric(
    "herdless_console_http_refusals_total",
    "Requests refused: changes without the token or not from a page of this console, slow bodies, viewers too many",
    "counter",
    ("reason",),
)

CarryOut = Callable[[str, Any], Awaitable[dict[str, Any]]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ConsoleWeb:
    """The HTTP interface.

    Args:
        viewers: Who is told of what happens.
        carry_out: Does what a page asks for.
        token: The secret of the pages.
        names: Names with a dot by which the console may be reached.
        ready: Whether the cluster has been seen.
        access: Who may change something; left out: whoever reaches the console.
    """

    def __init__(
        self,
        viewers: Viewers,
        carry_out: CarryOut,
        token: str,
        names: tuple[str, ...],
        ready: Callable[[], bool],
        access: Access | None = None,
    ) -> None:
        self._access = access or Access(None)
        self._refused = Counter({"token": 0, "page": 0, "slow": 0, "limit": 0})
        self._connections = Connections(refusals=self._refused)
        self._metrics = console_metrics(self._refused)
        self._viewers, self._carry_out, self._token, self._names, self._ready = viewers, carry_out, token, names, ready
        # Read once: what is not among them does not exist, whatever path is asked for.
        self._files = read_files()

    def application(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app[CONNECTIONS] = self._connections
        app.router.add_get("/health", self.get_health)
        app.router.add_get("/ready", self.get_ready)
        app.router.add_get("/metrics", shows(self._metrics))
        app.router.add_get("/v1/events", self.get_events)
        app.router.add_post("/v1/do/{action}", self.post_action)
        app.router.add_post("/v1/login", self.post_login)
        app.router.add_get("/{path:.*}", self.get_file)
        app.on_shutdown.append(self._shut_down)
        return app

    async def _shut_down(self, _: web.Application) -> None:
        self._viewers.end_all()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = "" if request.path in MACHINES else host_fault(request.headers.get("Host"), self._names)
        try:
            response = error(421, fault) if fault else await handler(request)
        except TooSlow as refusal:
            response = error(408, str(refusal))
            response.force_close()
        except web.HTTPException as refusal:
            response = error(refusal.status, refusal.reason)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    # -- reading ------------------------------------------------------------------------------

    async def get_health(self, _: web.Request) -> web.Response:
        """The process runs."""
        return web.json_response({"status": "ok", "role": "console"})

    async def get_ready(self, _: web.Request) -> web.Response:
        """The cluster has been seen."""
        ready = self._ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def get_file(self, request: web.Request) -> web.Response:
        """The page, or a file of it."""
        found = self._files.get(request.path if request.path != "/" else "/index.html")
        if found is None:
            return error(404, f"no {request.path:.80}")
        body, content_type = found
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    async def get_events(self, request: web.Request) -> web.StreamResponse:
        """Everything that happens, as server-sent events; the first one is `hello`."""
        viewer = self._viewers.join()
        if viewer is None:
            self._refused["limit"] += 1
            return error(503, "too many pages are open")
        headers = {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store",
                   "X-Accel-Buffering": "no"}  # fmt: skip
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
        action = request.match_info["action"]
        if action not in ACTIONS:
            return error(404, f"no {action:.40}; there are {', '.join(ACTIONS)}")
        if (answer := self._refuse(request)) is not None:
            return answer
        try:
            return web.json_response(await self._carry_out(action, json.loads(await body_of(request))))
        except (ValueError, RecursionError) as mistake:
            return error(400, f"the body is not valid JSON: {mistake}")
        except Refused as refusal:
            return error(refusal.status, str(refusal))

    async def post_login(self, request: web.Request) -> web.Response:
        """Say whether the page may change something."""
        refusal = self._refuse(request)
        return web.json_response({"login": True}) if refusal is None else refusal

    def _refuse(self, request: web.Request) -> web.Response | None:
        """What is answered to a request that may change nothing; of its body nothing is read."""
        if not self._access.allows(request.headers):
            self._refused["token"] += 1
            response = error(401, f"{request.method} {request.path}: {request_fault(request.headers)}")
            response.headers["WWW-Authenticate"] = CHALLENGE
            return response
        if fault := page_fault(request.headers, request.scheme, self._token):
            self._refused["page"] += 1
            return error(403, fault)
        return None


def console_metrics(refused: Mapping[str, float]) -> Metrics:
    """The metrics of a console."""
    metrics = Metrics()
    metrics.add(REFUSED, lambda: refused)
    return metrics


def error(status: int, message: str) -> web.Response:
    """Answer why something is not done."""
    return web.json_response({"error": message}, status=status)


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
