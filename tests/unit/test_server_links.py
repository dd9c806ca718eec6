"""The server process and its routers: links that come, go and misbehave."""

from __future__ import annotations

import asyncio
import time

import msgpack
import pytest
from aiohttp import WSCloseCode, web

from router.process.identity import make_identity
from router.protocol.messages import End, Probe, Pull, Report
from router.protocol.needs import Needs, ReportNeeds
from router.protocol.notices import VERSION, Drains, NewNeeds, Welcome, encode_notice
from server.app.discovery import Address
from tests.unit.server_peers import PULL, FakeRouter, kinds, running

# -- the link ---------------------------------------------------------------------------------


async def test_hello_welcome_and_the_first_pull_messages() -> None:
    router = FakeRouter()
    async with running(router, rate=2.0, slots=3, capacity=5, first=7, pool_index=1) as process:
        link = await router.linked()
        assert link.names == ["slow-7", "slow-8"]
        assert link.hello.process == "servers-slow" and link.hello.boot == make_identity("any").boot
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


async def test_routers_come_and_go_behind_one_name() -> None:
    first, second = FakeRouter(), FakeRouter("router-2")
    named = [first]

    async def resolve(host: str, port: int) -> list[Address]:
        return [router.address for router in named]

    async with running(first, second, resolve=resolve, routers=["router"], resolve_every_s=0.001) as process:
        one = await first.linked()
        named[:] = [first, second]  # one more
        two = await second.linked()
        named[:] = [second]  # the first is named no more, and yet its link is kept while it is up
        await two.ws.close()
        two = await second.linked()
        await one.send(Probe("slow-1", "", 1))
        while kinds(await one.next(1)) != ["Report"]:
            pass  # pull-messages
        await one.ws.close()
        # In the time in which the second is linked five times again, the first would have been dialled again too.
        for _ in range(5):
            await two.ws.close()
            two = await second.linked()
        assert first.connections.empty()
        named[:] = [second, first]  # named again
        await first.linked()
        assert process.links.counts.refusals == {"protocol": 0, "duplicate": 0, "limit": 0, "internal": 0}


async def test_new_needs_are_followed() -> None:
    router = FakeRouter()
    async with running(router):
        link = await router.linked()
        await link.next(2)
        await link.ws.send_bytes(encode_notice(NewNeeds(needs=Needs(reports=ReportNeeds(change=True)))))
        assert kinds(await link.next(4)) == ["Withdraw", "Report", "Withdraw", "Report"]
        await link.send(link.dispatch(0, 1))
        assert kinds(await link.next(3)) == ["Report", "End", "Report"]


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
