"""Why a run says nothing: the machine or a process failed, not the user and not the theory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.protocol.errors import HerdlessError


class RunInvalid(HerdlessError):
    """A run that could not be made, or not finished.

    Args:
        kind: One word for it: `process_died`, `process_hangs`, `port_in_use`, `not_ready`, `unreachable`, `fleet`,
            `not_written`.
        message: What happened, where, and what to do.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write a file, or several in a folder.

    Raises:
        RunInvalid: The disk is full, or the place is not to be written.
    """
    try:
        yield
    except OSError as error:
        raise RunInvalid(
            "not_written",
            f"{path}: cannot be written: {error.strerror or error}: "
            "make room or mend that, then run again with another --out",
        ) from None


class Interrupted(HerdlessError):
    """The user has ended a command that can go on later.

    Args:
        message: How to go on.
    """

    kind = "interrupted"
    exit_code = 130
