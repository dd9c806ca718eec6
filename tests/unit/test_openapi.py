"""What the descriptions promise is what the processes do: every route, every status, every body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from aiohttp import ClientSession, web
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import router.openapi
import server.openapi
from router.app.metrics import HTTP_REFUSALS
from router.protocol.errors import SettingsError
from router.protocol.http import MAX_BODY_BYTES, MAX_JOB_BYTES
from router.registry import make_policy, policy_names
from tests.property.variants import tables as variants
from tests.unit import router_peers, server_peers
from tests.unit.described import Key
from tests.unit.test_policy_errors import Broken

TABLES = variants()
ROUTER, SERVER = router.openapi.description(), server.openapi.description()


def operations(description: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, found in description["paths"].items()
        for method, operation in found.items()
    }


def routes(app: web.Application) -> set[tuple[str, str]]:
    """What the application serves; HEAD comes with each GET, as the descriptions say."""
    return {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }


async def test_every_route_is_described_and_nothing_else() -> None:
    async with router_peers.running() as of_router, server_peers.running(server_peers.FakeRouter()) as of_server:
        assert routes(of_router.app.web) == set(operations(ROUTER))
        assert routes(of_server.server.app) == set(operations(SERVER))


@pytest.mark.parametrize("description", [ROUTER, SERVER], ids=["router", "server"])
def test_what_needs_the_token_may_be_refused(description: dict[str, Any]) -> None:
    for (method, path), operation in operations(description).items():
        assert operation["security"] == ([{"token": []}] if "401" in operation["responses"] else []), path
        assert operation["security"] or method == "GET", path


def test_every_refusal_that_a_router_counts_is_described() -> None:
    text = json.dumps(ROUTER["paths"])
    assert [kind for kind in HTTP_REFUSALS if f'"{kind}"' not in text] == []


# -- every answer that is described is given -----------------------------------------------------

HANDSHAKE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip


PAGE = {"Origin": "http://elsewhere.example"}


async def ask(
    client: Any, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> int:
    async with client.request(method, path, data=body, headers=headers) as response:
        await response.read()
        return int(response.status)


async def slowly() -> AsyncIterator[bytes]:
    """A body of which no more than the beginning comes."""
    yield b"{"
    await asyncio.Event().wait()


async def test_a_router_gives_every_answer_that_is_described() -> None:
    seen: set[Key] = set()
    async with router_peers.running(max_links=1, max_streams=1, max_policy_changes=len(TABLES)) as one:
        for path in ("/v1/servers", "/v1/policy", "/health", "/ready", "/metrics", "/openapi.json"):
            await ask(one.client, "GET", path)
        assert await ask(one.client, "GET", "/metrics", headers={"Accept": "application/openmetrics-text"}) == 200
        assert await ask(one.client, "POST", "/v1/jobs") == 503  # no server
        for (method, path), operation in operations(ROUTER).items():
            refused = await ask(one.client, method, path, headers=PAGE) == 403
            assert refused == bool(operation["security"]), path
        peer = await one.link("slow-1")
        assert await ask(one.client, "GET", "/ready") == 200
        assert await ask(one.client, "GET", "/v1/servers") == 200
        for outcome in ("served", "blocked", "abandoned", "failed"):
            posted = one.post({"size": 1.5, "patience": None})
            await peer.end(await peer.dispatch(), outcome=outcome, reason="unplugged" if outcome == "failed" else "")
            await posted
        keyed = one.post({"key": "k"})
        held = await peer.dispatch()
        assert await ask(one.client, "POST", "/v1/jobs", b'{"size": 2}', {"Idempotency-Key": "k"}) == 409
        await peer.end(held)
        await keyed
        await one.stream()
        for path in ("/v1/link", "/v1/stream"):
            assert await ask(one.client, "GET", path) == 400
            assert await ask(one.client, "GET", path, headers=HANDSHAKE) == 503
        assert await ask(one.client, "POST", "/v1/jobs", b"{") == 400
        assert await ask(one.client, "POST", "/v1/jobs", b" " * (MAX_JOB_BYTES + 1)) == 413
        assert await ask(one.client, "PUT", "/v1/policy", b'{"name": "best"}') == 400
        assert await ask(one.client, "PUT", "/v1/policy", b" " * (MAX_BODY_BYTES + 1)) == 413
        for table in TABLES:
            assert await ask(one.client, "PUT", "/v1/policy", json.dumps(table).encode()) == 200
            await ask(one.client, "GET", "/v1/policy")
        one.app.driver.switch(Broken("on_arrival"))
        assert await ask(one.client, "POST", "/v1/jobs") == 500
        seen |= one.described.seen
    async with router_peers.running(max_policy_changes=1, http={"body_limit_s": 0.01}) as strict:
        for method, path in (("POST", "/v1/jobs"), ("PUT", "/v1/policy")):
            async with strict.client.request(method, path, data=slowly()) as response:
                assert response.status == 408
        while await ask(strict.client, "PUT", "/v1/policy", b'{"name": "random"}') != 429:
            pass
        seen |= strict.described.seen
    async with router_peers.running(token="the-token-of-this-test") as guarded:
        for method, path in operations(ROUTER):
            await ask(guarded.client, method, path)
        seen |= guarded.described.seen
    assert seen == one.described.statuses


async def test_the_fast_path_answers_as_described() -> None:
    async with router_peers.running(fast_path=True) as one:
        peer = await one.link("slow-1")
        for outcome, status in (("served", 200), ("blocked", 503), ("abandoned", 504), ("failed", 502)):
            posted = one.post({"size": 1.5})
            await peer.end(await peer.dispatch(), outcome=outcome, reason='"no plug"' if outcome == "failed" else "")
            response = await posted
            one.described.check("POST", "/v1/jobs", response, await response.read())
            assert ("POST", "/v1/jobs", status) in one.described.seen
        one.app.driver.switch(Broken("on_arrival"))
        response = await one.post({})
        one.described.check("POST", "/v1/jobs", response, await response.read())
        assert ("POST", "/v1/jobs", 500) in one.described.seen


async def test_a_server_process_gives_every_answer_that_is_described() -> None:
    seen: set[Key] = set()
    peer = server_peers.FakeRouter()
    async with server_peers.running(peer) as one, ClientSession(one.server.make_url("/")) as client:
        assert await ask(client, "GET", "/ready") == 503
        await peer.linked()
        while await ask(client, "GET", "/ready") != 200:
            pass
        for path in ("/v1/servers", "/health", "/metrics", "/openapi.json"):
            assert await ask(client, "GET", path) == 200
        for (method, path), good in GOOD.items():
            assert await ask(client, method, path.replace("{id}", "slow-1"), good, PAGE) == 403
            assert await ask(client, method, path.replace("{id}", "slow-1"), good) == 200
            for body, status in ((b"{", 400), (b" " * (MAX_BODY_BYTES + 1), 413)):
                assert await ask(client, method, path.replace("{id}", "slow-1"), body) == status
            if "{id}" in path:
                assert await ask(client, method, path.replace("{id}", "fast-1"), good) == 404
        seen |= one.described.seen
    peer = server_peers.FakeRouter()
    async with (
        server_peers.running(peer, http={"body_limit_s": 0.01}) as strict,
        ClientSession(strict.server.make_url("/")) as client,
    ):
        for method, path in GOOD:
            async with client.request(method, path.replace("{id}", "slow-1"), data=slowly()) as response:
                assert response.status == 408
        seen |= strict.described.seen
    peer = server_peers.FakeRouter()
    async with (
        server_peers.running(peer, token="the-token-of-this-test") as guarded,
        ClientSession(guarded.server.make_url("/")) as client,
    ):
        for method, path in operations(SERVER):
            await ask(client, method, path.replace("{id}", "slow-1"))
        seen |= guarded.described.seen
    assert seen == one.described.statuses


GOOD = {
    ("POST", "/v1/drain"): b'{"servers": ["slow-1"]}',
    ("PUT", "/v1/servers/{id}"): b'{"rate": 2}',
    ("PUT", "/v1/servers/{id}/disturbance"): b'{"slow": 2}',
}
"""A body for each order that a server process takes."""


# -- a body is taken exactly if its schema allows it ---------------------------------------------

numbers = st.integers(-3, 10**16) | st.floats() | st.sampled_from([0, -0.0, 1e15, 10**15 - 1, 2**63, 10**400])
# In Python `$` also stands before a last line feed; where the schemas' patterns come from it does not.
texts = st.text(max_size=3).filter(lambda text: not text.endswith("\n"))
words = st.sampled_from(["inf", "vacancy", "optimal", "all", "random", "rate", ""]) | texts
leaves = st.none() | st.booleans() | numbers | words
values = leaves | st.lists(leaves, max_size=3) | st.dictionaries(words, leaves, max_size=1)


def allowed(schema: dict[str, Any], value: Any) -> bool:
    return Draft202012Validator(schema | {"components": ROUTER["components"]}).is_valid(value)


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@given(st.lists(st.dictionaries(st.sampled_from(["size", "patience", "key", "more"]), values) | values, min_size=20))
@settings(max_examples=15)
async def test_a_job_is_taken_exactly_if_its_schema_allows_it(bodies: list[Any]) -> None:
    schema = operations(ROUTER)["POST", "/v1/jobs"]["requestBody"]["content"]["application/json"]["schema"]
    async with router_peers.running() as one:
        for body in filter(is_json, bodies):
            text = json.dumps(body).encode()
            if len(text) <= MAX_JOB_BYTES:
                taken = await ask(one.client, "POST", "/v1/jobs", text) == 503  # there is no server
                assert taken == allowed(schema, body), body


def keys() -> list[str]:
    schemas = [ROUTER["components"]["schemas"][f"Policy_{name}"] for name in policy_names()]
    return sorted({key for schema in schemas for key in schema["properties"]})


parameters = st.dictionaries(st.sampled_from(keys()), values, max_size=2)
tables = st.builds(lambda name, rest: {"name": name, **rest}, st.sampled_from(policy_names()), parameters)


@given(tables | st.sampled_from(TABLES))
@example({})
@example({"name": "best"})
def test_a_policy_is_taken_exactly_if_its_schema_allows_it(table: dict[str, Any]) -> None:
    try:
        make_policy(table, Random(1))
        taken = True
    except SettingsError:
        taken = False
    known = allowed({"$ref": "#/components/schemas/Policy"}, table)
    # A whole number written with a point is one to JSON Schema alone, and `optimal` needs the whole scenario.
    beyond = (
        any(type(value) is float and value.is_integer() for value in table.values())
        or table.get("weights") == "optimal"
    )
    assert taken == known or (beyond and known)
