"""The router's process over HTTP: jobs, their ends, and bodies that are none. Servers are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientResponse

from tests.unit.router_peers import Router, running, served, until


async def test_a_job_goes_to_a_server_and_its_end_comes_back():
    async with running() as router:
        servers = await router.link("slow-1")
        posted = router.post({"size": 2.5, "patience": 30})
        dispatch = await servers.dispatch()
        assert (dispatch.server, dispatch.size, dispatch.patience, dispatch.number) == ("slow-1", 2.5, 30, None)
        await servers.say(served(dispatch, waiting=0.25, service=0.5))
        response = await posted
        assert response.status == 200
        assert response.content_type == "application/json"
        assert await response.json() == {
            "outcome": "served", "reason": "", "server": "slow-1", "pool": "slow",
            "waiting_s": 0.25, "service_s": 0.5, "router": "router-1",
        }  # fmt: skip


@pytest.mark.parametrize("body", [None, {}, {"patience": None}, {"size": 1}])
async def test_a_job_is_of_unit_size_and_patient_for_ever_if_nothing_else_is_said(body):
    async with running() as router:
        servers = await router.link("slow-1")
        posted = router.post(body) if body is not None else asyncio.create_task(_post(router))
        dispatch = await servers.dispatch()
        assert (dispatch.size, dispatch.patience) == (1.0, None)
        await servers.end(dispatch)
        assert (await posted).status == 200


async def _post(router: Router) -> ClientResponse:
    return await router.client.post("/v1/jobs")


@pytest.mark.parametrize(
    ("outcome", "reason", "status"),
    [
        ("served", "", 200),
        ("blocked", "", 503),
        ("abandoned", "", 504),
        ("failed", "draining", 503),
        ("failed", "ceiling", 503),
        ("failed", "anything else", 502),
    ],
)
async def test_each_outcome_has_its_status(outcome, reason, status):
    async with running() as router:
        servers = await router.link("slow-1")
        posted = router.post()
        await servers.end(await servers.dispatch(), outcome=outcome, reason=reason)
        response = await posted
        assert response.status == status
        answer = await response.json()
        assert (answer["outcome"], answer["reason"], answer["server"]) == (outcome, reason, "slow-1")


async def test_without_a_server_a_job_fails_at_once():
    async with running() as router:
        response = await router.post()
        assert response.status == 503
        assert await response.json() == {
            "outcome": "failed", "reason": "no_server", "server": None, "pool": None,
            "waiting_s": None, "service_s": None, "router": "router-1",
        }  # fmt: skip


async def test_beyond_the_ceiling_jobs_fail_at_once():
    async with running(ceiling=1) as router:
        servers = await router.link("slow-1")
        first = router.post()
        dispatch = await servers.dispatch()
        second = await router.post()
        assert (second.status, (await second.json())["reason"]) == (503, "ceiling")
        await servers.end(dispatch)
        assert (await first).status == 200


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        (b"{", 400, "json", "not valid JSON"),
        (b"\x93\x00\xff\xfe\x01\x02\x03\x04\x05", 400, "json", "not valid JSON"),
        (b"[" * 1000, 400, "json", "not valid JSON"),
        (b"[1]", 400, "job", "found [1]"),
        (b"3", 400, "job", "found 3"),
        (b'{"size": 1, "weight": 2}', 400, "job", "unknown key 'weight'"),
        (b'{"size": "1"}', 400, "job", "size = '1'"),
        (b'{"size": true}', 400, "job", "size = True"),
        (b'{"size": null}', 400, "job", "size = None"),
        (b'{"size": -1}', 400, "job", "size = -1"),
        (b'{"size": NaN}', 400, "job", "size = nan"),
        (b'{"size": Infinity}', 400, "job", "size = inf"),
        (b'{"size": 1e400}', 400, "job", "size = inf"),
        (b'{"size": 1000000000000000000000000}', 400, "job", "size = 1000"),
        (b'{"patience": -0.5}', 400, "job", "patience = -0.5"),
        (b'{"patience": []}', 400, "job", "patience = []"),
        (b" " * 1025, 413, "too_long", "longer than 1024 bytes"),
        (b" " * (1 << 19), 413, "too_long", "longer than 1024 bytes"),
    ],
)
async def test_a_body_that_is_no_job_is_refused_and_changes_nothing(body, status, kind, says):
    async with running() as router:
        await router.link("slow-1")
        async with router.client.post("/v1/jobs", data=body) as response:
            assert response.status == status
            error = (await response.json())["error"]
        assert error["kind"] == kind
        assert says in error["message"]
        metrics = await router.metrics()
        assert metrics["refusals_total", "http", kind] == 1
        assert metrics["jobs_total", "random"] == 0


@pytest.mark.parametrize("kibibytes", [2, 100])  # beyond a job's limit, and beyond that of any body
async def test_a_long_body_is_refused_though_its_length_was_not_announced(kibibytes):
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(kibibytes):
            yield b" " * 1024

    async with running() as router, router.client.post("/v1/jobs", data=chunks()) as response:
        assert response.status == 413
        assert (await response.json())["error"]["kind"] == "too_long"


@pytest.mark.parametrize(
    "begun", [b"Content-Length: 10\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"], ids=["length", "chunks"]
)
async def test_a_client_that_goes_away_within_its_body_is_no_mistake_of_ours(begun, caplog):
    async with running() as router:
        await router.link("slow-1")
        _, writer = await asyncio.open_connection(router.client.host, router.client.port)
        writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\n" + begun)
        await writer.drain()
        await router.get("/health")  # the router has seen the head
        writer.close()
        while (metrics := await router.metrics())["refusals_total", "http", "cut"] == 0:
            pass
        assert metrics["jobs_total", "random"] == 0
    assert caplog.records == []


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v1/jobs", 405, "method"),
        ("DELETE", "/v1/policy", 405, "method"),
        ("GET", "/v1/job", 404, "not_found"),
        ("GET", "/v1/link", 400, "websocket"),
        ("GET", "/v1/stream", 400, "websocket"),
    ],
)
async def test_what_is_not_offered_is_refused_in_json(method, path, status, kind):
    async with running() as router, router.client.request(method, path) as response:
        assert response.status == status
        assert (await response.json())["error"]["kind"] == kind


async def test_the_job_of_a_client_that_is_gone_runs_on():
    async with running() as router:
        servers = await router.link("slow-1")
        posted = router.post()
        dispatch = await servers.dispatch()
        posted.cancel()
        await asyncio.gather(posted, return_exceptions=True)
        assert router.app.driver.core.in_system == 1
        await servers.end(dispatch)
        await until(lambda: router.app.driver.counts.unheard["http"])
        metrics = await router.metrics()
        assert metrics["ends_total", "served", "random", ""] == 1
        assert metrics["unheard_ends_total", "http"] == 1
        assert metrics["in_flight",] == 0
