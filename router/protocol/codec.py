"""Messages to bytes and back, for one link; and nothing that a peer sends is trusted.

A batch is one msgpack array `[stamp, message, …]`; `stamp` is the sender's monotonic instant in seconds, so
that a receiver on the same host can measure the delay. A message is `[kind, server, field, …]`: `kind` its
place in `KINDS`, `server` its place in the hello, the fields in the order of its class. See `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack

from router.protocol.errors import RemoteProtocolError
from router.protocol.messages import OUTCOMES, Dispatch, End, Message, Probe, Pull, Report, Withdraw

MAX_FRAME_BYTES = 1 << 20
MAX_FRAME_MESSAGES = 4096
MAX_TEXT = 200
MAX_LENGTH = 1_000_000  # of a queue: a policy may keep something for each length up to the one it is told

KINDS: tuple[type[Message], ...] = (Dispatch, Probe, Pull, Withdraw, Report, End)
_CODE: dict[type, int] = {kind: code for code, kind in enumerate(KINDS)}
FROM_ROUTER: tuple[type[Message], ...] = (Dispatch, Probe)
FROM_SERVER: tuple[type[Message], ...] = (Pull, Withdraw, Report, End)


def is_count(value: Any) -> bool:
    """Whether this is a whole number from 0 on, and no truth value."""
    return type(value) is int and 0 <= value < 1 << 63


def _count_or_none(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 63)


def _length(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_LENGTH


def _length_or_none(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value <= MAX_LENGTH)


def is_amount(value: Any) -> bool:
    """Whether this is a finite number from 0 on, and no truth value."""
    return (type(value) is float or type(value) is int) and 0.0 <= value < 1e15  # false for nan and inf


def _amount_or_none(value: Any) -> bool:
    return value is None or is_amount(value)


def is_instant(value: Any) -> bool:
    """Whether this is a finite number of seconds, and no truth value."""
    return (type(value) is float or type(value) is int) and -1e15 < value < 1e15


def _outcome(value: Any) -> bool:
    return type(value) is str and value in OUTCOMES


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _flag(value: Any) -> bool:
    return type(value) is bool


_EXPECTED: dict[Callable[[Any], bool], str] = {
    is_count: "a whole number from 0",
    _count_or_none: "a whole number from 0, or nil",
    _length: f"a whole number from 0 to {MAX_LENGTH}",
    _length_or_none: f"a whole number from 0 to {MAX_LENGTH}, or nil",
    is_amount: "a finite number from 0",
    _amount_or_none: "a finite number from 0, or nil",
    is_instant: "a finite number of seconds",
    _outcome: f"one of {', '.join(OUTCOMES)}",
    _text: f"text of at most {MAX_TEXT} letters",
    _flag: "true or false",
}
_CHECKS: dict[type[Message], dict[str, Callable[[Any], bool]]] = {
    Dispatch: {
        "job": is_count, "size": is_amount, "patience": _amount_or_none,
        "number": _count_or_none, "expected": _count_or_none, "held": is_count,
    },
    Probe: {"job": is_count},
    Pull: {"number": is_count},
    Withdraw: {"number": is_count},
    Report: {"length": _length, "seen": is_count, "job": _count_or_none},
    End: {
        "job": is_count, "outcome": _outcome, "reason": _text, "arrived": is_instant, "waiting": is_amount,
        "service": is_amount, "stale": _flag, "length": _length_or_none, "seen": _count_or_none,
    },
}  # fmt: skip
for _kind, _fields in _CHECKS.items():
    assert _kind._fields == ("server", "router", *_fields), _kind


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
        self._checks = {
            _CODE[kind]: (kind, len(kind._fields), list(_CHECKS[kind].values())) for kind in receives
        }  # fmt: skip

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
            raise RemoteProtocolError(f"a message is an array [kind, server, …], found {item!r:.80}")
        code, position = item[0], item[1]
        known = self._checks.get(code) if type(code) is int else None
        if known is None:
            allowed = ", ".join(f"{code} {entry[0].__name__}" for code, entry in self._checks.items())
            raise RemoteProtocolError(f"message of kind {code!r:.40}; allowed on this side: {allowed}")
        kind, arity, checks = known
        if len(item) != arity:
            raise RemoteProtocolError(f"{kind.__name__} with {len(item)} fields, expected {arity}")
        if type(position) is not int or not 0 <= position < len(self._servers):
            raise RemoteProtocolError(
                f"{kind.__name__} for server {position!r:.40}, of {len(self._servers)} on the link"
            )
        for check, value in zip(checks, item[2:], strict=True):
            if not check(value):
                return self._wrong_field(kind, item)
        return kind(self._servers[position], self._router, *item[2:])

    def _wrong_field(self, kind: type[Message], item: list[Any]) -> Message:
        for (name, check), value in zip(_CHECKS[kind].items(), item[2:], strict=True):
            if not check(value):
                raise RemoteProtocolError(f"{kind.__name__}.{name} = {value!r:.40}, expected {_EXPECTED[check]}")
        raise AssertionError("called for a message without a wrong field")
