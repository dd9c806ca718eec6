"""The generator without end: its schedule, its books, and what it does as routers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession, WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from router.protocol import stream
from router.protocol.errors import SettingsError
from server.app.discovery import Target
from services.loadgen.client.book import RunningBook
from services.loadgen.client.endless import CHUNK_S, LOWEST_RATE, Endless, Schedule
from services.loadgen.client.endless_process import LoadWeb
from services.loadgen.client.links import failed
from services.loadgen.workload import draw_workload
from services.scenario import Scenario, parse_scenario

UNIT_S = 0.01
TEXT = """
name = "one"
time_unit_s = 0.01
[policy]
name = "random"
[[pools]]
name = "slow"
servers = 4
[arrivals]
load = 0.5
[run]
warmup = 0
duration = 1000
"""


def scenario(*overrides: str) -> Scenario:
    return parse_scenario(TEXT, "one", overrides)


def answer(job: int, outcome: str = "served", reason: str = "", policy: str = "random") -> stream.Answer:
    return stream.Answer(job, outcome, reason, "slow-1", "slow", policy, 0.0, 0.0, 0.0, False, False)  # type: ignore[arg-type]


# -- the schedule -------------------------------------------------------------------------------


def test_the_first_chunk_is_the_beginning_of_the_scenario() -> None:
    workload, length = Schedule(scenario()).draw(1)
    # 2 jobs a time unit for 10 s, a time unit being 10 ms.
    assert length == pytest.approx(CHUNK_S / UNIT_S)
    whole = draw_workload(scenario())
    assert len(workload.instants) == np.searchsorted(whole.instants, length)
    assert np.array_equal(workload.instants, whole.instants[: len(workload.instants)])
    assert np.array_equal(workload.sizes, whole.sizes[: len(workload.instants)])


def test_each_chunk_is_drawn_anew_and_the_same_in_each_run() -> None:
    one, other = Schedule(scenario()), Schedule(scenario())
    first, second = one.draw(1)[0], one.draw(1)[0]
    assert not np.array_equal(first.instants[:100], second.instants[:100])
    other.draw(1)
    assert np.array_equal(second.instants, other.draw(1)[0].instants)


def test_even_arrivals_stay_even_from_chunk_to_chunk() -> None:
    schedule = Schedule(scenario('arrivals={law="deterministic", rate_total=0.3}'))
    instants: list[float] = []
    start = 0.0
    for _ in range(3):
        workload, length = schedule.draw(1)
        instants += (start + workload.instants).tolist()
        start += length
    assert np.diff(instants) == pytest.approx(1 / 0.3)


def test_another_rate_holds_from_the_next_chunk_on() -> None:
    schedule = Schedule(scenario())
    schedule.rate_total = 4.0
    workload, length = schedule.draw(1)
    # A Poisson number with mean 4,000 and standard deviation 63.
    assert len(workload.instants) == pytest.approx(4.0 * length, abs=4 * 63.2)


def test_jobs_are_split_over_the_routers_that_are_there() -> None:
    workload, _ = Schedule(scenario()).draw(3)
    # 2,000 jobs: each third has 667 with a standard deviation of 21.
    assert np.bincount(workload.routers) == pytest.approx([667] * 3, abs=4 * 21)


def test_an_uneven_split_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"routers\.split: without end, jobs are split equally"):
        Schedule(scenario("routers.split=[1, 2]"))


# -- the books ----------------------------------------------------------------------------------


def test_a_chunk_of_the_lowest_rate_is_one_that_a_run_may_have_and_a_lower_rate_is_refused() -> None:
    # One job on average, of the lowest rate: as long as the time between two of them.
    _, length = Schedule(scenario("arrivals.load=2.5e-7")).draw(1)
    assert length == pytest.approx(1.0 / LOWEST_RATE)
    with pytest.raises(SettingsError, match="at least 1e-06 are sent"):
        Schedule(scenario("arrivals.load=2e-7"))


def test_each_job_is_counted_once() -> None:
    book = RunningBook(["random"], UNIT_S)
    first, second, third = (book.sends(due_s, 10.0) for due_s in (9.9, 9.95, 10.0))
    book.ends(answer(first), 10.1)
    book.ends(answer(first), 10.2)
    book.ends(answer(second, "failed", "some_new_reason"), 10.2)
    assert (book.sent, book.under_way, book.doubled) == (3, 1, 1)
    book.ends(failed(third, "no_router"), 10.3)
    assert (
        book.counts["served", ""] == book.counts["failed", "some_new_reason"] == book.counts["failed", "no_router"] == 1
    )
    assert book.sent == sum(book.counts.values()) + book.under_way
    # From the instant at which it was due, 9.9 s, to its end at 10.1 s: 20 time units.
    assert book.sojourn_units["random"].sum == pytest.approx(20.0)
    assert book.lateness_s.sum == pytest.approx(0.1 + 0.05)
    assert book.lateness_s.zeros == 1


# -- the generator ------------------------------------------------------------------------------


class FakeRouter:
    """Serves each job at once, over the stream of the protocol."""

    def __init__(self) -> None:
        self.taken = 0
        self.mute = False
        self._open: list[web.WebSocketResponse] = []
        app = web.Application()
        app.on_shutdown.append(self._hang_up)
        app.router.add_get("/v1/stream", self._stream)
        self.server = TestServer(app)

    async def _hang_up(self, app: web.Application) -> None:
        for ws in self._open:
            await ws.close()

    async def _stream(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        self._open.append(ws)
        await ws.send_bytes(stream.encode_greeting(stream.Greeting(stream.VERSION, "router-1", "elsewhere")))
        async for message in ws:
            if message.type is WSMsgType.BINARY:
                jobs = stream.decode_requests(message.data)[1]
                self.taken += len(jobs)
                if not self.mute:
                    await ws.send_bytes(stream.encode([answer(job.id) for job in jobs], monotonic()))
        return ws

    @property
    def target(self) -> Target:
        assert self.server.port is not None
        return Target("127.0.0.1", self.server.port)


@asynccontextmanager
async def generating(*routers: FakeRouter) -> AsyncIterator[Endless]:
    """A generator of 200 jobs/s, and routers that end with it."""
    for router in routers:
        await router.server.start_server()
    endless = Endless(Schedule(scenario()), RunningBook(["random"], UNIT_S), [r.target for r in routers], UNIT_S)
    async with ClientSession() as session:
        try:
            endless.start(session)
            yield endless
        finally:
            await endless.close()
            for router in routers:
                await router.server.close()


async def until(good: Any) -> None:
    async with asyncio.timeout(30):
        while not good():  # noqa: ASYNC110 - what is waited for is in another task
            await asyncio.sleep(0.01)


async def test_jobs_go_to_all_routers_and_come_back() -> None:
    one, other = FakeRouter(), FakeRouter()
    async with generating(one, other) as endless:
        await until(lambda: one.taken > 20 and other.taken > 20)
        endless.stop()
        await endless.emptied()
        assert endless.book.counts["served", ""] == endless.book.sent == one.taken + other.taken


async def test_a_load_of_zero_is_a_pause() -> None:
    router = FakeRouter()
    async with generating(router) as endless:
        await until(lambda: router.taken > 10)
        endless.set_rate(0.0)
        sent = endless.book.sent
        await endless.emptied()
        await asyncio.sleep(20 * UNIT_S)  # in which 40 jobs would have come
        assert endless.book.sent == sent
        endless.set_rate(2.0)
        await until(lambda: endless.book.sent > sent + 10)


async def test_jobs_of_a_router_that_goes_end_once_and_the_others_go_on() -> None:
    one, other = FakeRouter(), FakeRouter()
    one.mute = True
    async with generating(one, other) as endless:
        await until(lambda: one.taken > 10 and other.taken > 10)
        await one.server.close()
        await until(lambda: endless.book.counts["failed", "link_lost"] >= one.taken)
        before = other.taken
        await until(lambda: other.taken > before + 20)
        await until(lambda: endless.links_up == 1)
        endless.stop()
        await endless.emptied()
        assert endless.book.doubled == 0
        assert endless.book.sent == sum(endless.book.counts.values())


async def test_jobs_that_find_no_router_fail_and_nothing_is_sent_before_the_first_is_there() -> None:
    router = FakeRouter()
    async with generating() as endless:
        assert endless.book.sent == 0
    async with generating(router) as endless:
        await until(lambda: router.taken > 10)
        await router.server.close()
        await until(lambda: endless.book.counts["failed", "no_router"] > 10)


# -- over HTTP ----------------------------------------------------------------------------------


@asynccontextmanager
async def interface() -> AsyncIterator[TestClient[Any, Any]]:
    endless = Endless(Schedule(scenario()), RunningBook(["random"], UNIT_S), [], UNIT_S)
    async with TestClient(TestServer(LoadWeb(endless, 4.0).application())) as client:
        yield client


async def test_the_load_is_told_and_changed() -> None:
    async with interface() as client:
        told = await (await client.get("/v1/load")).json()
        # Load 0.5 of 4 servers of rate 1: 2 jobs a time unit, 200 a second.
        assert told == {"load": 0.5, "rate_total": 2.0, "rate_per_s": 200.0, "time_unit_s": UNIT_S, "routers": 0}
        assert (await (await client.put("/v1/load", json={"load": 0.25})).json())["rate_total"] == 1.0
        assert (await (await client.put("/v1/load", json={"rate_total": 3})).json())["load"] == 0.75
        assert (await client.get("/ready")).status == 503
        assert "herdless_load_rate 3.0" in await (await client.get("/metrics")).text()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"1", b'{"load": -1}', b'{"load": true}', b'{"load": "1"}', b'{"load": NaN}', b'{"load": Infinity}',
     b'{"load": 1, "rate_total": 1}', b'{"rate": 1}', b'{"load": 1e9}', b"\xff",
     b'{"load": 1e-300}', b'{"rate_total": 9e-7}'],
)  # fmt: skip
async def test_what_is_no_load_changes_nothing(body: bytes) -> None:
    async with interface() as client:
        refused = await client.put("/v1/load", data=body)
        assert refused.status == 400
        assert (await refused.json())["error"]["kind"] == "settings"
        assert (await (await client.get("/v1/load")).json())["load"] == 0.5
