"""The server process against a router that is made of test: links, hostile bytes, draining, signals."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest
from aiohttp import ClientSession, WSCloseCode, WSMsgType, web
from aiohttp.test_utils import TestServer
from prometheus_client.parser import text_string_to_metric_families

from router.protocol.codec import FROM_SERVER, LinkCodec, unpack
from router.protocol.errors import SettingsError
from router.protocol.messages import Dispatch, End, Message, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from router.protocol.notices import VERSION, Drains, Hello, NewNeeds, Notice, Welcome, encode_notice, read_notice
from server.app.driver import ServerDriver
from server.app.link import Backoff
from server.app.links import Links, boot_id
from server.app.metrics import make_metrics
from server.app.settings import ServerSettings, make_settings
from server.app.web import make_application

PULL = Needs(pull=PullNeeds())
LIMIT_S = 10.0


class Connection:
    """One link as the router sees it; what comes is kept until it is asked for."""

    def __init__(self, ws: web.WebSocketResponse, hello: Hello, router: str) -> None:
        self.ws = ws
        self.hello = hello
        self.names = [server.id for server in hello.servers]
        self.codec = LinkCodec(router, self.names, FROM_SERVER)
        self._came: list[Message | Notice] = []
        self.closed = asyncio.Event()
        self._news = asyncio.Event()

    async def read(self) -> None:
        async for frame in self.ws:
            if frame.type is WSMsgType.BINARY:
                value = unpack(frame.data)
                self._came += self.codec.read(value)[1] if type(value) is list else [read_notice(value)]
                self._news.set()
        self.closed.set()
        self._news.set()

    async def next(self, count: int) -> list[Message | Notice]:
        """The next so many messages and notices."""
        while len(self._came) < count:
            assert not self.closed.is_set(), f"closed with {self._came} instead of {count} messages"
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), LIMIT_S)
        taken, self._came = self._came[:count], self._came[count:]
        return taken

    async def send(self, *messages: Message) -> None:
        await self.ws.send_bytes(self.codec.encode(messages, time.monotonic()))

    async def closed_by_server(self) -> int | None:
        await asyncio.wait_for(self.closed.wait(), LIMIT_S)
        return self.ws.close_code

    def dispatch(self, server: int, job: int, size: float = 0.0, **fields: Any) -> Dispatch:
        values = {"patience": None, "number": None, "expected": None, "held": 0} | fields
        return Dispatch(self.names[server], "", job, size, **values)


class FakeRouter:
    """Welcomes whoever says hello, or does what `answer` does instead."""

    def __init__(self, name: str = "router-1", needs: Needs = PULL, epoch: int = 1) -> None:
        self.name, self.needs, self.epoch = name, needs, epoch
        self.answer: Callable[[web.WebSocketResponse], Awaitable[None]] | None = None
        self.connections: asyncio.Queue[Connection] = asyncio.Queue()
        self.codes: asyncio.Queue[int | None] = asyncio.Queue()
        app = web.Application()
        app.add_routes([web.get("/v1/link", self._link)])
        self.server = TestServer(app)

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(compress=False)
        await ws.prepare(request)
        hello = read_notice(unpack(await ws.receive_bytes()))
        assert isinstance(hello, Hello)
        if self.answer is not None:
            await self.answer(ws)
            async for _ in ws:
                pass
        else:
            welcome = Welcome(version=VERSION, router=self.name, epoch=self.epoch, boot=boot_id(), needs=self.needs)
            await ws.send_bytes(encode_notice(welcome))
            connection = Connection(ws, hello, self.name)
            self.connections.put_nowait(connection)
            await connection.read()
        self.codes.put_nowait(ws.close_code)
        return ws

    async def linked(self) -> Connection:
        return await asyncio.wait_for(self.connections.get(), LIMIT_S)

    async def refused(self) -> int | None:
        return await asyncio.wait_for(self.codes.get(), LIMIT_S)


class Process:
    """A server process inside this one."""

    def __init__(self, settings: ServerSettings) -> None:
        self.driver = ServerDriver(settings)
        self.links = Links(settings, self.driver)
        self.metrics = make_metrics(settings, self.driver, self.links)
        self.server = TestServer(make_application(self.driver, self.links, self.metrics))

    async def get(self, path: str) -> tuple[int, Any]:
        async with ClientSession() as session, session.get(self.server.make_url(path)) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: bytes) -> tuple[int, Any]:
        async with ClientSession() as session, session.post(self.server.make_url(path), data=body) as response:
            return response.status, await response.json()

    def values(self) -> dict[str, float]:
        """Every sample that `/metrics` shows: `name{label=value,…}` to number."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.exposition()[0].decode()):
            for sample in family.samples:
                labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}"] = sample.value
        return found


def settings(*routers: FakeRouter, **changes: Any) -> ServerSettings:
    values = {
        "id": "servers-slow", "pool": "slow", "servers": 2, "time_unit_s": 0.02, "reconnect_first_s": 0.001,
        "reconnect_most_s": 0.01, "routers": [str(router.server.make_url("/")) for router in routers],
    }  # fmt: skip
    return make_settings(values | changes)


@asynccontextmanager
async def running(*routers: FakeRouter, **changes: Any) -> AsyncIterator[Process]:
    for router in routers:
        await router.server.start_server()
    process = Process(settings(*routers, **changes))
    await process.server.start_server()
    try:
        yield process
    finally:
        await process.server.close()
        process.driver.close()
        for router in routers:
            await router.server.close()


def kinds(messages: list[Message | Notice]) -> list[str]:
    return [type(message).__name__ for message in messages]


# -- the link ---------------------------------------------------------------------------------


async def test_hello_welcome_and_the_first_pull_messages() -> None:
    router = FakeRouter()
    async with running(router, rate=2.0, slots=3, capacity=5, first=7, pool_index=1) as process:
        link = await router.linked()
        assert link.names == ["slow-7", "slow-8"]
        assert link.hello.process == "servers-slow" and link.hello.boot == boot_id()
        entry = link.hello.servers[0]
        assert (entry.rate, entry.slots, entry.capacity, entry.pool_index) == (2.0, 3, 5.0, 1)
        assert await link.next(2) == [Pull("slow-7", "router-1", 1), Pull("slow-8", "router-1", 1)]
        assert (await process.get("/ready"))[0] == 200


async def test_empty_services_end_in_the_batch_that_brought_them() -> None:
    router = FakeRouter(needs=Needs())
    async with running(router) as process:
        link = await router.linked()
        await link.send(*(link.dispatch(0, job) for job in range(1, 101)))
        ends = await link.next(100)
        # Each ended before the next one came, though all came at one instant: none waited.
        assert [(end.job, end.outcome, end.waiting, end.service) for end in ends if isinstance(end, End)] == [
            (job, "served", 0.0, 0.0) for job in range(1, 101)
        ]
        assert process.driver.cores["slow-1"].started_at_once == 100


async def test_services_last_as_long_as_they_should() -> None:
    router = FakeRouter(needs=Needs())
    async with running(router) as process:
        link = await router.linked()
        began = time.monotonic()
        await link.send(link.dispatch(0, 1, 1.0), link.dispatch(0, 2, 0.5), link.dispatch(1, 3, 0.25, patience=0.1))
        ends = [end for end in await link.next(3) if isinstance(end, End)]
        assert time.monotonic() - began >= 0.03  # never early: 1.5 time units of 0.02 s
        # The second waits one time unit for the first; the third is alone and does not give up in service.
        assert [(end.job, end.server) for end in ends] == [(3, "slow-2"), (1, "slow-1"), (2, "slow-1")]
        assert [end.waiting for end in ends] == pytest.approx([0.0, 0.0, 0.02])
        assert [end.service for end in ends] == pytest.approx([0.005, 0.02, 0.01])
        values = process.values()
        assert values["herdless_server_jobs_total{outcome=served,pool=slow}"] == 3
        assert values["herdless_server_waited_total{pool=slow}"] == 1
        assert values["herdless_server_waiting_units_bucket{le=0.0,pool=slow}"] == 2
        assert values["herdless_server_service_units_sum{pool=slow}"] == pytest.approx(1.75)
        assert values["herdless_server_timer_lag_seconds_count{}"] == 3
        assert values["herdless_server_one_way_delays_total{hop=router_server}"] == 3


async def test_pull_messages_wait_until_all_links_are_up() -> None:
    first, second = FakeRouter(), FakeRouter("router-2")
    gate = asyncio.Event()

    async def held_back(ws: web.WebSocketResponse) -> None:
        await gate.wait()
        second.answer = None
        await ws.close()

    second.answer = held_back
    async with running(first, second, open_after_s=100.0) as process:
        one = await first.linked()
        await one.send(Probe(one.names[0], "", 1))
        assert kinds(await one.next(1)) == ["Report"]  # the link works, and yet no pull-message came before this
        assert (await process.get("/ready"))[0] == 503
        gate.set()
        two = await second.linked()
        await two.send(Probe(two.names[0], "", 2))
        while kinds(await two.next(1)) != ["Report"]:
            pass  # a pull-message
        assert sum(core.pull_messages for core in process.driver.cores.values()) == 2
        assert (await process.get("/ready"))[0] == 200


async def test_pull_messages_do_not_wait_for_ever() -> None:
    router = FakeRouter()
    nobody = FakeRouter("router-2")
    await nobody.server.start_server()
    url = str(nobody.server.make_url("/"))
    await nobody.server.close()
    await router.server.start_server()
    routers = [str(router.server.make_url("/")), url]
    async with running(routers=routers, open_after_s=0.01) as process:
        link = await router.linked()
        assert kinds(await link.next(2)) == ["Pull", "Pull"]
        assert (await process.get("/ready"))[0] == 503  # one router has no link
    await router.server.close()


async def test_a_lost_link_is_dialled_again_and_begins_afresh() -> None:
    router = FakeRouter()
    async with running(router) as process:
        link = await router.linked()
        await link.next(2)
        await link.send(link.dispatch(0, 1, 50.0))
        assert kinds(await link.next(1)) == ["Withdraw"]
        await link.ws.close()
        again = await router.linked()
        assert again.hello.epoch == link.hello.epoch
        # Job 1 is still served: only the other server is idle.
        assert await again.next(1) == [Pull("slow-2", "router-1", 2)]
        await again.send(Probe("slow-1", "", 5))
        assert await again.next(1) == [Report("slow-1", "router-1", 1, 0, 5)]
        values = process.values()
        assert values["herdless_server_link_losses_total{}"] == 1
        assert values["herdless_server_links_up{}"] == 1


async def test_new_needs_are_followed() -> None:
    router = FakeRouter()
    async with running(router):
        link = await router.linked()
        await link.next(2)
        await link.ws.send_bytes(encode_notice(NewNeeds(needs=Needs(reports=ReportNeeds(change=True)))))
        assert kinds(await link.next(4)) == ["Withdraw", "Report", "Withdraw", "Report"]
        await link.send(link.dispatch(0, 1))
        assert kinds(await link.next(3)) == ["Report", "Report", "End"]


async def test_a_router_with_two_addresses_keeps_one_link() -> None:
    first, mirror = FakeRouter(epoch=5), FakeRouter(epoch=5)
    async with running(first, mirror, open_after_s=100.0) as process:
        refusals = [asyncio.create_task(router.refused()) for router in (first, mirror)]
        done, _ = await asyncio.wait(refusals, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [WSCloseCode.POLICY_VIOLATION]
        for task in refusals:
            task.cancel()
        assert process.links.counts.refusals["duplicate"] > 0
        assert process.links.up == 1
        assert process.driver.opened  # nobody waits for the second


async def test_a_newer_incarnation_replaces_a_link_that_is_not_known_to_be_lost() -> None:
    old, new = FakeRouter(epoch=5), FakeRouter(epoch=6)
    gate = asyncio.Event()

    async def held_back(ws: web.WebSocketResponse) -> None:
        await gate.wait()
        new.answer = None
        await ws.close()

    new.answer = held_back
    async with running(old, new, open_after_s=0.0) as process:
        stale = await old.linked()
        gate.set()
        fresh = await new.linked()
        assert await stale.closed_by_server() == WSCloseCode.GOING_AWAY
        assert kinds(await fresh.next(2)) == ["Pull", "Pull"]
        assert process.links.up == 1


# -- hostile routers --------------------------------------------------------------------------

NAN = float("nan")
HOSTILE = {
    "no msgpack": b"\xc1",
    "random bytes": bytes([0x91, 0xCB, 0x3F, 0xF0, 0xFF, 0x00, 0x13, 0x37, 0x42]),
    "a huge array": b"\xdd\xff\xff\xff\xff",
    "a number": msgpack.packb(7),
    "no stamp": msgpack.packb([]),
    "another stamp": msgpack.packb(["soon"]),
    "a kind that only servers send": msgpack.packb([0.0, [2, 0, 1]]),
    "an unknown kind": msgpack.packb([0.0, [99, 0, 1]]),
    "an unknown server": msgpack.packb([0.0, [1, 2, 1]]),
    "a negative place": msgpack.packb([0.0, [1, -1, 1]]),
    "too few fields": msgpack.packb([0.0, [0, 0, 1]]),
    "a size that is none": msgpack.packb([0.0, [0, 0, 1, NAN, None, None, None, 0]]),
    "a good message before a bad one": msgpack.packb([0.0, [0, 0, 1, 0.5, None, None, None, 0], [1, 0, "x"]]),
    "an unknown notice": msgpack.packb({"notice": "surprise"}),
    "a notice of the wrong side": msgpack.packb({"notice": "drains", "servers": [0]}),
    "wrong needs": msgpack.packb({"notice": "needs", "needs": {"pull": {"announce_at": -3}}}),
    "reports without a pause": encode_notice(NewNeeds(needs=Needs(reports=ReportNeeds(every=1e-300)))),
    "a welcome again": encode_notice(Welcome(version=VERSION, router="router-1", epoch=1, boot="", needs=PULL)),
}


@pytest.mark.parametrize("frame", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_bytes_close_the_link_and_change_nothing_else(frame: bytes) -> None:
    hostile, good = FakeRouter(), FakeRouter("router-2", needs=Needs())
    async with running(hostile, good) as process:
        link, other = await hostile.linked(), await good.linked()
        await link.next(2)
        await link.ws.send_bytes(frame)
        assert await link.closed_by_server() == WSCloseCode.PROTOCOL_ERROR
        assert process.links.counts.refusals["protocol"] == 1
        assert sum(core.arrivals for core in process.driver.cores.values()) == 0
        await other.send(other.dispatch(1, 1))
        assert kinds(await other.next(1)) == ["End"]
        await (await hostile.linked()).next(2)  # it may come back


@pytest.mark.parametrize(
    "frame",
    [
        b"\xc1",
        msgpack.packb([0.0]),
        encode_notice(Drains(servers=[])),
        encode_notice(Welcome(version=VERSION + 1, router="router-1", epoch=1, boot="", needs=PULL)),
    ],
    ids=["no msgpack", "a batch", "another notice", "another version"],
)
async def test_a_wrong_welcome_is_refused(frame: bytes) -> None:
    router = FakeRouter()

    async def answer(ws: web.WebSocketResponse) -> None:
        await ws.send_bytes(frame)

    router.answer = answer
    async with running(router) as process:
        assert await router.refused() == WSCloseCode.PROTOCOL_ERROR
        assert process.links.up == 0
        router.answer = None
        await router.linked()


async def test_text_and_frames_without_end_are_refused() -> None:
    router = FakeRouter()
    async with running(router) as process:
        link = await router.linked()
        await link.ws.send_str("hello")
        assert await link.closed_by_server() == WSCloseCode.PROTOCOL_ERROR
        link = await router.linked()
        await link.ws.send_bytes(bytes(2 << 20))
        assert await link.closed_by_server() == WSCloseCode.MESSAGE_TOO_BIG
        await router.linked()
        assert process.links.counts.refusals["protocol"] == 2


async def test_a_router_that_says_nothing_is_given_up() -> None:
    router = FakeRouter()

    async def answer(ws: web.WebSocketResponse) -> None:
        return

    router.answer = answer
    async with running(router, handshake_limit_s=0.02) as process:
        await router.refused()
        assert process.links.up == 0
        router.answer = None
        await router.linked()


# -- HTTP and draining ------------------------------------------------------------------------


async def test_servers_health_and_metrics() -> None:
    router = FakeRouter()
    async with running(router, metrics_per_server=True, slots=2, longest_queue=3) as process:
        link = await router.linked()
        await link.send(*(link.dispatch(0, job, 1e6) for job in range(5)))
        await link.next(3)  # two first pull-messages, and one taken back
        status, body = await process.get("/v1/servers")
        epoch = link.hello.epoch
        assert status == 200
        assert body["servers"] == [
            {"id": "slow-1", "pool": "slow", "queue_length": 5, "in_service": 2, "epoch": epoch, "state": "live"},
            {"id": "slow-2", "pool": "slow", "queue_length": 0, "in_service": 0, "epoch": epoch, "state": "live"},
        ]
        assert (await process.get("/health"))[0] == 200
        values = process.values()
        assert values["herdless_server_busy_slots{pool=slow}"] == 2
        assert values["herdless_server_queue_length{pool=slow}"] == 5
        assert values["herdless_server_each_queue_length{server=slow-1}"] == 5
        assert values["herdless_server_messages_sent_total{kind=withdraw,pool=slow}"] == 1
        assert values["herdless_server_messages_received_total{kind=dispatch,pool=slow}"] == 5
        lengths = [values[f"herdless_server_queue_length_seconds_total{{length={n},pool=slow}}"] for n in "012"]
        assert values["herdless_server_queue_length_seconds_total{length=3+,pool=slow}"] > 0
        assert lengths[0] > 0 and lengths[1] == lengths[2] == 0  # they came at one instant


async def test_all_series_are_there_before_anything_happens() -> None:
    process = Process(make_settings({"id": "a", "pool": "slow", "servers": 1, "routers": ["127.0.0.1:1"]}))
    try:
        values = process.values()
    finally:
        process.driver.close()
    for outcome in ("served", "blocked", "abandoned", "failed"):
        assert values[f"herdless_server_jobs_total{{outcome={outcome},pool=slow}}"] == 0
    for kind in ("pull", "withdraw", "report", "end"):
        assert values[f"herdless_server_messages_sent_total{{kind={kind},pool=slow}}"] == 0
    assert values["herdless_server_link_refusals_total{cause=protocol}"] == 0
    assert values["herdless_server_queue_length_seconds_total{length=20+,pool=slow}"] == 0
    assert values["herdless_server_waiting_units_count{pool=slow}"] == 0


async def test_draining_some_servers() -> None:
    router = FakeRouter()
    async with running(router) as process:
        link = await router.linked()
        await link.next(2)
        assert await process.post("/v1/drain", b'{"servers": ["slow-2"]}') == (200, {"draining": ["slow-2"]})
        came = await link.next(2)
        assert Drains(servers=[1]) in came and Withdraw("slow-2", "router-1", 1) in came
        await link.send(link.dispatch(1, 1))
        [end] = await link.next(1)
        assert isinstance(end, End) and (end.outcome, end.reason) == ("failed", "draining")
        assert [server["state"] for server in (await process.get("/v1/servers"))[1]["servers"]] == ["live", "draining"]
        # A router that comes later is told as well.
        await link.ws.close()
        again = await router.linked()
        assert Drains(servers=[1]) in await again.next(2)
        assert (await process.post("/v1/drain", b""))[1] == {"draining": ["slow-1", "slow-2"]}
        assert (await process.get("/ready"))[0] == 503


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"servers": ["fast-1"]}', "server 'fast-1' is not in this process, which has slow-1 to slow-2"),
        (b'{"servers": [1]}', "server 1 is not in this process"),
        (b'{"servers": "slow-1"}', "expected no body"),
        (b"[]", "expected no body"),
        (b'"\xff"', "utf"),
        (b"{", "Expecting"),
        (b"[" * 5000, ""),
    ],
)
async def test_a_wrong_order_to_drain_changes_nothing(body: bytes, message: str) -> None:
    async with running(FakeRouter()) as process:
        status, answer = await process.post("/v1/drain", body)
        assert status == 400
        assert message in answer["error"]["message"]
        assert process.driver.draining == []


# -- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"servers": 0}, "server.servers: Input should be greater than or equal to 1 (found 0)"),
        ({"rate": float("inf")}, "server.rate: Input should be a finite number (found inf)"),
        ({"routers": ["ftp://x"]}, 'server.routers: router "ftp://x": expected http://host:port'),
        ({"pool": "slow pool"}, "server.pool: String should match pattern"),
        ({"colour": 1}, "server.colour: Extra inputs are not permitted (found 1)"),
        ({"servers": 5000}, "server.servers: Input should be less than or equal to 4096 (found 5000)"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    good = {"id": "a", "pool": "slow", "servers": 1, "routers": ["127.0.0.1:1"]}
    with pytest.raises(SettingsError) as error:
        make_settings(good | wrong)
    assert message in str(error.value)


def test_random_streams_go_by_name() -> None:
    values = {"id": "a", "pool": "slow", "servers": 2, "seed": 7, "routers": ["127.0.0.1:1"]}
    one = make_settings(values)
    assert one.stream("slow-1", "routers").random() == make_settings(values).stream("slow-1", "routers").random()
    assert one.stream("slow-1", "routers").random() != one.stream("slow-2", "routers").random()


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(
        0.5, 2.0, make_settings({"id": "a", "pool": "p", "servers": 1, "routers": ["r"]}).stream("a", "b")
    )
    pauses = [backoff.pause_s() for _ in range(5)]
    # Each is between a half and the whole of 0.5, 1, 2, 2, 2.
    assert all(whole / 2 <= pause <= whole for pause, whole in zip(pauses, [0.5, 1, 2, 2, 2], strict=True))
    assert len(set(pauses)) == 5
    backoff.reset()
    assert backoff.pause_s() <= 0.5


# -- the whole process ------------------------------------------------------------------------

PROGRAM = """
import json, sys
from server.app.main import run
from server.app.settings import make_settings
sys.exit(run(make_settings(json.loads(sys.argv[1]))))
"""


async def test_sigterm_drains_and_ends_with_exit_code_0() -> None:
    router = FakeRouter()
    await router.server.start_server()
    values = {"id": "servers-slow", "pool": "slow", "servers": 2, "time_unit_s": 0.01,
              "routers": [str(router.server.make_url("/"))]}  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        json.dumps(values),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        link = await asyncio.wait_for(router.connections.get(), 30)
        assert kinds(await link.next(2)) == ["Pull", "Pull"]
        await link.send(link.dispatch(0, 1, 20.0), link.dispatch(0, 2, 10.0))  # 0.3 s in all
        assert kinds(await link.next(1)) == ["Withdraw"]
        process.send_signal(signal.SIGTERM)
        came = await link.next(4)
        # The idle server's message is taken back, the routers are told, and both jobs are finished.
        assert sorted(kinds(came)) == ["Drains", "End", "End", "Withdraw"]
        assert [(end.job, end.outcome) for end in came if isinstance(end, End)] == [(1, "served"), (2, "served")]
        assert await link.closed_by_server() == WSCloseCode.GOING_AWAY
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
        assert process.stdout is not None and process.stderr is not None
        line = json.loads(await process.stdout.readline())
        assert (line["event"], line["role"], line["id"]) == ("listening", "server", "servers-slow")
        assert "the mean service time is 10 ms; below 20 ms" in (await process.stderr.read()).decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await router.server.close()
