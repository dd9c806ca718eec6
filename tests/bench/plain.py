"""What is compared with: a straightforward proxy that forwards each job by one HTTP request to an aiohttp server.

As a program it is one of the two: `python -m tests.bench.plain LOOP server`, or `… LOOP proxy URL`; LOOP is `asyncio`,
the loop that aiohttp runs on unless told otherwise, or `uvloop`. The servers serve at once; the proxy draws one of them
at random, of as many as there are in the other contestant.
"""

from __future__ import annotations

import asyncio
import json
import sys
from random import Random

import aiohttp
import uvloop
from aiohttp import web

SERVERS = 100


async def serve_job(request: web.Request) -> web.Response:
    """Take the job's size, answer what ours answers."""
    job = await request.json()
    return web.json_response({"outcome": "served", "server": request.match_info["server"], "service_s": job["size"]})


def make_server() -> web.Application:
    """All servers in one process."""
    application = web.Application()
    application.router.add_post("/servers/{server}/jobs", serve_job)
    return application


def make_proxy(url: str) -> web.Application:
    """Forwards over kept-alive connections, as many as it takes."""
    rng = Random(1)
    application = web.Application()

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        server = int(rng.random() * SERVERS)
        headers = {"Content-Type": "application/json"}
        async with session().post(f"{url}/servers/{server}/jobs", data=body, headers=headers) as response:
            return web.Response(body=await response.read(), status=response.status, content_type="application/json")

    sessions: list[aiohttp.ClientSession] = []

    def session() -> aiohttp.ClientSession:
        if not sessions:
            sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        return sessions[0]

    application.router.add_post("/v1/jobs", forward)
    return application


async def main(role: str, *arguments: str) -> None:
    """Listen on a free port, say which, and go on until told to end."""
    application = make_server() if role == "server" else make_proxy(*arguments)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    sys.stdout.write(json.dumps({"event": "listening", "url": f"http://{host}:{port}"}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    factory = uvloop.new_event_loop if sys.argv[1] == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as loop:
        loop.run(main(*sys.argv[2:]))
