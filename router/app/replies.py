"""What the router's HTTP interface answers, as JSON; see `docs/protocol.md`."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted
from math import isinf
from typing import Any

from router.events import EndJob
from router.members import Members
from router.policy import Server
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


def end_answer(router: str, effect: EndJob) -> tuple[int, bytes]:
    """The status and the JSON that answer the end of a job; written by hand, since every job needs it."""
    _, outcome, reason, server, end, _, _ = effect
    name, pool = ("null", "null") if server is None else (quoted(server.id), quoted(server.pool))
    waiting, service = ("null", "null") if end is None else (repr(end.waiting), repr(end.service))
    body = (
        f'{{"outcome": "{outcome}", "reason": {quoted(reason)}, "server": {name}, "pool": {pool}, '
        f'"waiting_s": {waiting}, "service_s": {service}, "router": {quoted(router)}}}'
    )
    return end_status(outcome, reason), body.encode()


def server_entry(server: Server, members: Members) -> dict[str, Any]:
    """One server as this router knows it; `view` is null while it is unknown."""
    return {
        "id": server.id,
        "pool": server.pool,
        "rate": server.rate,
        "slots": server.slots,
        "capacity": "inf" if isinf(server.capacity) else int(server.capacity),
        "state": members.state(server),
        "view": server.view,
        "outstanding": server.outstanding,
        "failed": server.failed,
        "pull_messages": members.held(server),
    }
