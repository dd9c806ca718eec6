"""The wire between a generator and a router: jobs in, ends out, in batches (`GET /v1/stream`).

The router speaks first, with a `Greeting`. Then each frame is a msgpack array: from the generator
`[stamp, [id, size, patience], …]`, from the router `[stamp, [id, outcome, …], …]` in the order of the
fields of `Answer`. `stamp` is the sender's monotonic instant in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import msgpack

from router.protocol.codec import MAX_FRAME_MESSAGES, is_amount, is_count, is_instant, unpack
from router.protocol.errors import RemoteProtocolError, excerpt
from router.protocol.messages import OUTCOMES, Outcome

VERSION = 1


class Request(NamedTuple):
    """A job: its number on this stream, its size (unit mean) and its patience (time units or `None`)."""

    id: int
    size: float
    patience: float | None


class Answer(NamedTuple):
    """The one end of a job.

    Attributes:
        id: Its number on this stream.
        outcome: How it ended. `reason`: why, when it failed.
        server: Where it was, and `pool`; empty: it never went to a server.
        policy: The name of the policy that decided it.
        arrived_s: Instant at which it reached the server, on that host's monotonic clock; 0 without a server.
        waiting_s: From there to the start of service. `service_s`: from the start to the end.
        fallback: The policy chose at random for want of knowledge.
        stale: What the policy believed of the server was wrong when the job arrived there.
    """

    id: int
    outcome: Outcome
    reason: str
    server: str
    pool: str
    policy: str
    arrived_s: float
    waiting_s: float
    service_s: float
    fallback: bool
    stale: bool


_ANSWER_TYPES = frozenset(
    (int, str, str, str, str, str, *times, bool, bool) for times in product((float, int), repeat=3)
)


class Greeting(NamedTuple):
    """The router's first frame; `boot` identifies its host's clock."""

    version: int
    router: str
    boot: str


def encode(items: Iterable[NamedTuple], stamp_s: float) -> bytes:
    """One frame of requests, or of answers."""
    frame: list[Any] = [stamp_s]
    frame += items
    packed: bytes = msgpack.packb(frame)
    return packed


def encode_greeting(greeting: Greeting) -> bytes:
    """The first frame."""
    packed: bytes = msgpack.packb(greeting._asdict())
    return packed


def decode_greeting(data: bytes) -> Greeting:
    """The router's first frame.

    Raises:
        RemoteProtocolError: It is none, or of another version.
    """
    value = unpack(data)
    if type(value) is not dict or set(value) != set(Greeting._fields):
        raise RemoteProtocolError(f"a stream begins with a map of {', '.join(Greeting._fields)}")
    if value["version"] != VERSION:
        raise RemoteProtocolError(f"stream version {excerpt(value['version'], 40)}, this side speaks {VERSION}")
    if type(value["router"]) is not str or type(value["boot"]) is not str:
        raise RemoteProtocolError("router and boot of a greeting are text")
    return Greeting(**value)


def _frame(data: bytes) -> list[Any]:
    frame = unpack(data)
    if type(frame) is not list or not frame or not is_instant(frame[0]):
        raise RemoteProtocolError("a frame is an array that begins with the sender's instant in seconds")
    return frame


def decode_requests(data: bytes) -> tuple[float, list[Request]]:
    """The generator's instant and its jobs.

    Raises:
        RemoteProtocolError: Anything that the protocol does not allow; no job of the frame is returned.
    """
    frame = _frame(data)
    requests = []
    for item in frame[1:]:
        if type(item) is not list or len(item) != 3:
            raise RemoteProtocolError(f"a job is an array [id, size, patience], found {excerpt(item)}")
        id, size, patience = item
        if not is_count(id):
            raise RemoteProtocolError(f"job id = {excerpt(id, 40)}, expected a whole number from 0")
        if not is_amount(size):
            raise RemoteProtocolError(f"size = {excerpt(size, 40)} of job {id}, expected a finite number from 0")
        if patience is not None and not is_amount(patience):
            raise RemoteProtocolError(
                f"patience = {excerpt(patience, 30)} of job {id}, expected a finite number from 0"
            )
        requests.append(Request(id, size, patience))
    return frame[0], requests


def decode_answers(data: bytes) -> tuple[float, list[Answer]]:
    """The router's instant and the ends of jobs.

    Raises:
        RemoteProtocolError: A frame of another shape, a field of another type, or an unknown outcome.
    """
    frame = _frame(data)
    answers = []
    for item in frame[1:]:
        if type(item) is not list or tuple(map(type, item)) not in _ANSWER_TYPES or item[1] not in OUTCOMES:
            raise RemoteProtocolError(f"an answer is an array of {', '.join(Answer._fields)}, found {excerpt(item)}")
        answers.append(Answer(*item))
    return frame[0], answers


__all__ = [
    "MAX_FRAME_MESSAGES", "VERSION", "Answer", "Greeting", "Request", "decode_answers", "decode_greeting",
    "decode_requests", "encode", "encode_greeting", "is_amount",
]  # fmt: skip
