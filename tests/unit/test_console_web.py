"""The console over HTTP: its files and headers, who may change something, and what bodies are taken."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from router.process.access import TOKEN as VARIABLE
from router.process.access import TOKEN_FILE as VARIABLE_OF_FILE
from services.console.controls import HIGHEST_LOAD, MOST_ADDED, Controls, Refused, allowed
from services.console.security import TOKEN_HEADER, PageAccess, host_fault
from services.console.viewers import Viewers
from services.console.web import ConsoleWeb, read_files
from tests.unit.console_peers import LOAD, ROUTERS, SERVERS, Cluster, collector, watch

TOKEN = "a token"
JSON = {"Content-Type": "application/json", TOKEN_HEADER: TOKEN}
Client = TestClient[web.Request, web.Application]


class Site:
    """A console whose controls only note what is asked for."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []
        self.viewers = Viewers(lambda: {"token": TOKEN})
        self.ready = True

    async def carry_out(self, action: str, body: Any) -> dict[str, Any]:
        self.done.append((action, body))
        if body == "refuse":
            raise Refused(400, "why not")
        if body == "break":
            raise ValueError("ours")
        return {"done": action}

    def application(self) -> web.Application:
        access = PageAccess(None, TOKEN)
        return ConsoleWeb(self.viewers, self.carry_out, access, ("console.example",), lambda: self.ready).application()


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    async with TestClient(TestServer(site.application())) as made:
        yield made


# -- files ----------------------------------------------------------------------------------------


async def test_every_file_comes_with_headers_that_let_nothing_else_in(client: Client) -> None:
    for path in ["/", *read_files(), "/nothing", "/health"]:
        async with client.get(path) as response:
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy and "http" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_page_needs_nothing_that_the_policy_forbids_and_nothing_from_elsewhere(client: Client) -> None:
    page = await (await client.get("/")).text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page) == []
    linked = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert len(linked) >= 5
    for path in linked:
        async with client.get("/" + path) as response:
            assert response.status == 200, path
    for path, (body, _) in read_files().items():
        if path.startswith(("/js", "/css", "/index")):
            text = body.decode()
            assert "://" not in text, path
            for imported in re.findall(r'from "([^"]+)"', text):
                assert (files("services.console") / "static" / "js" / imported).is_file(), imported


async def test_the_page_says_where_the_token_is() -> None:
    page = read_files()["/index.html"][0].decode()
    for name in ("--token-file", VARIABLE_OF_FILE, VARIABLE, "herdless token FILE"):
        assert f"<code>{name}</code>" in page


async def test_what_is_vendored_has_its_licence_beside_it() -> None:
    vendored = {path.split("/")[2] for path in read_files() if path.startswith("/vendor/")}
    assert vendored == {"uplot"}
    assert b"MIT License" in read_files()["/vendor/uplot/LICENSE"][0]


@pytest.mark.parametrize(
    "path",
    ["/../web.py", "/js/../../web.py", "/%2e%2e/web.py", "/js/%2e%2e/%2e%2e/web.py", "/..%2fweb.py", "//etc/passwd",
     "/static/index.html", "/js", "/js/", "/js/main.js%00", "/web.py"],
)  # fmt: skip
async def test_no_path_leads_out_of_the_folder(client: Client, path: str) -> None:
    url = URL(f"http://127.0.0.1:{client.port}{path}", encoded=True)
    async with ClientSession() as session, session.get(url) as response:
        assert response.status == 404
        assert "import" not in await response.text()


async def test_health_and_readiness(client: Client, site: Site) -> None:
    assert (await client.get("/health")).status == 200
    assert (await client.get("/ready")).status == 200
    site.ready = False
    assert (await client.get("/ready")).status == 503


# -- who may --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost:8080", "127.0.0.1:1", "[::1]:80", "10.0.0.7", "console:8080", "a.localhost", "console.example:1",
     "Console.Example", "other.example"],
)  # fmt: skip
def test_hosts_that_may_be_asked_for(host: str) -> None:
    assert host_fault(host, ("console.example", "Other.Example")) == ""


@pytest.mark.parametrize("host", ["", None, "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "1.2.3"])
async def test_other_names_that_lead_here_are_refused(client: Client, host: str | None) -> None:
    assert host_fault(host)
    if host:
        for path in ("/", "/v1/events", "/js/main.js"):
            async with client.get(path, headers={"Host": host}) as response:
                assert response.status == 421
                assert TOKEN not in await response.text()


async def test_what_a_page_of_ours_asks_for_is_done(client: Client, site: Site) -> None:
    own = {"Origin": f"http://127.0.0.1:{client.port}", "Sec-Fetch-Site": "same-origin"}
    async with client.post("/v1/do/load", data='{"load": 0.5}', headers=JSON | own) as response:
        assert (response.status, await response.json()) == (200, {"done": "load"})
    assert site.done == [("load", {"load": 0.5})]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({TOKEN_HEADER: "another"}, 403),
        ({TOKEN_HEADER: ""}, 403),
        ({TOKEN_HEADER: "ä"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_what_others_ask_for_is_not_done(
    client: Client, site: Site, headers: dict[str, str], status: int
) -> None:
    async with client.post("/v1/do/kill", data="{}", headers=JSON | headers) as response:
        assert response.status == status
        assert (await response.json())["error"]["kind"] == {403: "page", 421: "host"}[status]
    assert site.done == []


async def say(client: Client, words: bytes) -> bytes:
    """The answer to a request of these words."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(words.replace(b"\n", b"\r\n"))
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_token_that_is_no_text_is_not_of_this_console(client: Client) -> None:
    head = b"POST /v1/login HTTP/1.1\nHost: 127.0.0.1\nConnection: close\nContent-Length: 2\n"
    answer = await say(client, head + b"Content-Type: application/json\nX-Herdless-Token: \xff\n\n{}")
    assert answer.startswith(b"HTTP/1.1 403 ") and TOKEN_HEADER.encode() in answer


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [("load", b"{", 400, "json"), ("load", b"\xff", 400, "json"), ("load", b"[" * 20_000, 400, "json"),
     ("load", b" " * 70_000, 413, "too_long"), ("load", b'"refuse"', 400, "request"),
     ("load", b'"break"', 500, "internal"), ("load/more", b"{}", 405, "method")],
)  # fmt: skip
async def test_requests_that_are_not_understood(client: Client, path: str, body: bytes, status: int, kind: str) -> None:
    async with client.post(f"/v1/do/{path}", data=body, headers=JSON) as response:
        assert response.status == status
        error = (await response.json())["error"]
        assert error["kind"] == kind and error["message"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


async def test_a_stream_begins_with_hello_and_ends_with_the_console(client: Client, site: Site) -> None:
    async with client.get("/v1/events") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert await response.content.readuntil(b"\n\n") == b'event: hello\ndata: {"token":"a token"}\n\n'
        site.viewers.tell("queues", {"q": [1]})
        assert await response.content.readuntil(b"\n\n") == b'event: queues\ndata: {"q":[1]}\n\n'
        site.viewers.end_all()
        assert await response.content.read() == b""
    assert site.viewers.open == set()


async def test_who_asks_for_the_head_of_a_stream_gets_no_more_and_has_no_page_open(client: Client, site: Site) -> None:
    answer = await say(client, b"HEAD /v1/events HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and b"text/event-stream" in answer
    assert answer.partition(b"\r\n\r\n")[2] == b"" and site.viewers.open == set()


async def test_a_page_that_does_not_read_is_cut_off(client: Client, site: Site) -> None:
    async with client.get("/v1/events") as response:
        (viewer,) = site.viewers.open
        # Megabytes fill what the kernel and the transport take; then the queue of that viewer, and no more.
        for _ in range(200):
            site.viewers.tell("queues", {"q": "0" * 1_000_000})
            if viewer.dropped:
                break
            await asyncio.sleep(0)
        assert viewer.dropped and site.viewers.dropped == 1 and site.viewers.open == set()
        with pytest.raises(ClientError):
            await response.content.read()


# -- what is asked for ----------------------------------------------------------------------------


def controls(cluster: Cluster, **can: bool) -> Controls:
    looking = collector(cluster)
    places = {url: {"servers": cluster._of_process(cluster.name(url))} for url in SERVERS}
    looking.fleet.see_servers(SERVERS, places)
    return Controls(cluster, cluster, watch(), looking, cluster, allowed(True, False, True) | can)


async def test_a_policy_goes_to_all_routers() -> None:
    cluster = Cluster()
    table = {"name": "power_of_d", "d": 3}
    await controls(cluster).carry_out("policy", table)
    assert cluster.sent == [("PUT", f"{url}/v1/policy", table) for url in ROUTERS]


async def test_the_load_goes_to_the_generators() -> None:
    cluster = Cluster()
    assert await controls(cluster).carry_out("load", {"load": 0.7}) == {"load": 0.7}
    assert cluster.sent == [("PUT", f"{LOAD}/v1/load", {"load": 0.7})]


async def test_one_server_or_a_process_is_drained_killed_or_added() -> None:
    cluster = Cluster()
    doing = controls(cluster)
    await doing.carry_out("drain", {"server": "slow-9"})
    await doing.carry_out("drain", {"process": SERVERS[1]})
    await doing.carry_out("kill", {"process": SERVERS[1]})
    await doing.carry_out("add", {"pool": "fast", "servers": 4})
    assert cluster.sent == [
        ("POST", f"{SERVERS[0]}/v1/drain", {"servers": ["slow-9"]}),
        ("POST", f"{SERVERS[1]}/v1/drain", None),
    ]
    assert (cluster.killed, cluster.added) == ([SERVERS[1]], [("fast", 4)])


@pytest.mark.parametrize(
    ("action", "body", "status"),
    [
        ("policy", None, 400),
        ("policy", [], 400),
        ("policy", {"name": 3}, 400),
        ("policy", {"name": "best"}, 400),
        ("policy", {"name": "power_of_d", "d": 0}, 400),
        ("policy", {"name": "power_of_d", "d": 9}, 400),  # of five servers
        ("policy", {"name": "random", "d": 2}, 400),
        ("load", {}, 400),
        ("load", {"load": -0.1}, 400),
        ("load", {"load": HIGHEST_LOAD + 1}, 400),
        ("load", {"load": float("nan")}, 400),
        ("load", {"load": True}, 400),
        ("load", {"load": "1"}, 400),
        ("load", {"load": 1, "more": 1}, 400),
        ("drain", {"server": "slow-99"}, 404),
        ("drain", {"server": ["slow-9"]}, 404),
        ("drain", {"process": "http://elsewhere"}, 404),
        ("drain", {"process": {}}, 404),
        ("drain", {}, 400),
        ("kill", {"process": ROUTERS[0]}, 404),
        ("kill", {"process": 1}, 404),
        ("add", {"pool": "fast"}, 400),
        ("add", {"pool": "huge", "servers": 1}, 400),
        ("add", {"pool": ["fast"], "servers": 1}, 400),
        ("add", {"pool": "fast", "servers": 0}, 400),
        ("add", {"pool": "fast", "servers": MOST_ADDED + 1}, 400),
        ("add", {"pool": "fast", "servers": True}, 400),
        ("add", {"pool": "fast", "servers": 1.5}, 400),
        ("carry_out", {}, 404),
        ("nothing", {}, 404),
    ],
)
async def test_a_wrong_body_changes_nothing(action: str, body: Any, status: int) -> None:
    cluster = Cluster()
    with pytest.raises(Refused) as refusal:
        await controls(cluster).carry_out(action, body)
    assert refusal.value.status == status and len(str(refusal.value)) > 10
    assert (cluster.sent, cluster.killed, cluster.added) == ([], [], [])


@pytest.mark.parametrize("action", ["policy", "load", "drain", "kill", "add"])
async def test_what_a_console_may_not_do_it_does_not(action: str) -> None:
    cluster = Cluster()
    with pytest.raises(Refused, match="may not") as refusal:
        await controls(cluster, **{action: False}).carry_out(action, {"process": SERVERS[0]})
    assert refusal.value.status == 403
    assert (cluster.sent, cluster.killed) == ([], [])


def test_a_cluster_of_others_is_neither_killed_nor_grown() -> None:
    assert allowed(False, False, True) == {"policy": True, "load": True, "drain": True, "kill": False, "add": False}
    assert not any(allowed(True, True, True).values())
    assert not allowed(True, False, False)["load"]


@pytest.mark.parametrize(("answer", "status"), [((400, "no"), 400), ((503, "no"), 502)])
async def test_a_refusal_of_a_process_is_handed_on(answer: tuple[int, str], status: int) -> None:
    cluster = Cluster()
    cluster.refusal = answer[0], {"error": {"kind": "settings", "message": answer[1]}}
    with pytest.raises(Refused, match="no") as refusal:
        await controls(cluster).carry_out("load", {"load": 0.1})
    assert refusal.value.status == status
