"""The description of a router's HTTP interface, made from the tables that the router itself uses."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from router.protocol.http import MAX_BODY_BYTES, MAX_JOB_BYTES, MAX_KEY, OUR_MISTAKE, STATUS, TURNED_AWAY
from router.protocol.messages import Outcome
from router.protocol.openapi import Count, Operation, Parameter, Part, Reply, Schema, describe, model_schemas, ref
from router.registry import policy_names, policy_type

Amount = Annotated[float, Field(ge=0.0, lt=1e15)]
Seconds = Annotated[float, Field(ge=0.0)]


class Job(Part):
    """A job, in time units."""

    size: Amount = 1.0
    """How much service it needs; the mean is 1."""
    patience: Amount | None = None
    """How long it will wait; null: for ever."""
    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern="^[ -~]+$")] | None = None
    """A job with a key is served at most once; whoever sends it again is told the same end."""


class JobEnd(Part):
    """The one end of a job."""

    outcome: Outcome
    reason: str
    """Why, when it failed; else empty."""
    server: str | None
    """Where it was; null when it never went to a server."""
    pool: str | None
    waiting_s: Seconds | None
    """From its arrival at the server to its start; null when no server ended it."""
    service_s: Seconds | None
    router: str
    """Who answers."""


class ServerEntry(Part):
    """A server as this router knows it."""

    id: str
    pool: str
    rate: Annotated[float, Field(gt=0.0)]
    """Of one slot, in jobs of unit size per time unit."""
    slots: Annotated[int, Field(ge=1)]
    capacity: Annotated[int, Field(ge=1)] | Literal["inf"]
    """The most jobs that it holds, service included."""
    state: Literal["live", "draining", "aside"]
    """Aside: it failed, hung or fell silent, and gets no job for a while."""
    view: Count | None
    """The queue length that this router believes in; null while it is unknown."""
    outstanding: Count
    """Jobs of this router that are there."""
    failed: Count
    """Jobs of this router that it has failed; those that it turned away (`draining`, `ceiling`) do not count."""
    pull_messages: Count
    """Pull-messages of this server that this router holds."""


class Servers(Part):
    """All servers that are linked, in the order in which they joined."""

    servers: list[ServerEntry]


class Health(Part):
    """The process lives."""

    status: Literal["ok"]
    role: Literal["router"]
    id: str


class Readiness(Part):
    """Whether a job would find a server."""

    ready: bool
    reason: Literal["", "no_server", "draining"]
    servers: Count
    """Servers that may be chosen."""


@cache
def description() -> Schema:
    """The whole description, ready for JSON."""
    policies = _policy_schemas()
    policy: Schema = {
        "description": "A scenario's [policy] table: the policy's name and its parameters.",
        "oneOf": [{"$ref": f"#/components/schemas/{key}"} for key in policies],
        "discriminator": {
            "propertyName": "name",
            "mapping": {name: f"#/components/schemas/{_policy_key(name)}" for name in policy_names()},
        },
    }
    models = (Job, JobEnd, Servers, Health, Readiness)
    return describe("Herdless: a router", _OPERATIONS, models, {"Policy": policy, **policies})


def _policy_key(name: str) -> str:
    return f"Policy_{name}"


def _policy_schemas() -> dict[str, Schema]:
    """A schema for the table of each policy, from the model that checks it."""
    found: dict[str, Schema] = {}
    for name in policy_names():
        kind = policy_type(name)
        parameters = kind.parameters_type
        schemas = model_schemas([parameters])
        schema = schemas.pop(parameters.__name__)
        schema["properties"] = {"name": {"const": name}, **schema.get("properties", {})}
        schema["required"] = ["name", *schema.get("required", [])]
        found |= {_policy_key(name): schema} | schemas
    return found


_POLICY: Schema = {"$ref": "#/components/schemas/Policy"}


def _end(*outcomes: str, reasons: tuple[str, ...] = ()) -> Schema:
    """The end of a job with one of these outcomes, or that failed for one of these reasons."""
    ended: list[Schema] = []
    if outcomes:
        ended.append(ref(JobEnd, outcome={"enum": list(outcomes)}))
    if reasons:
        ended.append(ref(JobEnd, outcome={"const": "failed"}, reason={"enum": list(reasons)}))
    return ended[0] if len(ended) == 1 else {"anyOf": ended}


_JOB_ENDS = {
    STATUS["served"]: Reply("It was served.", _end("served")),
    500: Reply("The policy raised an error: see the router's log.", _end(reasons=OUR_MISTAKE)),
    STATUS["failed"]: Reply("Its server, or the link to it, was lost.", _end("failed")),
    503: Reply("There is no place for it now: it may be tried again.", _end("blocked", reasons=TURNED_AWAY)),
    STATUS["abandoned"]: Reply("Its patience ended.", _end("abandoned")),
}
_KEY: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[ -~]+$"}
_TO_WEBSOCKET = {
    101: Reply("The protocol changes to WebSocket (RFC 6455); docs/protocol.md says what is spoken there.")
}

_OPERATIONS = (
    Operation(
        "POST", "/v1/jobs", "Send one job and wait for its end", _JOB_ENDS,
        {400: ("json", "job"), 408: ("slow",), 409: ("key",), 413: ("too_long",)},
        parameters=(
            Parameter("Idempotency-Key", "header", "The key of the job, if the body has none.", _KEY),
        ),
        details=f"Without a body a job has size 1 and waits for ever. At most {MAX_JOB_BYTES} bytes.",
        body=ref(Job), guarded=True,
    ),
    Operation(
        "GET", "/v1/link", "Link a server process", _TO_WEBSOCKET, {400: ("websocket",), 503: ("limit",)}, guarded=True,
    ),
    Operation(
        "GET", "/v1/stream", "Stream jobs and their ends", _TO_WEBSOCKET, {400: ("websocket",), 503: ("limit",)},
        parameters=(
            Parameter("boot", "query", "Whose clock the stamps are read from.", {"type": "string"}),
        ),
        guarded=True,
    ),
    Operation("GET", "/v1/servers", "List the servers", {200: Reply("All of them.", ref(Servers))}),
    Operation("GET", "/v1/policy", "Show the policy in force", {200: Reply("With every parameter.", _POLICY)}),
    Operation(
        "PUT", "/v1/policy", "Put another policy in force", {200: Reply("It is in force now.", _POLICY)},
        {400: ("json", "settings"), 408: ("slow",), 413: ("too_long",), 429: ("too_often",)},
        details=f"Parameters that are left out have their defaults. At most {MAX_BODY_BYTES} bytes.",
        body=_POLICY, body_needed=True, guarded=True,
    ),
    Operation("GET", "/health", "Say that the process lives", {200: Reply("It does.", ref(Health))}),
    Operation(
        "GET", "/ready", "Say whether a job would find a server",
        {
            200: Reply("It would.", ref(Readiness, ready={"const": True}, reason={"const": ""})),
            503: Reply("It would not.", ref(Readiness, ready={"const": False})),
        },
    ),
)  # fmt: skip
