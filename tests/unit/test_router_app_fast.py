"""The fast path of a router answers as the ordinary way does."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from router.process.fastpath import FastPath
from router.process.limits import CONNECTIONS, HttpLimits
from tests.unit.router_peers import FakeServers, Router, running, until

CLOSED = -1

BODIES = [
    b"", b"{}", b'{"size": 1}', b'{"size": 2.5, "patience": 30}', b'{"patience": null}', b'{ "size" :\n1e-3 }',
    b"{", b"\xff", b'\xef\xbb\xbf{"size": 1}', '{"size": 1}'.encode("utf-16"), b"[" * 1000, b"[1]", b"3",
    b'{"size": 1, "weight": 2}', b'{"size": "1"}', b'{"size": true}', b'{"size": NaN}', b'{"size": 1e400}',
    b'{"patience": -0.5}', b" " * 1025,
]  # fmt: skip
"""Some of them are plain, some are no jobs."""


def fast_path(router: Router) -> FastPath:
    found = router.app.web[CONNECTIONS].fast_path
    assert found is not None
    return found


@pytest.mark.parametrize("body", BODIES)
async def test_each_body_has_the_same_effect_by_either_way(body):
    found: list[Any] = []
    for fast in (True, False):
        async with running(fast_path=fast) as router:
            servers = await router.link("slow-1")
            posted = asyncio.create_task(router.client.post("/v1/jobs", data=body))
            # Either a job comes, or the request is refused.
            coming = asyncio.create_task(servers.dispatch())
            await asyncio.wait((posted, coming), return_when=asyncio.FIRST_COMPLETED)
            dispatch = None
            if not posted.done():
                dispatch = await coming
                await servers.end(dispatch)
            coming.cancel()
            response = await posted
            found.append((dispatch, response.status, response.content_type, await response.json()))
            assert len(fast_path(router).connections) == (fast and dispatch is not None)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("served", ""), ("blocked", ""), ("abandoned", ""), ("failed", "draining"), ("failed", 'a "reason" ü\n')],
)
async def test_each_end_is_answered_the_same_by_either_way(outcome, reason):
    found: list[Any] = []
    for fast in (True, False):
        async with running(fast_path=fast) as router:
            servers = await router.link("slow-1")
            posted = router.post({"size": 1})
            await servers.end(await servers.dispatch(), outcome=outcome, reason=reason, waiting=0.1, service=2)
            response = await posted
            found.append((response.status, await response.json()))
            assert len(fast_path(router).connections) == fast
    assert found[0] == found[1]
    assert found[0][1] == {
        "outcome": outcome, "reason": reason, "server": "slow-1", "pool": "slow",
        "waiting_s": 0.1, "service_s": 2, "router": "router-1",
    }  # fmt: skip


HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: here\r\n"
JOB = HEAD + b'Content-Length: 13\r\n\r\n{"size": 1.5}'
LAST = HEAD + b"Connection: close\r\n\r\n"
RAW: dict[str, list[tuple[bytes, int]]] = {
    "one after the other": [(JOB, 1), (JOB, 1)],
    "together": [(JOB + JOB + JOB, 3), (JOB, 1)],
    "cut in the head": [(JOB[:20], 0), (JOB[20:], 1), (JOB, 1)],
    "cut in the body": [(JOB[:-3], 0), (JOB[-3:], 1)],
    "head and body": [(JOB[:-13], 0), (JOB[-13:], 1)],
    "the last one": [(LAST, 1), (b"", CLOSED)],
    "a job, then the last one": [(JOB, 1), (LAST, 1), (b"", CLOSED)],
    "HTTP/1.0": [(b"POST /v1/jobs HTTP/1.0\r\n\r\n", 1), (b"", CLOSED)],
    "HTTP/1.0, kept": [(b"POST /v1/jobs HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1), (JOB, 1)],
    "chunks": [(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 1), (JOB, 1)],
    "length and chunks": [(JOB, 1), (JOB.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"), 1), (b"", CLOSED)],
    "an expectation": [(JOB.replace(b"Host", b"Expect: 100-continue\r\nHost"), 2), (JOB, 1)],
    "a longer job": [(HEAD + b"Content-Length: 1025\r\n\r\n" + b" " * 1025, 1), (JOB, 1)],
    "no job": [(JOB.replace(b"size", b"sise"), 1), (JOB, 1)],
    "another method": [(JOB, 1), (JOB.replace(b"POST", b"PUT"), 1), (JOB, 1)],
    "another path": [(JOB, 1), (b"GET /v1/policy HTTP/1.1\r\nHost: here\r\n\r\n", 1), (JOB, 1)],
    "no HTTP": [(JOB, 1), (b"\x16\x03\x01\r\n\r\n", 1), (b"", CLOSED)],
}
"""What is sent, and how many answers are read before the next is."""


@pytest.mark.parametrize("pieces", RAW.values(), ids=RAW.keys())
async def test_bytes_are_answered_the_same_by_either_way(pieces):
    found: list[list[Any]] = []
    for fast in (True, False):
        async with running(fast_path=fast) as router:
            serving = asyncio.create_task(serve_all(await router.link("slow-1")))
            reader, writer = await asyncio.open_connection("127.0.0.1", router.client.port)
            found.append([])
            for piece, answers in pieces:
                writer.write(piece)
                if answers == CLOSED:
                    assert await asyncio.wait_for(reader.read(), 10) == b""
                found[-1] += [await answer(reader) for _ in range(answers)]
            writer.close()
            serving.cancel()
    assert found[0] == found[1]


async def serve_all(servers: FakeServers) -> None:
    while True:
        await servers.end(await servers.dispatch())


async def answer(reader: asyncio.StreamReader) -> tuple[list[bytes], bytes]:
    """An answer: its first line, its fields in alphabetical order, and its body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    length = re.search(rb"Content-Length: (\d+)", head)
    first, *fields = re.sub(rb"(Date|Server): [^\r]*\r\n", b"", head).removesuffix(b"\r\n\r\n").split(b"\r\n")
    return [first, *sorted(fields)], b"" if length is None else await reader.readexactly(int(length[1]))


async def test_without_a_server_a_job_is_answered_before_it_is_taken_in():
    async with running(fast_path=True) as router:
        for _ in range(2):
            response = await router.post({"size": 1})
            assert response.status == 503
            assert await response.json() == {
                "outcome": "failed", "reason": "no_server", "server": None, "pool": None,
                "waiting_s": None, "service_s": None, "router": "router-1",
            }  # fmt: skip
        assert len(fast_path(router).connections) == 1


async def test_the_job_of_a_client_that_is_gone_runs_on():
    async with running(fast_path=True) as router:
        servers = await router.link("slow-1")
        posted = router.post({"size": 1})
        dispatch = await servers.dispatch()
        posted.cancel()
        await asyncio.gather(posted, return_exceptions=True)
        await until(lambda: not fast_path(router).connections)
        assert router.app.driver.core.in_system == 1
        await servers.end(dispatch)
        await until(lambda: router.app.driver.counts.unheard["http"])
        metrics = await router.metrics()
        assert metrics["ends_total", "served", "random", ""] == 1
        assert metrics["unheard_ends_total", "http"] == 1
        assert metrics["in_flight",] == 0


async def test_a_mistake_of_ours_is_answered_as_one(monkeypatch, caplog):
    async with running(fast_path=True) as router:

        def fails(*_: Any) -> None:
            raise ZeroDivisionError("so it is")

        monkeypatch.setattr(router.app.driver, "submit", fails)
        for _ in range(2):
            response = await router.post({"size": 1})
            assert response.status == 500
            error = (await response.json())["error"]
            assert error["kind"] == "internal"
            assert error["message"].startswith("ZeroDivisionError: so it is")
        assert len(fast_path(router).connections) == 1
    assert "POST /v1/jobs failed" in caplog.text


async def test_a_job_that_is_still_there_when_the_router_ends_is_answered():
    async with running(fast_path=True) as router:
        servers = await router.link("slow-1")
        posted = router.post({"size": 1})
        await servers.dispatch()
        await router.app.web.shutdown()
        response = await posted
        assert (response.status, (await response.json())["reason"]) == (502, "link_lost")
        await until(lambda: not fast_path(router).connections)


async def test_connections_of_the_fast_path_count():
    async with running(fast_path=True, http=HttpLimits(max_connections=1)) as router:
        assert (await router.post({"size": 1})).status == 503  # no server
        async with router.client.get("/health") as response:  # the same connection, handed over
            assert response.status == 200
        assert router.app.web[CONNECTIONS].open == 1
