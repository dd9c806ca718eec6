"""Messages to bytes and back, for one link; and nothing that a peer sends is trusted.

A batch is one msgpack array `[stamp, message, …]`; `stamp` is the sender's monotonic instant in seconds, so
that a receiver on the same host can measure the delay. A message is `[kind, server, field, …]`: `kind` its
place in `KINDS`, `server` its place in the hello, the fields in the order of its class. See `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack

from router.protocol.errors import RemoteProtocolError, excerpt
from router.protocol.messages import OUTCOMES, Dispatch, End, Message, Probe, Pull, Report, Withdraw, build

MAX_FRAME_BYTES = 1 << 20
MAX_FRAME_MESSAGES = 4096
MAX_TEXT = 200
MAX_LENGTH = 1_000_000  # of a queue: a policy may keep something for each length up to the one it is told

KINDS: tuple[type[Message], ...] = (Dispatch, Probe, Pull, Withdraw, Report, End)
_CODE: dict[type, int] = {kind: code for code, kind in enumerate(KINDS)}
FROM_ROUTER: tuple[type[Message], ...] = (Dispatch, Probe)
FROM_SERVER: tuple[type[Message], ...] = (Pull, Withdraw, Report, End)


# What a field may be, as a condition on {x}. From these one function is made for all fields of a message: one for each
# field costs three times as much.
_COUNT = "type({x}) is int and 0 <= {x} < 1 << 63"
_COUNT_OR_NONE = f"({{x}} is None or {_COUNT})"
_LENGTH = f"type({{x}}) is int and 0 <= {{x}} <= {MAX_LENGTH}"
_LENGTH_OR_NONE = f"({{x}} is None or {_LENGTH})"
_AMOUNT = "(type({x}) is float or type({x}) is int) and 0.0 <= {x} < 1e15"  # false for nan and inf
_AMOUNT_OR_NONE = f"({{x}} is None or {_AMOUNT})"
_INSTANT = "(type({x}) is float or type({x}) is int) and -1e15 < {x} < 1e15"
_OUTCOME = "type({x}) is str and {x} in OUTCOMES"
_TEXT = f"type({{x}}) is str and len({{x}}) <= {MAX_TEXT}"
_FLAG = "type({x}) is bool"

_EXPECTED = {
    _COUNT: "a whole number from 0",
    _COUNT_OR_NONE: "a whole number from 0, or nil",
    _LENGTH: f"a whole number from 0 to {MAX_LENGTH}",
    _LENGTH_OR_NONE: f"a whole number from 0 to {MAX_LENGTH}, or nil",
    _AMOUNT: "a finite number from 0",
    _AMOUNT_OR_NONE: "a finite number from 0, or nil",
    _INSTANT: "a finite number of seconds",
    _OUTCOME: f"one of {', '.join(OUTCOMES)}",
    _TEXT: f"text of at most {MAX_TEXT} letters",
    _FLAG: "true or false",
}
_FIELDS: dict[type[Message], dict[str, str]] = {
    Dispatch: {
        "job": _COUNT, "size": _AMOUNT, "patience": _AMOUNT_OR_NONE,
        "number": _COUNT_OR_NONE, "expected": _COUNT_OR_NONE, "held": _COUNT,
    },
    Probe: {"job": _COUNT},
    Pull: {"number": _COUNT},
    Withdraw: {"number": _COUNT},
    Report: {"length": _LENGTH, "seen": _COUNT, "job": _COUNT_OR_NONE},
    End: {
        "job": _COUNT, "outcome": _OUTCOME, "reason": _TEXT, "arrived": _INSTANT, "waiting": _AMOUNT,
        "service": _AMOUNT, "stale": _FLAG, "length": _LENGTH_OR_NONE, "seen": _COUNT_OR_NONE,
    },
}  # fmt: skip
for _kind, _fields in _FIELDS.items():
    assert _kind._fields == ("server", "router", *_fields), _kind

Test = Callable[[Any], bool]


def _test(condition: str) -> Test:
    """The condition on one value as a function."""
    test: Test = eval(f"lambda x: {condition.format(x='x')}")
    return test


def _test_all(conditions: Iterable[str]) -> Test:
    """The conditions on the fields of a message as one function of the array that it came in."""
    each = (condition.format(x=f"item[{place}]") for place, condition in enumerate(conditions, 2))
    test: Test = eval(f"lambda item: {' and '.join(each)}")
    return test


is_count = _test(_COUNT)
"""Whether this is a whole number from 0 on, and no truth value."""
is_amount = _test(_AMOUNT)
"""Whether this is a finite number from 0 on, and no truth value."""
is_instant = _test(_INSTANT)
"""Whether this is a finite number of seconds, and no truth value."""

_TESTS = {kind: _test_all(fields.values()) for kind, fields in _FIELDS.items()}


def unpack(data: bytes) -> Any:
    """One msgpack value from a frame, within the limits of the protocol.

    Raises:
        RemoteProtocolError: Too long, cut short, trailing bytes, nested too deep, or not msgpack at all.
    """
    if len(data) > MAX_FRAME_BYTES:
        raise RemoteProtocolError(f"frame of {len(data)} bytes, at most {MAX_FRAME_BYTES} are allowed")
    try:
        return msgpack.unpackb(
            data,
            use_list=True,
            max_array_len=MAX_FRAME_MESSAGES + 1,
            max_map_len=1024,
            max_str_len=4096,
            max_bin_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"frame of {len(data)} bytes is not valid msgpack: {error}") from None


class LinkCodec:
    """Encodes and decodes the batches of one link.

    Args:
        router: The router at one end.
        servers: The servers at the other end, in the order of the hello.
        receives: The kinds of message that may come in: `FROM_ROUTER` at a server and the reverse.
    """

    def __init__(self, router: str, servers: Sequence[str], receives: Iterable[type[Message]]) -> None:
        self._router = router
        self._servers = list(servers)
        self._index = {server: index for index, server in enumerate(servers)}
        self._known = {_CODE[kind]: (kind, len(kind._fields), _TESTS[kind]) for kind in receives}

    def encode(self, messages: Iterable[Message], stamp_s: float) -> bytes:
        """One frame of these messages, in order."""
        index = self._index
        frame: list[Any] = [stamp_s]
        frame += [(_CODE[type(message)], index[message[0]], *message[2:]) for message in messages]
        packed: bytes = msgpack.packb(frame)
        return packed

    def decode(self, data: bytes) -> tuple[float, list[Message]]:
        """The sender's instant, and the messages.

        Raises:
            RemoteProtocolError: Anything that the protocol does not allow; no message of the frame is returned.
        """
        return self.read(unpack(data))

    def read(self, frame: Any) -> tuple[float, list[Message]]:
        """As `decode`, for a frame that is unpacked already."""
        if type(frame) is not list or not frame or not is_instant(frame[0]):
            raise RemoteProtocolError("a batch is an array that begins with the sender's instant in seconds")
        return frame[0], [self._message(item) for item in frame[1:]]

    def _message(self, item: Any) -> Message:
        if type(item) is not list or len(item) < 2:
            raise RemoteProtocolError(f"a message is an array [kind, server, …], found {excerpt(item)}")
        code, position = item[0], item[1]
        known = self._known.get(code) if type(code) is int else None
        if known is None:
            allowed = ", ".join(f"{code} {entry[0].__name__}" for code, entry in self._known.items())
            raise RemoteProtocolError(f"message of kind {excerpt(code, 40)}; allowed on this side: {allowed}")
        kind, arity, right = known
        if len(item) != arity:
            raise RemoteProtocolError(f"{kind.__name__} with {len(item)} fields, expected {arity}")
        if type(position) is not int or not 0 <= position < len(self._servers):
            raise RemoteProtocolError(
                f"{kind.__name__} for server {excerpt(position, 40)}, of {len(self._servers)} on the link"
            )
        if not right(item):
            return self._wrong_field(kind, item)
        return build(kind, (self._servers[position], self._router, *item[2:]))

    def _wrong_field(self, kind: type[Message], item: list[Any]) -> Message:
        for (name, condition), value in zip(_FIELDS[kind].items(), item[2:], strict=True):
            if not _test(condition)(value):
                raise RemoteProtocolError(
                    f"{kind.__name__}.{name} = {excerpt(value, 40)}, expected {_EXPECTED[condition]}"
                )
        raise AssertionError("called for a message without a wrong field")
