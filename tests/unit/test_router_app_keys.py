"""Jobs that carry a key: served at most once, and whoever repeats one is told the same end."""

from __future__ import annotations

from asyncio import all_tasks, get_running_loop, open_connection, sleep
from typing import Any

import pytest

from router.app.keys import Answer, Keys, may_have_begun
from router.events import EndJob
from router.policy import Job, Server
from router.protocol.messages import End, Outcome
from tests.unit.router_peers import Router, running, until


async def answered(response: Any) -> tuple[int, Any]:
    return response.status, await response.json()


def post(router: Router, key: str, **body: Any) -> Any:
    return router.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})


async def test_a_job_that_is_repeated_joins_the_one_in_the_system_and_later_gets_its_answer():
    async with running(retries=3) as router:
        servers = await router.link("slow-1", "slow-2")
        first = router.post({"size": 2.0, "key": "k-1"})
        dispatch = await servers.dispatch()
        second = router.post({"size": 2.0, "key": "k-1"})
        while (await router.metrics())["repeated_keys_total",] == 0:  # noqa: ASYNC110 (only by asking is it seen)
            await sleep(0)
        await servers.end(dispatch, service=1.5)
        status, answer = await answered(await first)
        assert (status, answer["outcome"], answer["service_s"]) == (200, "served", 1.5)
        assert await answered(await second) == (status, answer)
        assert await answered(await post(router, "k-1", size=2.0)) == (status, answer)
        metrics = await router.metrics()
        assert (metrics["dispatches_total", "random"], metrics["repeated_keys_total",], metrics["keys",]) == (1, 2, 1)
        # Another key is another job, and so is none.
        other = router.post({"key": "k-2"})
        await servers.end(await servers.dispatch())
        assert (await other).status == 200


async def test_it_is_tried_again_only_if_it_certainly_never_began():
    async with running("round_robin", retries=1) as router:
        servers = await router.link("slow-1", "slow-2", "slow-3")
        job = router.post({"key": "a"})
        first = await servers.dispatch()
        await servers.end(first, outcome="failed", reason="server", service=0.0)
        second = await servers.dispatch()
        assert second.server != first.server
        await servers.end(second)
        assert (await job).status == 200
        # In service when its link is lost: it may have been served, so that is its end, for whoever repeats it too.
        job = router.post({"key": "b"})
        plain = router.post()
        await servers.dispatch()
        await servers.dispatch()
        others = await router.link("fast-1", process="fake-2")
        await servers.ws.close()
        await others.end(await others.dispatch())  # the one without a key
        assert (await plain).status == 200
        status, answer = await answered(await job)
        assert (status, answer["reason"]) == (502, "link_lost")
        assert await answered(await post(router, "b")) == (status, answer)


async def test_a_job_that_never_began_may_be_sent_again():
    async with running() as router:
        assert (await post(router, "k")).status == 503  # no server
        servers = await router.link("slow-1")
        for outcome, reason, status in (("blocked", "", 503), ("failed", "server", 502), ("abandoned", "", 504)):
            job = router.post({"key": "k"})
            await servers.end(await servers.dispatch(), outcome=outcome, reason=reason, service=0.0)
            assert (await job).status == status
        job = router.post({"key": "k"})
        await servers.end(await servers.dispatch())
        assert (await job).status == 200


@pytest.mark.parametrize(
    ("body", "header", "status", "says"),
    [
        ({"key": "k", "size": 2.0}, None, 409, "belongs to a job of size 1"),
        ({"key": "k", "patience": 2.0}, None, 409, "belongs to a job of size 1"),
        ({"key": ""}, None, 400, "1 to 200 printable"),
        ({"key": "x" * 201}, None, 400, "1 to 200 printable"),
        ({"key": "ü"}, None, 400, "1 to 200 printable"),
        ({"key": 7}, None, 400, "1 to 200 printable"),
        ({"key": "one"}, "other", 400, "give one of them"),
        ({"key": "one", "keys": 1}, None, 400, "unknown key"),
    ],
)
async def test_a_wrong_key_is_refused_and_changes_nothing(body: Any, header: str | None, status: int, says: str):
    async with running() as router:
        servers = await router.link("slow-1")
        job = router.post({"key": "k"})
        dispatch = await servers.dispatch()
        headers = {} if header is None else {"Idempotency-Key": header}
        async with router.client.post("/v1/jobs", json=body, headers=headers) as response:
            assert response.status == status
            assert says in (await response.json())["error"]["message"]
        await servers.end(dispatch)
        assert (await job).status == 200
        assert router.app.driver.core.tally.arrivals == 1


async def test_answers_are_kept_for_a_time_and_no_more_than_so_many():
    keys = Keys(most=2, kept_s=10.0)
    job, end = (1.0, None), End("s-0", "r", 1, "served", "", 0.0, 0.0, 1.0, False, None, None)
    effect = EndJob(Job(1), "served", "", Server("s-0", "p", 1.0, 1, 1.0), end, "random", False)

    def serve(key: str, now: float) -> None:
        assert keys.find(key, job, now) is None
        keys.begin(key, job, get_running_loop().create_future())
        keys.ended(key, effect, Answer(200, b"{}"), now)

    serve("a", 0.0)
    assert keys.find("a", job, 9.9) is not None
    assert keys.find("a", job, 10.0) is None and len(keys) == 0
    for number, key in enumerate("abc"):
        serve(key, 20.0 + number)
    assert keys.find("a", job, 23.0) is None and keys.find("b", job, 23.0) is not None and len(keys) == 2


@pytest.mark.parametrize(
    ("outcome", "reason", "service", "begun"),
    [
        ("served", "", 0.0, True),
        ("served", "", 1.0, True),
        ("failed", "link_lost", None, True),
        ("failed", "unaccounted", None, True),
        ("failed", "server", 0.5, True),
        ("abandoned", "", 0.5, True),
        ("abandoned", "", 0.0, False),
        ("failed", "server", 0.0, False),
        ("failed", "no_server", None, False),
        ("failed", "ceiling", None, False),
        ("blocked", "", 0.0, False),
    ],
)
def test_whether_the_service_of_a_job_may_have_begun(outcome: Outcome, reason: str, service: Any, begun: bool):
    end = None if service is None else End("s", "r", 1, outcome, reason, 0.0, 0.0, service, False, None, None)
    assert may_have_begun(EndJob(Job(1), outcome, reason, None, end, "random", False)) == begun


async def test_two_headers_with_different_keys_are_refused():
    async with running() as router:
        headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        async with router.client.post("/v1/jobs", headers=headers) as response:
            status, answer = await answered(response)
        assert (status, answer["error"]["kind"]) == (400, "job")
        assert "several values" in answer["error"]["message"]
        assert (await router.metrics())["refusals_total", "http", "job"] == 1


async def test_aborted_clients_of_jobs_leave_no_tasks_and_each_end_counts_as_unheard():
    async with running() as router:
        servers = await router.link("slow-1")
        runner: Any = router.client.server.runner
        http = runner.server

        def connected() -> int:
            return sum(connection.transport is not None for connection in http.connections)

        tasks, before = len(all_tasks()), connected()
        writers = []
        for number in range(20):
            _, writer = await open_connection("127.0.0.1", router.client.port)
            body = b'{"key": "k%d"}' % number if number % 2 else b"{}"
            head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body)
            writers.append(writer)
        dispatches = [await servers.dispatch() for _ in writers]
        for writer in writers:
            writer.transport.abort()
        await until(lambda: connected() == before)
        for dispatch in dispatches:
            await servers.end(dispatch)
        await until(lambda: router.app.driver.counts.unheard["http"] == 20)
        await until(lambda: len(all_tasks()) <= tasks)


async def test_a_size_beyond_the_limit_is_told_the_limit():
    async with running() as router:
        status, answer = await answered(await router.post({"size": 1e308}))
    assert status == 400 and answer["error"]["message"].endswith("expected a number from 0, below 1e15")
