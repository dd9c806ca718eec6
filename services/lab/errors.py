"""Why a run says nothing: the machine or a process failed, not the user and not the theory."""

from __future__ import annotations

from router.protocol.errors import HerdlessError


class RunInvalid(HerdlessError):
    """A run that could not be made, or not finished.

    Args:
        kind: One word for it: `process_died`, `port_in_use`, `not_ready`, `unreachable`, `fleet`.
        message: What happened, where, and what to do.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Interrupted(HerdlessError):
    """The user has ended a command that can go on later.

    Args:
        message: How to go on.
    """

    kind = "interrupted"
    exit_code = 130
