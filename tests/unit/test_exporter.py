"""The model exporter: what it sees of a cluster, and what it makes the models say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from router.process.access import Access
from router.process.limits import CONNECTIONS, Connections
from services.lab.exporter import exporter_metrics, make_application, model_values
from services.lab.watch import Watch
from services.scenario import Scenario, parse_scenario
from services.solver.solution import Prediction, Solution

TEXT = """
name = "queues"
[policy]
name = "random"
[routers]
count = 2
[[pools]]
name = "queue"
servers = 10
[arrivals]
load = 0.5
"""


def scenario() -> Scenario:
    return parse_scenario(TEXT, "queues")


class FakeCluster:
    """A router and a generator in one, which say what the test tells them to.

    Attributes:
        strange: What is answered instead of the servers, if anything.
    """

    def __init__(self, servers: int = 10, policy: str = "random", rate_total: float = 5.0) -> None:
        self.servers = servers
        self.policy = policy
        self.rate_total = rate_total
        self.strange = ""
        app = web.Application()
        app.add_routes([web.get("/v1/policy", self._policy), web.get("/v1/servers", self._servers),
                        web.get("/v1/load", self._load)])  # fmt: skip
        self.server = TestServer(app)

    async def _policy(self, _: web.Request) -> web.Response:
        return web.json_response({"name": self.policy})

    async def _servers(self, _: web.Request) -> web.Response:
        if self.strange:
            return web.Response(text=self.strange, content_type="application/json")
        states = ["live"] * self.servers + ["draining"]
        return web.json_response({"servers": [
            {"id": f"queue-x-{n}", "pool": "queue", "rate": 1.0, "slots": 1, "capacity": "inf", "state": state}
            for n, state in enumerate(states)
        ]})  # fmt: skip

    async def _load(self, _: web.Request) -> web.Response:
        return web.json_response({"rate_total": self.rate_total})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@asynccontextmanager
async def watching(
    *routers: FakeCluster, load: Sequence[FakeCluster] | None = None
) -> AsyncIterator[tuple[Watch, TestClient[Any, Any]]]:
    """An exporter of these routers; `load`: its generators, the first router where nothing is said."""
    generators = routers[:1] if load is None else load
    for each in {*routers, *generators}:
        await each.server.start_server()
    watch = Watch(scenario(), addresses(routers), addresses(generators), look_every_s=0.01)
    try:
        async with TestClient(TestServer(make_application(watch))) as client:
            yield watch, client
    finally:
        for each in {*routers, *generators}:
            await each.server.close()


def addresses(processes: Sequence[FakeCluster]) -> str:
    return ",".join(process.address for process in processes)


async def shown(client: TestClient[Any, Any]) -> dict[tuple[str, str], float]:
    """The values of all quantities without a place in a list, by name and method."""
    text = await (await client.get("/metrics")).text()
    return {
        (sample.labels["quantity"], sample.labels["method"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "herdless_model_value" and not sample.labels["k"]
    }


async def until(client: TestClient[Any, Any], quantity: str, value: float | None) -> None:
    """Wait until the closed form of a quantity has this value, or there is none."""
    async with asyncio.timeout(60):
        while (await shown(client)).get((quantity, "closed")) != (None if value is None else pytest.approx(value)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_models_follow_load_and_size() -> None:
    cluster = FakeCluster()
    async with watching(cluster) as (watch, client):
        await until(client, "sojourn_mean", 2.0)  # M/M/1 at load 0.5: 1 / (1 − 0.5)
        cluster.rate_total = 8.0
        await until(client, "sojourn_mean", 5.0)  # at 0.8
        cluster.servers = 20
        await until(client, "sojourn_mean", 1 / 0.6)  # at 8 / 20 = 0.4
        model = await (await client.get("/v1/model")).json()
        assert (model["load"], model["servers"], model["routers"]) == (0.4, {"queue": 20}, 1)
        assert watch.solves == 3
        assert (await client.get("/ready")).status == 200


async def test_without_a_generator_that_tells_the_planned_rate_holds_whatever_servers_there_are() -> None:
    cluster = FakeCluster(servers=20)
    async with watching(cluster, load=[]) as (_, client):
        await until(client, "sojourn_mean", 1 / 0.75)  # 5 jobs a time unit, planned for 10 servers: load 0.25


async def test_nothing_is_predicted_while_routers_follow_different_policies() -> None:
    one, other = FakeCluster(), FakeCluster()
    async with watching(one, other) as (watch, client):
        await until(client, "sojourn_mean", 2.0)
        other.policy = "round_robin"
        await until(client, "sojourn_mean", None)
        assert await shown(client) == {}
        assert (await client.get("/ready")).status == 503
        assert watch.failures["policies_differ"] > 0
        other.policy = "random"
        await until(client, "sojourn_mean", 2.0)


async def test_a_router_that_does_not_answer_is_left_out_with_its_jobs() -> None:
    one, other = FakeCluster(), FakeCluster()
    async with watching(one, other) as (watch, client):
        await until(client, "sojourn_mean", 2.0)  # load 0.5 at each server
        await other.server.close()
        await until(client, "sojourn_mean", 1 / 0.75)  # half of the jobs reach no server: load 0.25
        assert watch.scenario.routers.count == 1


async def test_nothing_is_predicted_of_a_cluster_that_does_not_answer() -> None:
    cluster = FakeCluster()
    async with watching(cluster) as (watch, client):
        await until(client, "sojourn_mean", 2.0)
        await cluster.server.close()
        await until(client, "sojourn_mean", None)
        assert watch.failures["unreachable"] > 0


async def test_a_model_that_fails_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: Scenario) -> Solution:
        raise TypeError("two of these")

    cluster = FakeCluster()
    async with watching(cluster) as (watch, client):
        await until(client, "sojourn_mean", 2.0)
        with monkeypatch.context() as broken:
            broken.setattr("services.lab.watch.predict", fails)
            cluster.rate_total = 8.0
            await until(client, "sojourn_mean", None)
            assert (await client.get("/ready")).status == 503
            assert watch.failures["model"] > 0 and watch.problem == "two of these"
            assert "model: two of these" in caplog.text and "TypeError" in caplog.text
        await until(client, "sojourn_mean", 5.0)
        assert watch.problem == ""


@pytest.mark.parametrize("strange", ["[" * 100_000, '{"servers": 3}', '{"servers": [{"state": "live", "pool": "queue",'
                         ' "rate": 1, "slots": 1e999}]}'], ids=["deep", "another", "endless"])  # fmt: skip
async def test_a_strange_answer_does_not_end_the_watch(strange: str) -> None:
    cluster = FakeCluster()
    async with watching(cluster) as (watch, client):
        await until(client, "sojourn_mean", 2.0)
        cluster.strange = strange
        await until(client, "sojourn_mean", None)
        assert watch.failures["unreachable"] > 0
        cluster.strange = ""
        await until(client, "sojourn_mean", 2.0)


async def test_nothing_is_predicted_of_a_cluster_where_no_server_takes_jobs() -> None:
    cluster = FakeCluster()
    async with watching(cluster) as (watch, client):
        await until(client, "sojourn_mean", 2.0)
        cluster.servers = 0
        await until(client, "sojourn_mean", None)
        assert watch.failures["scenario"] > 0
        assert (await client.get("/ready")).status == 503


async def test_of_several_generators_those_that_answer_count() -> None:
    cluster, one, other = FakeCluster(), FakeCluster(rate_total=1.0), FakeCluster(rate_total=3.0)
    async with watching(cluster, load=[one, other]) as (_, client):
        await until(client, "sojourn_mean", 1 / 0.6)  # load 0.4
        await other.server.close()
        await until(client, "sojourn_mean", 1 / 0.9)  # load 0.1
        await one.server.close()
        await until(client, "sojourn_mean", 2.0)  # as planned, 0.5


def test_values_are_labelled_by_pool_and_place() -> None:
    def said(value: float | list[float]) -> dict[str, Prediction]:
        return {"exact": Prediction(value, "", "", "", True)}

    solution = Solution(
        {"utilisation.queue": said(0.5), "messages.pull": said(1.0), "queue_tail": said([1.0, 0.5]),
         "queue_tail.queue": said([1.0] * 30)}, ("exact",), {},
    )  # fmt: skip
    values = model_values(scenario(), solution)
    assert values["utilisation", "queue", "", "exact", "random"] == 0.5
    assert values["messages.pull", "", "", "exact", "random"] == 1.0
    assert values["queue_tail", "", "1", "exact", "random"] == 0.5
    # However long a list is, there are 21 series of it: k = 0 … 20.
    assert sum(key[:2] == ("queue_tail", "queue") for key in values) == 21
    assert model_values(scenario(), None) == {}


async def test_what_an_exporter_refuses_is_counted() -> None:
    app = make_application(Watch(scenario(), "127.0.0.1:1"))
    app[CONNECTIONS].refusals["tls"] += 3  # as the acceptor counts handshakes that fail
    async with TestClient(TestServer(app)) as client:
        text = await (await client.get("/metrics")).text()
    assert 'herdless_model_http_refusals_total{reason="tls"} 3.0' in text
    assert 'herdless_model_http_refusals_total{reason="limit"} 0.0' in text


def test_before_the_first_look_it_shows_what_was_planned_and_that_it_has_not_looked() -> None:
    text = exporter_metrics(Watch(scenario(), "127.0.0.1:1"), Access(None), Connections()).exposition()[0].decode()
    assert 'herdless_model_info{parameters="",policy="random",scenario="queues"} 0.0' in text
    assert "herdless_model_load 0.5" in text
    assert json.dumps("closed") not in text
