"""The log on standard error, which holds nobody up: a thread of its own writes it, and lines are dropped if it cannot.

Standard error may be a pipe that nobody reads or a file on a disk that hangs. A process that waited for it would
stop serving jobs for the sake of a line about them.
"""

from __future__ import annotations

import logging
import os
import re
import select
import threading
from queue import Full, Queue

from aiohttp.http_exceptions import HttpProcessingError

STANDARD_ERROR = 2
MOST_LINES = 1_000
MOST_A_SECOND = 100
LAST_WORDS_S = 0.5
MOST_TOLD = 10

_QUOTED = re.compile(r"b?[\"']")
"""Where aiohttp begins to quote what was sent."""


class LogThread(logging.Handler):
    """Writes log lines by a thread of its own.

    Args:
        descriptor: Where to.
        limit: The most lines that wait; further ones are dropped, and their number is told when there is room again.
        a_second: The most lines within one second; further ones are dropped, and told, in the same way.

    Attributes:
        dropped: Lines dropped so far.
    """

    def __init__(
        self, descriptor: int = STANDARD_ERROR, limit: int = MOST_LINES, a_second: int = MOST_A_SECOND
    ) -> None:
        super().__init__()
        self.dropped = 0
        self._told = 0
        self._a_second = a_second
        self._second, self._in_second = 0, 0
        self._descriptor = descriptor
        self._lines: Queue[bytes] = Queue(limit)
        self._thread = threading.Thread(target=self._write_on, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; never waits."""
        if self._second != (second := int(record.created)):
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > self._a_second:
            self.dropped += 1  # whoever is refused may come again at once, and would fill a disk
            return
        try:
            self._lines.put_nowait((self.format(record) + "\n").encode(errors="replace"))
        except Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what waits, if that can be done soon."""
        try:
            self._lines.put_nowait(b"")
        except Full:
            return super().close()
        self._thread.join(LAST_WORDS_S)
        return super().close()

    def _write_on(self) -> None:
        while line := self._lines.get():
            missing = self.dropped - self._told
            if missing:
                self._told += missing
                line = f"{missing} lines are missing: nobody was reading, or there were too many\n".encode() + line
            while line:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except BlockingIOError:
                    select.select([], [self._descriptor], [])
                except OSError:  # nobody will ever read it
                    break


class Strangers(logging.Filter):
    """Makes one line of each time that somebody sends what is no HTTP, and of the first few times only.

    Anybody who reaches the port can have such a line written, as often as it likes. What was sent does not stand in it:
    of somebody who has the token that may be the token.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
        what = _QUOTED.split(error.message, maxsplit=1)[0].strip(": \n")
        record.msg, record.args = f"{record.getMessage()}: no HTTP: {what!a:.100}", ()
        self._told += 1
        return self._told <= MOST_TOLD


def log_to_standard_error(name: str) -> None:
    """From now on this process logs, each line with its name."""
    logging.getLogger("aiohttp.server").addFilter(Strangers())
    logging.basicConfig(format=f"%(asctime)s %(levelname)s {name}: %(message)s", handlers=[LogThread()])


def say_at_once(text: bytes) -> None:
    """Write a last word to standard error, unless that would wait."""
    try:
        _, writable, _ = select.select([], [STANDARD_ERROR], [], 0.0)
        if writable:
            os.write(STANDARD_ERROR, text)
    except (OSError, ValueError):
        pass
