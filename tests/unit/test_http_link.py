"""A generator that sends one request a job makes sure first that a router is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from router.protocol.errors import TransportError
from services.loadgen.client.book import RunningBook
from services.loadgen.client.links import HttpLink
from tests.unit.router_peers import running

Handler = Callable[[web.Request], Awaitable[web.Response]]


async def as_a_server_process(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def as_a_page(request: web.Request) -> web.Response:
    return web.Response(text="<h1>It works!</h1>", content_type="text/html")


@pytest.mark.parametrize("handler", [as_a_server_process, as_a_page])
async def test_what_is_no_router_is_told_from_one(handler: Handler) -> None:
    app = web.Application()
    app.router.add_get("/health", handler)
    async with TestServer(app) as server, ClientSession() as session:
        url = str(server.make_url("")).rstrip("/")
        with pytest.raises(TransportError, match=f"router {url}: "):
            await HttpLink.connect(session, url, RunningBook([], 0.1))


async def test_where_nobody_listens_that_is_said() -> None:
    async with ClientSession() as session:
        with pytest.raises(TransportError, match=r"router http://127\.0\.0\.1:1: no answer as of a router"):
            await HttpLink.connect(session, "http://127.0.0.1:1", RunningBook([], 0.1))


async def test_a_router_is_one() -> None:
    async with running() as router:
        url = str(router.client.make_url("")).rstrip("/")
        link = await HttpLink.connect(router.client.session, url, RunningBook([], 0.1))
        assert link.url == url
        await link.close()
