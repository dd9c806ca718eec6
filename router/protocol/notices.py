"""What a link says of itself: who is there, what is needed, who drains. Never counted as messages.

A notice is a msgpack map with the key `notice`; a batch of messages is an array. The server process
dials, and speaks first.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgpack
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from router.protocol.codec import MAX_FRAME_MESSAGES
from router.protocol.errors import RemoteProtocolError, excerpt
from router.protocol.needs import Needs, Positive

VERSION = 1
MAX_SERVERS = MAX_FRAME_MESSAGES  # of one process; a hello is one frame

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$")]


def _whole(value: float) -> float:
    if not (value == int(value) if math.isfinite(value) else value > 0.0):
        raise ValueError(f"expected a whole number from 1, or inf, found {value:g}")
    return value


Capacity = Annotated[float, Field(ge=1.0), AfterValidator(_whole)]


class _Notice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ServerEntry(_Notice):
    """One server of a hello; the fields are those of `server.core.ServerSpec`."""

    id: Name
    pool: Name
    rate: Positive
    slots: Annotated[int, Field(ge=1)]
    capacity: Capacity
    pool_index: Annotated[int, Field(ge=0)]


class Hello(_Notice):
    """From a server process, first.

    Attributes:
        version: Of the protocol.
        process: The name of the server process.
        epoch: Its incarnation: a number that no other one of its incarnations has.
        boot: Identifies the host's clock: equal ones may compare monotonic instants.
        servers: Its servers; messages name them by their place here.
    """

    notice: Literal["hello"] = "hello"
    version: int
    process: Name
    epoch: int
    boot: Annotated[str, Field(max_length=200)]
    servers: Annotated[list[ServerEntry], Field(min_length=1, max_length=MAX_SERVERS)]

    @field_validator("servers")
    @classmethod
    def _names_are_different(cls, servers: list[ServerEntry]) -> list[ServerEntry]:
        if len({server.id for server in servers}) < len(servers):
            raise ValueError("two servers have the same id")
        return servers


class Welcome(_Notice):
    """From the router, in answer to a hello; then messages flow."""

    notice: Literal["welcome"] = "welcome"
    version: int
    router: Name
    epoch: int
    boot: Annotated[str, Field(max_length=200)]
    needs: Needs


class NewNeeds(_Notice):
    """From the router: its policy has changed."""

    notice: Literal["needs"] = "needs"
    needs: Needs


class Drains(_Notice):
    """From the server process: these servers (by place) take nothing new."""

    notice: Literal["drains"] = "drains"
    servers: Annotated[list[int], Field(max_length=MAX_SERVERS)]


class Rated(_Notice):
    """From the server process: this server (by place) has another rate from now on."""

    notice: Literal["rated"] = "rated"
    server: Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
    rate: Positive


Notice = Hello | Welcome | NewNeeds | Drains | Rated
_ADAPTER: TypeAdapter[Notice] = TypeAdapter(Annotated[Notice, Field(discriminator="notice")])


def encode_notice(notice: Notice) -> bytes:
    """One frame."""
    packed: bytes = msgpack.packb(notice.model_dump())
    return packed


def read_notice(value: Any) -> Notice:
    """A notice from an unpacked map.

    Raises:
        RemoteProtocolError: It is no notice, or says what is not allowed.
    """
    if type(value) is not dict or type(value.get("notice")) is not str:
        raise RemoteProtocolError(f"a notice is a map that says which one it is, found {excerpt(value)}")
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # Names and values are the peer's: no line of the log may be as long as a frame.
        where = ".".join(str(part) for part in first["loc"]) or "notice"
        message = f"{where:.80}: {first['msg']:.200} (found {excerpt(first.get('input'))})"
        raise RemoteProtocolError(message) from None


def check_version(version: int) -> None:
    """Raise `RemoteProtocolError` for a protocol version that is not ours."""
    if version != VERSION:
        raise RemoteProtocolError(
            f"protocol version {version}, this side speaks {VERSION}; run the same Herdless on both"
        )
