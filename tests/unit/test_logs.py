"""The log that holds nobody up."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator

import pytest
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.test_utils import TestServer

from router.process.logs import MOST_TOLD, LogThread, Strangers


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that holds one page."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("a", logging.WARNING, __file__, 1, text, None, None)


def test_lines_are_written_in_order_and_before_the_end(pipe: tuple[int, int]) -> None:
    log = LogThread(pipe[1])
    log.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    for text in ("one", "two", "drei ö"):
        log.emit(record(text))
    log.close()
    assert os.read(pipe[0], 4096).decode() == "WARNING one\nWARNING two\nWARNING drei ö\n"


def test_nobody_waits_for_a_reader_and_the_dropped_lines_are_counted(pipe: tuple[int, int]) -> None:
    # A line is 100 bytes: at most 41 are in the pipe or half in it, and 5 wait; of 200 more than half are dropped.
    log = LogThread(pipe[1], limit=5, a_second=200)
    for number in range(200):
        log.emit(record(f"{number:099d}"))
    assert log.dropped >= 200 - 41 - 5
    found: list[int] = []
    missing = 0
    with os.fdopen(os.dup(pipe[0]), "rb") as reading:  # somebody reads at last, and gets what is there
        while len(found) + log.dropped < 200 or missing < log.dropped:
            line = reading.readline()
            if line.endswith(b" lines are missing: nobody was reading, or there were too many\n"):
                missing += int(line.split()[0])
            else:
                found.append(int(line))
    assert found == sorted(found) and len(found) + missing == 200
    log.close()


def test_lines_of_one_second_have_a_limit_and_it_is_told_how_many_are_missing(
    pipe: tuple[int, int],
) -> None:
    log = LogThread(pipe[1], a_second=3)
    for second, lines in ((7, 5), (8, 2)):
        for number in range(lines):
            line = record(f"{second}.{number}")
            line.created = second + number / 10
            log.emit(line)
    log.close()
    written = os.read(pipe[0], 4096).decode().splitlines()
    missing = [line for line in written if " missing: " in line]
    assert sum(int(line.split()[0]) for line in missing) == 2
    assert [line for line in written if line not in missing] == ["7.0", "7.1", "7.2", "8.0", "8.1"]


def test_the_end_does_not_wait_for_a_reader_that_never_comes(pipe: tuple[int, int]) -> None:
    log = LogThread(pipe[1], limit=2)
    for _ in range(100):
        log.emit(record("x" * 99))
    log.close()
    os.read(pipe[0], 4096)


def test_a_reader_that_is_gone_stops_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = LogThread(writing)
    for _ in range(3):
        log.emit(record("x"))
    log.close()
    assert log.dropped == 0
    os.close(writing)


def complaint(error: Exception) -> logging.LogRecord:
    """As aiohttp logs what it cannot serve."""
    text = "Error handling request from %s"
    return logging.LogRecord("aiohttp.server", logging.ERROR, __file__, 1, text, ("::1",), (type(error), error, None))


def test_what_is_no_http_costs_one_line_each_and_not_for_ever() -> None:
    strangers = Strangers()
    records = [complaint(BadHttpMessage("Invalid header:\n\n  b'%s\\x1b'")) for _ in range(3 * MOST_TOLD)]
    assert [strangers.filter(each) for each in records] == [True] * MOST_TOLD + [False] * 2 * MOST_TOLD
    line = logging.Formatter("%(levelname)s %(message)s").format(records[0])
    assert line.startswith("WARNING Error handling request from ::1: no HTTP: ")
    assert line.endswith("no HTTP: 'Invalid header'")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nAuthorization : Bearer a-secret\r\n\r\n",
        b"POST / HTTP/1.1\r\nAuthorization: a-secret\x01\r\n\r\n",
        b"POST / HTTP/1.1\r\nAuthorization: a-secret" + b"x" * 9000 + b"\r\n\r\n",
        b"GET /?a-secret HTTP/9.9\r\n\r\n",
        b"GET a-secret HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_was_sent_stands_in_no_line(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    strangers = Strangers()
    log = logging.getLogger("aiohttp.server")
    log.addFilter(strangers)
    try:
        async with TestServer(web.Application()) as server:
            reading, writing = await asyncio.open_connection("127.0.0.1", server.port)
            writing.write(sent)
            assert b" 400 " in await reading.readline()
            writing.close()
            await writing.wait_closed()
    finally:
        log.removeFilter(strangers)
    assert "no HTTP" in caplog.text and "a-secret" not in caplog.text


def test_what_is_our_mistake_is_told_in_full_each_time() -> None:
    strangers = Strangers()
    for _ in range(2 * MOST_TOLD):
        ours = complaint(ZeroDivisionError("ours"))
        assert strangers.filter(ours)
        assert (ours.levelname, ours.exc_info is None) == ("ERROR", False)
