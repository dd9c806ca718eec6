"""The errors of Herdless: who is at fault decides the class.

A message says what was expected, what was found, where, and what to do. An outcome of a job
(blocked, abandoned, failed) is a value and never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class HerdlessError(Exception):
    """Any error that Herdless raises on purpose."""


class SettingsError(HerdlessError):
    """The user's mistake: a scenario, an option, a policy or one of its parameters."""


class LocalProtocolError(HerdlessError):
    """Our own mistake: an event or message that the state of this side does not allow."""


class RemoteProtocolError(HerdlessError):
    """The peer's mistake: bytes or messages that the protocol does not allow."""


class TransportError(HerdlessError):
    """The network's fault: a peer that cannot be reached, or a link that was lost."""


class InvariantViolation(HerdlessError):
    """Herdless contradicts itself; the message tells the story and how to replay it.

    Args:
        what: What cannot be, and how to see it again.
        story: What happened before, in order, a line each.
    """

    def __init__(self, what: str, story: Iterable[str] = ()) -> None:
        self.what = what
        self.story = tuple(story)
        super().__init__("\n  ".join((what, *self.story)))


def excerpt(value: Any, most: int = 80) -> str:
    """The beginning of what somebody else sent, for a message; Python cannot write down what nests very deep."""
    try:
        text = repr(value)
    except RecursionError:
        return "values that nest too deep to be shown"
    return text[:most]
