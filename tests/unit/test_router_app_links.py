"""The router's process and its links: servers come and go, and nothing that breaks a rule touches another link."""

from __future__ import annotations

import pytest

from router.protocol.messages import Pull, Report
from router.protocol.notices import Drains, encode_notice
from tests.unit.router_peers import closed, hello, pack, running, served, until


async def test_ready_means_that_a_server_can_be_chosen():
    async with running() as router:
        assert await router.get("/health") == {"status": "ok", "role": "router", "id": "router-1"}
        assert await router.get("/ready") == {"ready": False, "reason": "no_server", "servers": 0}
        servers = await router.link("slow-1", "slow-2")
        assert await router.get("/ready") == {"ready": True, "reason": "", "servers": 2}
        await servers.ws.send_bytes(encode_notice(Drains(servers=[0, 1])))
        await until(lambda: len(router.app.driver.core.draining) == 2)
        assert await router.get("/ready") == {"ready": False, "reason": "no_server", "servers": 0}
        async with router.client.get("/ready") as response:
            assert response.status == 503


async def test_servers_are_shown_as_this_router_knows_them():
    async with running("pull") as router:
        servers = await router.link("slow-1", "slow-2")
        await servers.say(Pull("slow-2", "router-1", 1), Report("slow-1", "router-1", 3, 0, None))
        await until(lambda: router.app.driver.core.policy.held_total == 1)
        shared = {"pool": "slow", "rate": 1.0, "slots": 1, "capacity": "inf", "state": "live", "outstanding": 0}
        assert await router.get("/v1/servers") == {
            "servers": [
                {"id": "slow-1", **shared, "view": 3, "failed": 0, "pull_messages": 0},
                {"id": "slow-2", **shared, "view": None, "failed": 0, "pull_messages": 1},
            ]
        }


async def test_a_draining_server_is_not_chosen():
    async with running() as router:
        servers = await router.link("slow-1", "slow-2")
        await servers.ws.send_bytes(encode_notice(Drains(servers=[0])))
        await until(lambda: router.app.driver.core.draining)
        generator = await router.stream()
        await generator.send(*((id, 1.0, None) for id in range(50)))
        assert {(await servers.dispatch()).server for _ in range(50)} == {"slow-2"}
        assert (await router.metrics())["servers", "slow", "draining"] == 1


async def test_jobs_of_a_lost_link_fail_once():
    async with running() as router:
        servers = await router.link("slow-1")
        posted = router.post()
        await servers.dispatch()
        await servers.ws.close()
        response = await posted
        assert response.status == 502
        answer = await response.json()
        assert (answer["outcome"], answer["reason"], answer["server"]) == ("failed", "link_lost", "slow-1")
        assert answer["waiting_s"] is None
        assert await router.get("/v1/servers") == {"servers": []}


async def test_a_job_that_is_dispatched_anew_does_not_go_to_a_server_of_the_same_lost_link():
    async with running(retries=1) as router:
        lost = await router.link("slow-1", "slow-2", "slow-3", process="lost")
        generator = await router.stream()
        await generator.send(*((id, 1.0, None) for id in range(30)))
        for _ in range(30):
            await lost.dispatch()
        other = await router.link("slow-4", process="other")
        await lost.ws.close()
        for _ in range(30):
            dispatch = await other.dispatch()
            assert dispatch.server == "slow-4"
            await other.end(dispatch)
        assert {(await generator.answer()).outcome for _ in range(30)} == {"served"}


async def test_a_newer_incarnation_takes_the_place_of_the_former():
    async with running() as router:
        former = await router.link("slow-1", epoch=1)
        first = router.post()
        old = await former.dispatch()
        newer = await router.link("slow-1", "slow-2", epoch=2)
        assert (await first).status == 502  # what the former had is lost with it
        assert await former.closed() == (1008, "a newer incarnation of fake-1 is linked")
        second = router.post()
        dispatch = await newer.dispatch()
        # An end of the former incarnation's job changes nothing; neither does a double one.
        await newer.say(served(old._replace(server=dispatch.server)), served(dispatch), served(dispatch))
        assert (await second).status == 200
        metrics = await router.metrics()
        assert metrics["orphaned_total",] == 2
        assert metrics["ends_total", "failed", "random", "link_lost"] == 1
        assert metrics["ends_total", "served", "random", ""] == 1
        assert metrics["servers", "slow", "live"] == 2


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (hello("slow-1"), "fake-1 is linked already"),  # the same incarnation, under another address of the router
        (hello("slow-1", epoch=0), "a newer incarnation of fake-1 is linked"),
        (hello("slow-2", "slow-1", process="fake-2"), "server slow-1 belongs to fake-1"),
    ],
)
async def test_a_server_has_one_link(second, says):
    async with running() as router:
        first = await router.link("slow-1")
        ws = await router.client.ws_connect("/v1/link")
        await ws.send_bytes(encode_notice(second))
        code, reason = await closed(ws)
        assert code == 1008
        assert says in reason
        assert (await router.metrics())["refusals_total", "server", "duplicate"] == 1
        # The first one is as before.
        assert [server["id"] for server in (await router.get("/v1/servers"))["servers"]] == ["slow-1"]
        posted = router.post()
        await first.end(await first.dispatch())
        assert (await posted).status == 200


# -- what the protocol does not allow --------------------------------------------------------------

GOOD_HELLO = hello("slow-1").model_dump()


@pytest.mark.parametrize(
    ("frame", "code", "kind", "says"),
    [
        (b"", 1002, "frame", "not valid msgpack"),
        (b"\xc1\x00\xff\x13\x37\x00\x00\x00\x00", 1002, "frame", "not valid msgpack"),
        (b"\xdd\xff\xff\xff\xff", 1002, "frame", "not valid msgpack"),  # an array of 2**32 - 1 entries
        (pack([1.0]), 1002, "hello", "begins with a hello"),
        (pack(None), 1002, "hello", "begins with a hello"),
        (pack({"notice": "welcome"}), 1002, "hello", "begins with a hello"),
        (pack({"notice": "drains", "servers": []}), 1002, "hello", "found the notice 'drains'"),
        (pack(GOOD_HELLO | {"extra": 1}), 1002, "hello", "extra"),
        (pack(GOOD_HELLO | {"servers": []}), 1002, "hello", "servers"),
        (pack(GOOD_HELLO | {"servers": GOOD_HELLO["servers"] * 2}), 1002, "hello", "two servers have the same id"),
        (pack(GOOD_HELLO | {"process": "../x"}), 1002, "hello", "process"),
        (pack(GOOD_HELLO | {"version": 99}), 1008, "version", "protocol version 99"),
        (pack({"notice": "hello", "version": 2, "shape": "of tomorrow"}), 1008, "version", "protocol version 2"),
    ],
)
async def test_a_link_that_does_not_begin_with_a_hello_is_closed_with_the_reason(frame, code, kind, says):
    async with running() as router:
        ws = await router.client.ws_connect("/v1/link")
        await ws.send_bytes(frame)
        found, reason = await closed(ws)
        assert found == code
        assert says in reason
        assert (await router.metrics())["refusals_total", "server", kind] == 1
        await until(lambda: len(router.app.links) == 0)


@pytest.mark.parametrize(
    ("frame", "code", "kind", "says"),
    [
        (pack([]), 1002, "message", "begins with the sender's instant"),
        (pack([1.0, [9, 0, 1]]), 1002, "message", "kind 9"),
        (pack([1.0, [0, 0, 1, 1.0, None, None, None, 0]]), 1002, "message", "kind 0"),  # only routers dispatch
        (pack([1.0, [2, 0, 1], [2, 5, 1]]), 1002, "message", "server 5"),
        (pack([1.0, [2, 0, 1], [2, 0, -1]]), 1002, "message", "Pull.number = -1"),
        (pack([1.0, [2, 0, 1], [4, 0, 0, 1, None]]), 1002, "message", "has seen 1 dispatches, of 0"),
        (pack([1.0, [4, 0, 2_000_000, 0, None]]), 1002, "message", "Report.length = 2000000, expected a whole"),
        (pack([1.0, [5, 0, 1, "lost", "", 1.0, 0.0, 0.0, False, None, None]]), 1002, "message", "End.outcome"),
        (pack({"notice": "drains", "servers": [1]}), 1002, "notice", "server 1, of 1"),
        (pack({"notice": "drains", "servers": [-1]}), 1002, "notice", "server -1, of 1"),
        (pack(GOOD_HELLO), 1002, "notice", "'hello' is not allowed here"),
        (b"\xc1", 1002, "frame", "not valid msgpack"),
        ("text", 1002, "text", "found text"),
        (b"\x00" * ((1 << 20) + 1), 1009, "too_long", ""),
    ],
)
async def test_a_wrong_frame_closes_its_link_and_touches_nothing_else(frame, code, kind, says):
    async with running("pull") as router:
        bad = await router.link("bad-1", process="bad")
        good = await router.link("good-1", process="good")
        await (bad.ws.send_str(frame) if isinstance(frame, str) else bad.ws.send_bytes(frame))
        found, reason = await bad.closed()
        assert found == code
        assert says in reason
        metrics = await router.metrics()
        assert {key: n for key, n in metrics.items() if key[0] == "refusals_total" and n} == {
            ("refusals_total", "server", kind): 1
        }
        assert metrics["pull_messages_held",] == 0  # no message of a wrong frame was taken
        assert metrics["messages_received_total", "pull"] == 0
        assert [server["id"] for server in (await router.get("/v1/servers"))["servers"]] == ["good-1"]
        posted = router.post()
        await good.end(await good.dispatch())
        assert (await posted).status == 200


async def test_more_links_than_allowed_are_refused():
    async with running(max_links=1, max_streams=1) as router:
        await router.link("slow-1")
        await router.stream()
        for path in ("/v1/link", "/v1/stream"):
            async with router.client.get(path, headers=UPGRADE) as response:
                assert response.status == 503
                assert (await response.json())["error"]["kind"] == "limit"


UPGRADE = {
    "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip
