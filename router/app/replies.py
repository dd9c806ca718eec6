"""What the router's HTTP interface answers, as JSON; see `docs/protocol.md`."""

from __future__ import annotations

from math import isinf
from typing import Any

from aiohttp import web

from router.events import EndJob
from router.policy import Policy, Server
from router.process.web import reply
from router.protocol.http import end_status


class BadRequest(Exception):
    """The client's mistake; answered with `{"error": {"kind", "message"}}`.

    Args:
        status: The HTTP status.
        kind: One word for it.
        message: What was expected, what was found, what to do.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def end_reply(router: str, effect: EndJob) -> web.Response:
    """Answer the end of a job."""
    server, end = effect.server, effect.end
    outcome, reason = effect.outcome, effect.reason
    value = {
        "outcome": outcome,
        "reason": reason,
        "server": None if server is None else server.id,
        "pool": None if server is None else server.pool,
        "waiting_s": None if end is None else end.waiting,
        "service_s": None if end is None else end.service,
        "router": router,
    }
    return reply(value, end_status(outcome, reason))


def server_entry(server: Server, policy: Policy, draining: bool) -> dict[str, Any]:
    """One server as this router knows it; `view` is null while it is unknown."""
    return {
        "id": server.id,
        "pool": server.pool,
        "rate": server.rate,
        "slots": server.slots,
        "capacity": "inf" if isinf(server.capacity) else int(server.capacity),
        "state": "draining" if draining else "live",
        "view": server.view,
        "outstanding": server.outstanding,
        "pull_messages": policy.held(server),
    }
