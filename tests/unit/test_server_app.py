"""The server process without the process: HTTP, draining, settings."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from router.protocol.codec import unpack
from router.protocol.errors import SettingsError
from router.protocol.messages import End, Withdraw
from router.protocol.notices import Drains, Hello, read_notice
from server.app.settings import make_settings
from server.backoff import Backoff
from tests.unit.server_peers import LIMIT_S, FakeRouter, Process, running

# -- HTTP and draining ------------------------------------------------------------------------


async def test_servers_health_and_metrics() -> None:
    router = FakeRouter()
    async with running(router, metrics_per_server=True, slots=2, longest_queue=3) as process:
        link = await router.linked()
        await link.send(*(link.dispatch(0, job, 1e6) for job in range(5)))
        await link.next(3)  # two first pull-messages, and one taken back
        status, body = await process.get("/v1/servers")
        assert status == 200
        same = {"pool": "slow", "rate": 1.0, "epoch": link.hello.epoch, "state": "live"}
        same["disturbance"] = {"slow": 1.0, "failing": False, "hung": False}
        assert body["servers"] == [
            {"id": "slow-1", "queue_length": 5, "in_service": 2, **same},
            {"id": "slow-2", "queue_length": 0, "in_service": 0, **same},
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
        assert await link.next(2) == [Withdraw("slow-2", "router-1", 1), Drains(servers=[1])]
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


async def test_a_server_misbehaves_as_it_is_told_and_no_more_when_it_is_told() -> None:
    router = FakeRouter()
    path = "/v1/servers/slow-1/disturbance"
    async with running(router) as process:
        link = await router.linked()
        await link.next(2)
        assert await process.put(path, b'{"failing": true}') == (200, {"slow": 1.0, "failing": True, "hung": False})
        assert process.values()["herdless_server_disturbed{pool=slow}"] == 1
        await link.send(link.dispatch(0, 1))
        [end] = await link.next(1)
        assert isinstance(end, End) and (end.server, end.outcome, end.reason) == ("slow-1", "failed", "server")
        # Hung: the job of slow-1 is over long before it ends, which is when it hangs no more.
        assert (await process.put(path, b'{"hung": true, "slow": 2}'))[1] == {
            "slow": 2.0, "failing": False, "hung": True
        }  # fmt: skip
        await link.send(link.dispatch(0, 2, 0.0))
        assert await link.next(1) == [Withdraw("slow-1", "router-1", 1)]
        assert (await process.get("/v1/servers"))[1]["servers"][0]["disturbance"]["hung"] is True
        draining = asyncio.create_task(process.driver.until_empty())
        assert await process.put(path, b"{}") == (200, {"slow": 1.0, "failing": False, "hung": False})
        await asyncio.wait_for(draining, LIMIT_S)  # nothing else would tell that the last job has ended
        assert process.values()["herdless_server_disturbed{pool=slow}"] == 0


@pytest.mark.parametrize(
    ("server", "body", "status", "message"),
    [
        ("fast-1", b"{}", 404, "server 'fast-1' is not in this process, which has slow-1 to slow-2"),
        ("slow-1", b"", 400, "Expecting value"),
        ("slow-1", b"[]", 400, 'expected {"slow": …, "failing": …, "hung": …}, each optional, found []'),
        ("slow-1", b'{"fast": 2}', 400, "unknown key 'fast': a disturbance has slow, failing, hung"),
        ("slow-1", b'{"slow": 0}', 400, "slow = 0: expected a number from 1e-06 to 1e+06"),
        ("slow-1", b'{"slow": NaN}', 400, "slow = nan"),
        ("slow-1", b'{"slow": true}', 400, "slow = True"),
        ("slow-1", b'{"hung": 1}', 400, "hung = 1: expected true or false"),
        ("slow-1", b'{"failing": null}', 400, "failing = None: expected true or false"),
        ("slow-1", b"[" * 5000, 400, ""),
    ],
)
async def test_a_wrong_disturbance_changes_nothing(server: str, body: bytes, status: int, message: str) -> None:
    async with running(FakeRouter()) as process:
        found, answer = await process.put(f"/v1/servers/{server}/disturbance", body)
        assert found == status
        assert message in answer["error"]["message"]
        assert process.values()["herdless_server_disturbed{pool=slow}"] == 0


# -- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"servers": 0}, "server.servers = 0, expected a whole number from 1 to 4096"),
        ({"rate": float("inf")}, "server.rate = inf, expected a finite number above 0"),
        ({"routers": ["ftp://x"]}, 'server.routers: router "ftp://x": expected http://host:port'),
        ({"pool": "slow pool"}, 'server.pool = "slow pool", expected text in quotes that matches ^[A-Za-z0-9]'),
        ({"pool": "p" * 65}, 'p", expected text in quotes of at most 64 letters'),
        ({"routers": []}, "server.routers = [], expected a list of at least 1 entries, each text in quotes"),
        ({"colour": 1}, "server.colour: no such key; known keys: id, host, port, "),
        ({"servers": 5000}, "server.servers = 5000, expected a whole number from 1 to 4096"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    good = {"id": "a", "pool": "slow", "servers": 1, "routers": ["127.0.0.1:1"]}
    with pytest.raises(SettingsError) as error:
        make_settings(good | wrong)
    assert message in str(error.value)


async def test_the_largest_hello_fits_into_a_frame() -> None:
    values = {"id": "a" * 64, "pool": "p" * 64, "servers": 4096, "first": 10**9, "routers": ["127.0.0.1:1"]}
    large = make_settings(values | {"slots": 10**6, "pool_index": 10**6, "rate": 1 / 3, "capacity": 1e7})
    process = Process(large)
    process.driver.close()
    hello = read_notice(unpack(process.links.hello))
    assert isinstance(hello, Hello) and len(hello.servers) == 4096


def test_random_streams_go_by_name() -> None:
    values = {"id": "a", "pool": "slow", "servers": 2, "seed": 7, "routers": ["127.0.0.1:1"]}
    one = make_settings(values)
    assert one.stream("slow-1", "routers").random() == make_settings(values).stream("slow-1", "routers").random()
    assert one.stream("slow-1", "routers").random() != one.stream("slow-2", "routers").random()


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(0.5, 2.0, Random(1))
    pauses = [backoff.pause(lasted) for lasted in (0.0, 0.1, 1.0, 1.9, 2.0)]
    # Each is between a half and the whole of 0.5, 1, 2, 2, 2.
    assert all(whole / 2 <= pause <= whole for pause, whole in zip(pauses, [0.5, 1, 2, 2, 2], strict=True))
    assert len(set(pauses)) == 5
    assert backoff.pause(2.1) <= 0.5
