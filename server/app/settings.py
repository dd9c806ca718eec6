"""What a server process is told at its start."""

from __future__ import annotations

from random import Random
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from router.process.limits import HttpLimits
from router.protocol.codec import MAX_LENGTH
from router.protocol.errors import SettingsError
from router.protocol.faults import explain
from router.protocol.needs import Positive
from router.protocol.notices import MAX_SERVERS, Capacity, Name
from server.app.discovery import parse_target
from server.core import ServerSpec

# Below this the machine's own delays are no longer small beside a service.
SHORTEST_SERVICE_S = 0.020


class ServerSettings(BaseModel):
    """A server process: one pool, or a part of one.

    Attributes:
        id: The name of the process.
        host, port: Where it listens for HTTP; port 0: any free one.
        pool: The name of the pool. `pool_index`: its place in the scenario, from 0.
        prefix: What the names of the servers begin with; empty: the name of the pool. Processes that share a pool
            and do not know of each other need different ones.
        servers: How many servers of it live here; `first`: the number of the first one (`slow-1` is 1).
        rate, slots, capacity: Of each server, as in `ServerSpec`.
        ceiling: The most jobs at a server whose capacity is larger still; beyond, they fail at once with reason
            `ceiling`.
        seed: The root of all randomness.
        time_unit_s: Seconds in a time unit.
        routers: Each a URL, `host:port` or a name that stands for all its addresses.
        in_service: Patience also ends a service.
        open_after_s: The first pull-messages are posted when all links are up, and at the latest so long after
            the first one.
        resolve_every_s: How often names are looked up anew.
        reconnect_first_s, reconnect_most_s: The first and the longest pause before a router is dialled again.
        handshake_limit_s: How long dialling and the welcome may take, together.
        heartbeat_s: How often a router that is silent is asked whether it is still there.
        http: What whoever comes by HTTP may make the process hold.
        max_links: The most routers that are dialled.
        backlog: The most messages that wait for one router; a router that reads too slowly loses its link.
        drain_limit_s: How long a drain may take.
        metrics_per_server: Show the queue length of each server too.
        longest_queue: Longer queues share the last place of the queue-length metric.
        end_with_parent: End as soon as standard input ends.
        events: The file of the event log; empty: there is none. `events_mib`: how much of it is kept, in MiB;
            `events_grow`: it grows beyond that, and all is kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[Name, Field(max_length=64)]
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    pool: Annotated[Name, Field(max_length=64)]
    pool_index: Annotated[int, Field(ge=0)] = 0
    prefix: Annotated[str, Field(max_length=180, pattern=r"^([A-Za-z0-9][A-Za-z0-9._:-]*)?$")] = ""
    servers: Annotated[int, Field(ge=1, le=MAX_SERVERS)]
    first: Annotated[int, Field(ge=1, le=10**9)] = 1
    rate: Positive = 1.0
    slots: Annotated[int, Field(ge=1)] = 1
    capacity: Capacity = float("inf")
    ceiling: Annotated[int, Field(ge=1, le=MAX_LENGTH)] = 100_000
    seed: int = 1
    time_unit_s: Positive = 0.1
    routers: Annotated[tuple[str, ...], Field(min_length=1)]
    in_service: bool = False
    open_after_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 1.0
    resolve_every_s: Positive = 2.0
    reconnect_first_s: Positive = 0.05
    reconnect_most_s: Positive = 2.0
    handshake_limit_s: Positive = 5.0
    heartbeat_s: Positive = 10.0
    http: HttpLimits = HttpLimits()
    max_links: Annotated[int, Field(ge=1)] = 1_000
    backlog: Annotated[int, Field(ge=1000)] = 250_000
    drain_limit_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 30.0
    metrics_per_server: bool = False
    longest_queue: Annotated[int, Field(ge=1, le=1000)] = 20
    end_with_parent: bool = False
    events: str = ""
    events_mib: Annotated[int, Field(ge=1, le=65536)] = 8
    events_grow: bool = False

    @field_validator("routers")
    @classmethod
    def _routers_can_be_dialled(cls, routers: tuple[str, ...]) -> tuple[str, ...]:
        for text in routers:
            try:
                parse_target(text)
            except SettingsError as error:
                raise ValueError(str(error)) from None
        return routers

    @property
    def mean_service_s(self) -> float:
        """Mean service time of a job of mean size."""
        return self.time_unit_s / self.rate

    def specs(self) -> list[ServerSpec]:
        """Its servers, in order."""
        numbers = range(self.first, self.first + self.servers)
        return [
            ServerSpec(
                f"{self.prefix or self.pool}-{number}", self.pool, self.rate, self.slots, self.capacity, self.pool_index
            )
            for number in numbers
        ]

    def stream(self, entity: str, purpose: str) -> Random:
        """The random stream of that name: the same for the same seed, whatever else is drawn."""
        return Random(f"{self.seed}:{entity}:{purpose}")


def make_settings(values: dict[str, Any]) -> ServerSettings:
    """Check and freeze settings.

    Raises:
        SettingsError: Which one is wrong, what was found, what is allowed.
    """
    try:
        return ServerSettings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(explain(error, ServerSettings, values, "server.")) from None
