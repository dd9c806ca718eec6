"""What is refused without the token, and changes nothing; and that our own clients have it."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from aiohttp import ClientResponseError, ClientSession, WSServerHandshakeError, web
from aiohttp.test_utils import TestClient, TestServer

from router.process.access import TOKEN, Access
from router.process.client import failure, open_session
from router.process.web import Route, application, looking, reply
from router.protocol.errors import SettingsError
from router.protocol.notices import encode_notice
from router.protocol.stream import Request
from services.console.security import TOKEN_HEADER, PageAccess
from services.console.viewers import Viewers
from services.console.web import ConsoleWeb
from services.lab.attach import put_policy
from services.lab.exporter import make_application as make_exporter
from services.loadgen.client.book import RunningBook
from services.loadgen.client.endless import Endless, Schedule
from services.loadgen.client.endless_process import LoadWeb
from services.loadgen.client.links import HttpLink, StreamLink
from services.scenario import parse_scenario
from services.scenarios import shipped
from tests.tidy.tree import PACKAGES, ROOT, python_files
from tests.unit.console_peers import watch
from tests.unit.router_peers import Router, hello, running, until
from tests.unit.server_peers import FakeRouter, settings
from tests.unit.server_peers import Process as ServerProcess

SECRET = "Zm9vYmFyLWZvb2Jhci1mb29iYXI"
RIGHT = {"Authorization": f"Bearer {SECRET}"}
WRONG = {
    "no token": {},
    "another one": {"Authorization": "Bearer " + SECRET[::-1]},
    "a part of it": {"Authorization": "Bearer " + SECRET[:-1]},
    "more than it": {"Authorization": f"Bearer {SECRET}x"},
    "nothing": {"Authorization": "Bearer "},
    "another scheme": {"Authorization": f"Basic {SECRET}"},
    "no scheme": {"Authorization": SECRET},
    "no text": {"Authorization": "Bearer Zm9v\udcff"},
    "in another header": {"X-Herdless-Token": SECRET},
}


# -- the token ------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_nothing_but_the_token_is_let_in(headers: dict[str, str]) -> None:
    assert not Access(SECRET).allows(headers)
    assert Access(None).allows(headers)


def test_what_clients_send_is_let_in_and_nothing_else_shows_it() -> None:
    access = Access(SECRET)
    assert access.headers() == RIGHT
    assert access.allows(RIGHT) and access.allows({"Authorization": f"bearer  {SECRET}"})
    assert Access(None).headers() == {}
    assert SECRET not in f"{access!r} {access}"


# -- what is refused --------------------------------------------------------------------------------

LOOKING = frozenset(
    ("/health", "/ready", "/metrics", "/openapi.json", "/v1/servers", "/v1/policy", "/v1/load", "/v1/model",
     "/v1/events", "/{path}")
)  # fmt: skip
"""What SECURITY.md says may be read by everybody, of any process: the last one is the page of the console."""


def closed_routes(app: web.Application) -> list[tuple[str, str]]:
    """Method and path of everything that needs the token."""
    routes = [(route.method, route.resource.canonical) for route in app.router.routes() if route.resource]
    return [(method, path) for method, path in routes if not (method in ("GET", "HEAD") and path in LOOKING)]


async def check_doors(client: TestClient[Any, Any], app: web.Application) -> int:
    """Every route but those for looking refuses everybody without the token; how many requests were refused."""
    refused = 0
    for method, path in closed_routes(app):
        for headers in ({}, WRONG["another one"]):
            there = path.replace("{id}", "slow-1").replace("{action}", "drain")
            async with client.request(method, there, headers=headers, data=b"no JSON at all") as response:
                assert (response.status, method, path) == (401, method, path)
                assert response.headers["WWW-Authenticate"] == 'Bearer realm="herdless"'
                if method != "HEAD":
                    error = (await response.json())["error"]
                    assert error["kind"] == "token" and "expected the header Authorization" in error["message"]
                refused += 1
    for path in LOOKING & {route.resource.canonical for route in app.router.routes() if route.resource}:
        async with client.get(path.replace("{path}", "")) as response:
            assert response.status in (200, 503), path
    return refused


def test_it_is_written_down_what_everybody_may_read() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert [path for path in LOOKING - {"/{path}"} if f"`{path}`" not in text] == []


async def test_a_route_that_says_nothing_of_it_is_guarded() -> None:
    async def answer(_: web.Request) -> web.Response:
        return reply("here")

    app = application((Route("GET", "/v1/new", answer), looking("/v1/open", answer)), Access(SECRET))
    async with TestClient(TestServer(app)) as client:
        for path, status in (("/v1/new", 401), ("/v1/open", 200)):
            assert (await client.get(path)).status == (await client.head(path)).status == status
        assert (await client.get("/v1/new", headers=RIGHT)).status == 200
        assert (await client.post("/v1/open")).status == 405


async def test_a_router_lets_look_and_nothing_else() -> None:
    async with running("jsq", token=SECRET) as router:
        doors = closed_routes(router.app.web)
        assert {("POST", "/v1/jobs"), ("PUT", "/v1/policy"), ("GET", "/v1/link"), ("GET", "/v1/stream")} <= set(doors)
        before = await router.metrics()
        refused = await check_doors(router.client, router.app.web)
        await nothing_has_happened(router, before, refused)


async def nothing_has_happened(router: Router, before: dict[tuple[str, ...], float], refused: int) -> None:
    """The metrics are what they were, but for the refusals."""
    now = await router.metrics()
    changed = {key for key in now if now[key] != before.get(key) and not key[0].startswith("process_")}
    assert {key[0] for key in changed} == {"refusals_total"}
    assert sum(now[key] - before.get(key, 0.0) for key in changed) == refused
    assert {key[-1] for key in changed} == {"token"}
    assert (await router.get("/v1/policy"))["name"] == "jsq"


async def test_websockets_of_strangers_are_refused_before_they_open() -> None:
    async with running("jsq", token=SECRET) as router:
        before = await router.metrics()
        for path in ("/v1/link", "/v1/stream"):
            for headers in ({}, WRONG["another one"]):
                with pytest.raises(WSServerHandshakeError) as error:
                    await router.client.ws_connect(path, headers=headers)
                assert error.value.status == 401
        await nothing_has_happened(router, before, 4)
        now = await router.metrics()
        assert [now["refusals_total", peer, "token"] for peer in ("server", "generator", "http")] == [2, 2, 0]


async def test_without_a_token_web_pages_may_look_and_nothing_else() -> None:
    page = {"Origin": "http://evil.example"}
    async with running("jsq") as router:
        before = await router.metrics()
        for method, path in closed_routes(router.app.web):
            if method != "HEAD":
                async with router.client.request(method, path, headers=page, json={"name": "random"}) as response:
                    assert (response.status, (await response.json())["error"]["kind"]) == (403, "page")
        for path in ("/v1/link", "/v1/stream"):
            with pytest.raises(WSServerHandshakeError) as error:
                await router.client.ws_connect(path, headers=page)
            assert error.value.status == 403
        async with router.client.get("/v1/policy", headers=page) as response:
            assert (await response.json())["name"] == "jsq"
        now = await router.metrics()
        assert {key: now[key] for key in now if now[key] != before[key] and not key[0].startswith("process_")} == {
            ("refusals_total", "server", "page"): 2.0,
            ("refusals_total", "generator", "page"): 2.0,
            ("refusals_total", "http", "page"): 2.0,
        }
    async with running("jsq", token=SECRET) as router:
        response = await router.client.put("/v1/policy", json={"name": "random"}, headers=page | RIGHT)
        assert response.status == 200


async def test_whoever_has_the_token_may_do_everything() -> None:
    async with running("jsq", token=SECRET) as router:
        link = await router.client.ws_connect("/v1/link", headers=RIGHT)
        await link.send_bytes(encode_notice(hello("slow-1")))
        await until(lambda: len(router.app.driver.core.servers) == 1)
        stream = await router.client.ws_connect("/v1/stream", headers=RIGHT)
        assert await stream.receive_bytes(timeout=10)
        async with router.client.put("/v1/policy", json={"name": "random"}, headers=RIGHT) as response:
            assert response.status == 200
        job = asyncio.ensure_future(router.client.post("/v1/jobs", headers=RIGHT))
        await until(lambda: router.app.driver.core.in_flight)
        await link.close()
        assert (await job).status == 502  # link_lost: it was taken in
        await stream.close()


async def test_a_server_process_is_neither_drained_nor_disturbed_by_strangers() -> None:
    router = FakeRouter()
    async with router.server:
        process = ServerProcess(settings(router), token=SECRET)
        async with TestClient(process.server) as client:
            await router.linked()
            cores = list(process.driver.cores.values())
            undisturbed = [core.disturbance for core in cores]
            assert await check_doors(client, process.server.app) >= 4
            assert process.driver.draining == []
            assert [core.disturbance for core in cores] == undisturbed
            async with client.post("/v1/drain", headers=RIGHT) as response:
                assert response.status == 200
            assert len(process.driver.draining) == len(cores) == 2


async def test_the_load_is_changed_by_nobody_without_the_token() -> None:
    scenario = parse_scenario(shipped()["pull"], "pull")
    endless = Endless(Schedule(scenario), RunningBook(["pull"], 0.1), [], 0.1)
    app = LoadWeb(endless, 1.0, Access(SECRET)).application()
    rate = endless.rate_total
    async with TestClient(TestServer(app)) as client:
        assert await check_doors(client, app) == 2
        async with client.put("/v1/load", json={"load": 0.0}) as response:
            assert (response.status, endless.rate_total) == (401, rate)
        async with client.get("/metrics") as response:
            assert 'herdless_load_http_refusals_total{reason="token"} 3.0' in await response.text()
        async with client.put("/v1/load", json={"load": 0.0}, headers=RIGHT) as response:
            assert (response.status, endless.rate_total) == (200, 0.0)


async def test_the_exporter_has_nothing_to_refuse() -> None:
    assert closed_routes(make_exporter(watch(), Access(SECRET))) == []


def console(done: list[str]) -> ConsoleWeb:
    """A console that only notes what it was asked to do."""

    async def carry_out(action: str, body: Any) -> dict[str, Any]:
        done.append(action)
        return {}

    return ConsoleWeb(Viewers(dict), carry_out, PageAccess(SECRET, "page"), (), lambda: True)


async def test_the_console_lets_look_and_nothing_else() -> None:
    done: list[str] = []
    app = console(done).application()
    assert closed_routes(app) == [("POST", "/v1/do/{action}"), ("POST", "/v1/login")]
    async with TestClient(TestServer(app)) as client:
        assert await check_doors(client, app) == 4
    assert done == []


async def test_the_console_asks_for_the_token_before_it_asks_for_a_page_of_its_own() -> None:
    done: list[str] = []
    page = {"Content-Type": "application/json", TOKEN_HEADER: "page"}
    async with TestClient(TestServer(console(done).application())) as client:
        for path in ("/v1/login", "/v1/do/policy", "/v1/do/drain"):
            for headers, status in ((page, 401), (page | WRONG["another one"], 401), (RIGHT, 403)):
                async with client.post(path, json={}, headers=headers) as response:
                    assert (response.status, done) == (status, [])
        async with client.get("/metrics") as response:
            text = await response.text()
        assert 'refusals_total{reason="token"} 6.0' in text and 'refusals_total{reason="page"} 3.0' in text
        elsewhere = page | RIGHT | {"Origin": "http://evil.example"}
        assert (await client.post("/v1/do/policy", json={}, headers=elsewhere)).status == 403
        assert (await client.post("/v1/login", json={}, headers=page | RIGHT)).status == 200
        assert (await client.post("/v1/do/policy", json={}, headers=page | RIGHT)).status == 200
    assert done == ["policy"]


def test_nobody_speaks_to_a_process_but_by_the_session_that_has_the_token() -> None:
    opens = re.compile(r"\bClientSession\(")
    found = [path for path in python_files(*PACKAGES) if opens.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in found] == ["router/process/client.py"]


# -- our own clients ----------------------------------------------------------------------------------


async def test_clients_of_ours_send_the_token_and_never_say_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running("jsq", token=SECRET) as router:
        url = str(router.client.make_url("/")).rstrip("/")
        other = SECRET[::-1]
        for environment, matches in (({}, "no token"), ({TOKEN: other}, "another token")):
            for variable, token in environment.items():
                monkeypatch.setenv(variable, token)
            with pytest.raises(SettingsError, match=f"PUT /v1/policy: {matches}") as error:
                await put_policy([url], {"name": "random"})
            async with open_session() as session:
                with pytest.raises(SettingsError, match=r"no stream of jobs there \(it refuses our token") as refusal:
                    await StreamLink.connect(session, url, RunningBook([], 0.1), "boot")
            assert other not in f"{error.value!r} {refusal.value!r}"
        monkeypatch.setenv(TOKEN, SECRET)
        assert (await put_policy([url], {"name": "random"}))[url] == {"name": "random"}
        async with open_session() as session:
            link = await StreamLink.connect(session, url, RunningBook([], 0.1), "boot")
            await link.close()
    assert SECRET not in caplog.text and other not in caplog.text


async def test_plain_requests_of_the_generator_have_the_token_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("jsq", token=SECRET) as router:
        url = str(router.client.make_url("/")).rstrip("/")
        reasons = []
        for token in (SECRET[::-1], SECRET):
            monkeypatch.setenv(TOKEN, token)
            book = RunningBook([], 0.1)
            async with open_session() as session:
                link = HttpLink(url, book, session)
                link.send([Request(book.sends(0.0, 0.0), 1.0, None)], 0.0)
                await until(lambda book=book: not book.under_way)
                await link.close()
            reasons += [reason for (outcome, reason), count in book.counts.items() if outcome == "failed" and count]
        assert reasons == ["token", "no_server"]


async def test_a_server_process_whose_token_is_refused_says_so_once_and_tries_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = SECRET[::-1]
    monkeypatch.setenv(TOKEN, other)
    async with running("jsq", token=SECRET) as router:
        url = str(router.client.make_url("/"))
        process = ServerProcess(settings(routers=(url,)))
        async with process.server:
            await until(lambda: process.links.counts.failures >= 3)
        assert router.app.driver.core.servers == {}
        assert (await router.metrics())["refusals_total", "server", "token"] >= 3
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1 and "it refuses our token" in told[0]
    assert other not in caplog.text


async def test_the_reason_of_a_failed_request_shows_no_header() -> None:
    async with running("jsq", token=SECRET) as router, ClientSession(headers=RIGHT) as session:
        with pytest.raises(ClientResponseError) as error:
            await session.ws_connect(router.client.make_url("/v1/jobs"))
        assert SECRET in repr(error.value)  # aiohttp shows the headers, which is why `failure` exists
        assert SECRET not in failure(error.value)
