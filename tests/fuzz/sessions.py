"""Whole links in memory: a peer says what it likes, and nothing of it may be a mistake of ours or stay behind.

An input is an array. At a router a whole number is so many jobs that arrive, and every other value is a frame from
the other side: bytes as they are, anything else packed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import msgpack
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

import router.app.links
import router.app.stream
import server.app.link
from router.app.main import RouterApp
from router.app.settings import RouterSettings
from router.events import EndJob
from router.protocol.stream import Greeting, decode_answers, decode_greeting
from router.registry import make_policy
from server.app.discovery import Address
from server.app.driver import ServerDriver
from server.app.link import Link
from server.app.links import Links
from server.app.settings import ServerSettings
from tests.property.variants import tables

REQUEST = cast(web.Request, SimpleNamespace(query={}, headers={}, remote="127.0.0.1"))


class Frames:
    """A WebSocket from which the given values come, and then the end."""

    def __init__(self, values: Iterator[Any]) -> None:
        self.sent: list[bytes] = []
        self.close_code: int | None = None
        self.closed = False
        self._values = values

    async def receive(self) -> WSMessage:
        for value in self._values:
            if self.closed:
                break
            try:
                data = value if type(value) is bytes else msgpack.packb(value)
            except (ValueError, OverflowError):
                continue
            return WSMessage(WSMsgType.BINARY, data, None)
        return WSMessage(WSMsgType.CLOSED, None, None)

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def close(self, *, code: int = 1000, message: bytes = b"") -> bool:
        self.close_code = self.close_code or int(code)
        self.closed = True
        return True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class Fed(Frames):
    """A WebSocket whose values come one by one."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Any] = asyncio.Queue()
        super().__init__(iter(()))

    def feed(self, value: Any) -> None:
        self._waiting.put_nowait(value)

    def end(self) -> None:
        self._waiting.put_nowait(self)

    async def receive(self) -> WSMessage:
        value = await self._waiting.get()
        self._values = iter(() if value is self else (value,))
        return await super().receive()

    async def close(self, *, code: int = 1000, message: bytes = b"") -> bool:
        self.end()
        return await super().close(code=code, message=message)


class Complaints(logging.Handler):
    """What the processes log as a mistake of their own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def check(self) -> None:
        """Raise the first one, if there is any."""
        records, self.records = self.records, []
        for record in records:
            cause = record.exc_info[1] if record.exc_info else None
            raise AssertionError(record.getMessage()) from cause


class Stage:
    """One event loop for all sessions, and one router, which must be as before after each of them."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.policies = tables()
        self.ended = 0
        self.app: RouterApp = self.run(self._router())

    async def _router(self) -> RouterApp:
        rng = Random(1)
        return RouterApp(RouterSettings(retries=1), make_policy({"name": "pull"}, rng), rng)

    def run(self, session: Coroutine[Any, Any, Any]) -> Any:
        """Run a session to its end; no task may be left then, and nothing in the log that is our mistake."""
        with _listening() as complaints:
            result = self.loop.run_until_complete(session)
        complaints.check()
        assert not asyncio.all_tasks(self.loop)
        return result

    def on_end(self, effect: EndJob, tag: Any) -> None:
        self.ended += 1

    def close(self) -> None:
        self.app.driver.close()
        self.loop.close()
        stage.cache_clear()


@contextmanager
def _listening() -> Iterator[Complaints]:
    complaints = Complaints()
    loggers = [logging.getLogger(name) for name in ("router", "server")]
    for logger in loggers:
        logger.addHandler(complaints)
        logger.propagate = False
    try:
        yield complaints
    finally:
        for logger in loggers:
            logger.removeHandler(complaints)
            logger.propagate = True


@cache
def stage() -> Stage:
    return Stage()


def values_of(data: bytes) -> list[Any]:
    """The values of a session; none, if the input is no session."""
    try:
        values = msgpack.unpackb(data, strict_map_key=False, max_array_len=4096)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return []
    return values if type(values) is list else []


class Numbers:
    """A router numbers jobs and dispatches on from session to session: here a session counts from 1."""

    def __init__(self, app: RouterApp) -> None:
        self._dispatches = app.driver.core.dispatches
        self._jobs = app.driver._number

    def true(self, frame: Any) -> Any:
        """The frame, with small numbers in ends and reports replaced by those that they stand for."""
        for item in frame if type(frame) is list else ():
            if type(item) is list and len(item) > 2 and item[0] in (4, 5):
                place, before = (2, self._dispatches) if item[0] == 5 else (-1, self._jobs)
                if type(item[place]) is int and 0 < item[place] < 100:
                    item[place] += before
        return frame


# -- at a router -------------------------------------------------------------------------------


def router_session(data: bytes) -> None:
    """The first value, a whole number, says which policy is in force; negative: the session is a generator's stream."""
    values = values_of(data)
    if values and type(values[0]) is int:
        on = stage()
        on.run(_stream(on, values) if values[0] < 0 else _link(on, values))


async def _link(on: Stage, values: list[Any]) -> None:
    driver = on.app.driver
    driver.switch(make_policy(on.policies[values[0] % len(on.policies)], Random(1)))
    submitted, on.ended, numbers = 0, 0, Numbers(on.app)

    def frames() -> Iterator[Any]:
        nonlocal submitted
        for value in values[1:]:
            if type(value) is int:
                driver.submit([(None, 1.0, None)] * (value % 8), on.on_end, on.loop.time())
                submitted += value % 8
            else:
                yield numbers.true(value)

    ws = Frames(frames())
    with patch.object(router.app.links, "accept", _giving(ws)):
        await on.app.links.serve(REQUEST)
    assert ws.close_code != WSCloseCode.INTERNAL_ERROR
    core = driver.core
    assert (on.ended, core.in_system, len(core.servers), len(on.app.links)) == (submitted, 0, 0, 0)


def router_links(data: bytes) -> None:
    """Two links of one router, of which each value names one: `[0 or 1, frame]`; a whole number is so many jobs."""
    values = values_of(data)
    if values and type(values[0]) is int:
        on = stage()
        on.run(_two_links(on, values))


async def _two_links(on: Stage, values: list[Any]) -> None:
    driver, links = on.app.driver, on.app.links
    driver.switch(make_policy(on.policies[values[0] % len(on.policies)], Random(1)))
    submitted, on.ended, numbers = 0, 0, Numbers(on.app)
    open_: dict[int, tuple[Fed, asyncio.Task[Any]]] = {}
    with patch.object(router.app.links, "accept", _given):
        for value in values[1:]:
            if type(value) is int:
                driver.submit([(None, 1.0, None)] * (value % 8), on.on_end, on.loop.time())
                submitted += value % 8
            elif type(value) is list and len(value) == 2 and type(value[0]) is int:
                which = value[0] % 2
                if which not in open_ or open_[which][0].closed:
                    ws = Fed()
                    serving = asyncio.ensure_future(links.serve(cast(web.Request, SimpleNamespace(ws=ws))))
                    open_[which] = ws, serving
                open_[which][0].feed(numbers.true(value[1]))
                await _turns()
        for ws, _ in open_.values():
            ws.end()
        while len(links):  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0)
    await _turns()
    assert all(ws.close_code != WSCloseCode.INTERNAL_ERROR for ws, _ in open_.values())
    core = driver.core
    assert (on.ended, core.in_system, len(core.servers)) == (submitted, 0, 0)


async def _given(request: Any, **options: Any) -> Frames:
    ws: Frames = request.ws
    return ws


async def _turns() -> None:
    """As many turns of the loop as a frame takes to be read, answered, and the answer to be written."""
    for _ in range(6):
        await asyncio.sleep(0)


async def _stream(on: Stage, values: list[Any]) -> None:
    ws = Frames(iter(values[1:]))
    with patch.object(router.app.stream, "accept", _giving(ws)):
        await on.app.streams.serve(REQUEST)
    assert ws.close_code != WSCloseCode.INTERNAL_ERROR
    assert (on.app.driver.core.in_system, len(on.app.streams)) == (0, 0)
    assert type(decode_greeting(ws.sent[0])) is Greeting
    assert all(answer.reason == "no_server" for frame in ws.sent[1:] for answer in decode_answers(frame)[1])


def _giving(ws: Frames) -> Callable[..., Any]:
    """Stands for what opens a WebSocket, of either side."""

    async def give(*args: Any, **options: Any) -> Frames:
        return ws

    return give


# -- at a server process -----------------------------------------------------------------------

SERVERS = ServerSettings(id="servers-slow", pool="slow", servers=2, capacity=50.0, routers=("127.0.0.1:1",))


def server_session(data: bytes) -> None:
    stage().run(_dialled(values_of(data)))


async def _dialled(values: list[Any]) -> None:
    driver = ServerDriver(SERVERS)
    links = Links(SERVERS, driver)
    links.session = Frames(iter(()))  # type: ignore[assignment]  # nothing is dialled with it
    ws = Frames(iter(values))
    try:
        with patch.object(server.app.link, "dial", _giving(ws)):
            await Link(links, Address("127.0.0.1", 1))._once()
        assert ws.close_code != WSCloseCode.INTERNAL_ERROR
        assert (links.counts.refusals["internal"], links.up) == (0, 0)
    finally:
        await links.close()
        driver.close()
