"""A server process of its own: what it does when it is told to end."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSCloseCode

from router.protocol.messages import End
from tests.unit.server_peers import LIMIT_S, FakeRouter, kinds

PROGRAM = """
import json, sys
from server.app.main import run
from server.app.settings import make_settings
sys.exit(run(make_settings(json.loads(sys.argv[1]))))
"""


@asynccontextmanager
async def started(router: FakeRouter, **changes: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    await router.server.start_server()
    values = {"id": "servers-slow", "pool": "slow", "servers": 2, "time_unit_s": 0.01,
              "routers": [str(router.server.make_url("/"))]}  # fmt: skip
    pipe = asyncio.subprocess.PIPE
    program = (sys.executable, "-c", PROGRAM, json.dumps(values | changes))
    process = await asyncio.create_subprocess_exec(*program, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await router.server.close()


async def test_sigterm_drains_and_ends_with_exit_code_0() -> None:
    router = FakeRouter()
    async with started(router) as process:
        link = await asyncio.wait_for(router.connections.get(), 30)
        assert kinds(await link.next(2)) == ["Pull", "Pull"]
        await link.send(link.dispatch(0, 1, 20.0), link.dispatch(0, 2, 10.0))  # 0.3 s in all
        assert kinds(await link.next(1)) == ["Withdraw"]
        process.send_signal(signal.SIGTERM)
        came = await link.next(4)
        # The idle server's message is taken back, the routers are told, and both jobs are finished.
        assert kinds(came) == ["Withdraw", "Drains", "End", "End"]
        assert [(end.job, end.outcome) for end in came if isinstance(end, End)] == [(1, "served"), (2, "served")]
        assert await link.closed_by_server() == WSCloseCode.GOING_AWAY
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
        assert process.stdout is not None and process.stderr is not None
        line = json.loads(await process.stdout.readline())
        assert (line["event"], line["role"], line["id"]) == ("listening", "server", "servers-slow")
        assert "the mean service time is 10 ms; below 20 ms" in (await process.stderr.read()).decode()


async def test_a_drain_has_a_limit() -> None:
    router = FakeRouter()
    async with started(router, drain_limit_s=0.05, time_unit_s=0.1) as process:
        link = await asyncio.wait_for(router.connections.get(), 30)
        await link.next(2)
        await link.send(link.dispatch(0, 1, 1e6))
        await link.next(1)
        process.send_signal(signal.SIGTERM)
        assert await link.closed_by_server() == WSCloseCode.GOING_AWAY
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
        assert process.stderr is not None
        assert "0.05 s have passed" in (await process.stderr.read()).decode()
