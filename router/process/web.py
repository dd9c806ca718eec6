"""What the web applications of all processes have in common: they answer in JSON, mistakes too, and show metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from aiohttp import web

from router.process.access import CHALLENGE, Access
from router.process.limits import CONNECTIONS, Connections, TooSlow
from router.process.metrics import Metrics
from router.protocol import openapi
from router.protocol.http import MAX_BODY_BYTES

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)


class Route(NamedTuple):
    """What an application answers.

    Attributes:
        guarded: Whether only those are let in who may be; `looking` makes the routes for everybody.
    """

    method: str
    path: str
    handler: Handler
    guarded: bool = True


def looking(path: str, handler: Handler) -> Route:
    """A route by which whoever reaches the process may look, and nothing else: by GET and HEAD, without a token."""
    return Route("GET", path, handler, guarded=False)


def application(routes: Iterable[Route], access: Access, connections: Connections | None = None) -> web.Application:
    """An application with these routes; what goes wrong in it is answered as JSON.

    Args:
        routes: All of them.
        access: Whom to let in to those that are guarded.
        connections: Those of the process, where its refusals are counted too.
    """
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_errors_as_json])
    app[CONNECTIONS] = connections or Connections()
    for method, path, handler, closed in routes:
        if closed:
            handler = guarded(handler, access, path)
        # `get` takes HEAD as well.
        app.add_routes([web.get(path, handler) if method == "GET" else web.route(method, path, handler)])
    return app


def reply(value: Any, status: int = 200) -> web.Response:
    """Answer a value as JSON."""
    return web.Response(body=json.dumps(value).encode(), status=status, content_type="application/json")


def error_reply(status: int, kind: str, message: str) -> web.Response:
    """Answer an error."""
    return reply({"error": {"kind": kind, "message": message}}, status)


def internal_error(method: str, path: str, error: Exception) -> web.Response:
    """Log an error that is being handled, which is ours, and answer so."""
    _log.exception("%s %s failed for a reason that is ours", method, path)
    return error_reply(500, "internal", f"{type(error).__name__}: {error}; the log of this process tells where")


def shows(metrics: Metrics) -> Handler:
    """The handler that answers metrics, in the format that is asked for."""

    async def show(request: web.Request) -> web.Response:
        body, content_type = metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return show


def describes(description: Callable[[], Any]) -> Route:
    """The route that gives the description of the whole interface, which is made when somebody asks for it."""

    async def describe(request: web.Request) -> web.Response:
        return reply(description())

    return looking(openapi.PATH, describe)


def guarded(handler: Handler, access: Access, path: str) -> Handler:
    """The handler, for those requests alone that may come in: of others, nothing but their head is read."""

    async def handle(request: web.Request) -> web.StreamResponse:
        refusal = access.refuse(request, path)
        if refusal is None:
            return await handler(request)
        answer = error_reply(*refusal)
        if answer.status == 401:
            answer.headers["WWW-Authenticate"] = CHALLENGE
        return answer

    return handle


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        methods = ", ".join(sorted(error.allowed_methods))
        answer = error_reply(405, "method", f"{request.method} {request.path}: allowed is {methods}")
        answer.headers["Allow"] = methods
        return answer
    except web.HTTPNotFound:
        paths = ", ".join(resource.canonical for resource in request.app.router.resources())
        return error_reply(404, "not_found", f"no {request.path:.80}; there are {paths}")
    except web.HTTPRequestEntityTooLarge:
        return error_reply(413, "too_long", f"body longer than {MAX_BODY_BYTES} bytes")
    except TooSlow as error:
        answer = error_reply(408, "slow", str(error))
        answer.force_close()  # what is still to come of the body is of no use
        return answer
    except (ConnectionError, web.RequestPayloadError):  # mostly nobody is there any more to read this
        request.app[CONNECTIONS].refusals["cut"] += 1
        answer = error_reply(400, "cut", "the request has ended before its announced end")
        answer.force_close()
        return answer
    except web.HTTPException:
        raise
    except Exception as error:
        return internal_error(request.method, request.path, error)
