"""Routers are killed, stopped and started again."""

from __future__ import annotations

import asyncio

from tests.chaos.case import R1, WHILE_S, case
from tests.chaos.load import outcomes
from tests.chaos.means import all_ended, until_links
from tests.chaos.stage import (
    BOUND_S,
    DETECTION_S,
    HEARTBEAT_S,
    RELINK_S,
    ROUTERS,
    SLACK_S,
    Stage,
)


@case("kill -9 of a router with jobs in flight; it is started again later",
      recovers_s=RELINK_S, loses="link_lost no_router no_server", compact=True)  # fmt: skip
async def router_killed(stage: Stage) -> None:
    long = [stage.load.send(R1, 20.0) for _ in range(5)]
    await asyncio.sleep(0.2)
    await stage.running.kill(R1)
    await stage.until(lambda: all_ended(long), SLACK_S, "an end of the jobs in flight")
    assert outcomes(long) == {("failed", "link_lost"): 5}
    await asyncio.sleep(WHILE_S)
    await stage.running.restart(R1)


@case("kill -9 of a router and a new incarnation at the same address at once",
      recovers_s=RELINK_S, loses="link_lost no_router no_server")  # fmt: skip
async def router_restarted(stage: Stage) -> None:
    await stage.running.restart(R1)


@case("kill -9 of all routers; they are started again later",
      recovers_s=RELINK_S, loses="link_lost no_router no_server", compact=True)  # fmt: skip
async def all_routers_killed(stage: Stage) -> None:
    await asyncio.gather(*(stage.running.kill(router) for router in ROUTERS))
    await asyncio.sleep(WHILE_S)
    await asyncio.gather(*(stage.running.restart(router) for router in ROUTERS))


@case("a router stands still for less than a heartbeat", recovers_s=0.0)
async def router_stopped_shortly(stage: Stage) -> None:
    stage.running.hang(R1)
    await asyncio.sleep(0.4 * HEARTBEAT_S)
    stage.running.resume(R1)


@case("a router stands still until its links are given up, then goes on",
      recovers_s=RELINK_S, loses="link_lost no_server", compact=True)  # fmt: skip
async def router_stopped(stage: Stage) -> None:
    stage.running.hang(R1)
    await until_links(stage, 1, DETECTION_S + SLACK_S)
    await asyncio.sleep(WHILE_S)
    stage.running.resume(R1)


@case("SIGTERM of a router under load: it drains and ends; a new one takes its place",
      recovers_s=RELINK_S, loses="draining link_lost no_router no_server")  # fmt: skip
async def router_drained(stage: Stage) -> None:
    long = [stage.load.send(R1, 10.0) for _ in range(5)]
    await asyncio.sleep(0.2)
    stage.running.drain(R1)
    assert await asyncio.wait_for(stage.running[R1].ended(), BOUND_S) == 0
    assert outcomes(long) == {("served", ""): 5}, "what is there is finished"
    await stage.running.restart(R1)
