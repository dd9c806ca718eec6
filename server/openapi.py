"""The description of a server process's HTTP interface."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from router.protocol.http import MAX_BODY_BYTES
from router.protocol.openapi import Count, Operation, Parameter, Part, Reply, Schema, describe, ref

LARGEST = 1e6
"""Of a rate, and of how many times as long services take; the least is one over it."""

Factor = Annotated[float, Field(ge=1.0 / LARGEST, le=LARGEST)]


class Disturbance(Part):
    """How an emulated server misbehaves; what is left out is as it should be."""

    slow: Factor = 1.0
    """A service that starts from now on takes so many times as long."""
    failing: bool = False
    """Whatever is dispatched to it fails at once."""
    hung: bool = False
    """It takes jobs in, but no service ends."""


class Rate(Part):
    """How fast a slot works."""

    rate: Factor
    """Jobs of unit size per time unit, beginning with the next service."""


class ServerState(Part):
    """A server of this process."""

    id: str
    pool: str
    rate: Annotated[float, Field(gt=0.0)]
    """Jobs of unit size per time unit and slot."""
    queue_length: Count
    """Jobs in the system: waiting and in service."""
    in_service: Count
    epoch: int
    """The incarnation of this process."""
    state: Literal["live", "draining"]
    disturbance: Disturbance


class Servers(Part):
    """All servers of this process, in order."""

    servers: list[ServerState]


class Health(Part):
    """The process lives."""

    status: Literal["ok"]


class Readiness(Part):
    """Whether its servers can be given jobs."""

    ready: bool
    opened: bool
    """Whether the first pull-messages were posted."""
    links_up: Count
    all_up: bool
    """Whether every known router has its link."""
    servers: Count
    draining: Count


class Drain(Part):
    """Which servers shall take nothing new."""

    servers: list[str]


class Draining(Part):
    """The servers that take nothing new, in order."""

    draining: list[str]


@cache
def description() -> Schema:
    """The whole description, ready for JSON."""
    models = (Servers, Rate, Health, Readiness, Drain, Draining)
    return describe("Herdless: a server process", _OPERATIONS, models)


_SERVER = Parameter("id", "path", "The name of a server of this process.", {"type": "string", "minLength": 1})

_OPERATIONS = (
    Operation("GET", "/v1/servers", "List the servers", {200: Reply("All of them.", ref(Servers))}),
    Operation(
        "POST", "/v1/drain", "Let servers take nothing new", {200: Reply("They do not.", ref(Draining))},
        {400: ("request",), 408: ("slow",), 413: ("too_long",)},
        details=f"Without a body: all servers of this process. At most {MAX_BODY_BYTES} bytes.",
        body=ref(Drain), guarded=True,
    ),
    Operation(
        "PUT", "/v1/servers/{id}", "Give a server another rate",
        {200: Reply("Its rate now; routers are told.", ref(Rate))},
        {400: ("request",), 404: ("not_found",), 408: ("slow",), 413: ("too_long",)},
        parameters=(_SERVER,), body=ref(Rate), body_needed=True, guarded=True,
    ),
    Operation(
        "PUT", "/v1/servers/{id}/disturbance", "Let a server misbehave, or no longer",
        {200: Reply("How it misbehaves now.", ref(Disturbance))},
        {400: ("request",), 404: ("not_found",), 408: ("slow",), 413: ("too_long",)},
        parameters=(_SERVER,), body=ref(Disturbance), body_needed=True, guarded=True,
    ),
    Operation("GET", "/health", "Say that the process lives", {200: Reply("It does.", ref(Health))}),
    Operation(
        "GET", "/ready", "Say whether the servers can be given jobs",
        {
            200: Reply("They can.", ref(Readiness, ready={"const": True})),
            503: Reply("They cannot: links are missing, or all of them drain.", ref(Readiness, ready={"const": False})),
        },
    ),
)  # fmt: skip
