"""Links are cut, silent and slow."""

from __future__ import annotations

import asyncio

from tests.chaos.case import ALL, R1, R2, WHILE_S, B, case
from tests.chaos.means import partition, until_links
from tests.chaos.stage import (
    DETECTION_S,
    HEARTBEAT_S,
    PROCESSES,
    RELINK_S,
    ROUTERS,
    SERVERS,
    SLACK_S,
    Stage,
)


@case("no packet passes between a router and all server processes, either way; then all do",
      recovers_s=RELINK_S, loses="link_lost no_server", compact=True)  # fmt: skip
async def router_cut_off(stage: Stage) -> None:
    with partition(stage, R1, PROCESSES, "there", "back"):
        await stage.until_router_has(R1, 0, DETECTION_S + SLACK_S)
        await until_links(stage, 1, DETECTION_S + SLACK_S)
        assert await stage.servers_at(R2) == ALL
        await asyncio.sleep(WHILE_S)


@case("no packet passes between a router and one server process; nobody is told (half-open)",
      recovers_s=RELINK_S, loses="link_lost", compact=True)  # fmt: skip
async def link_half_open(stage: Stage) -> None:
    with partition(stage, R1, (B,), "there", "back"):
        await stage.until_router_has(R1, ALL - SERVERS, DETECTION_S + SLACK_S)
        await until_links(stage, 1, DETECTION_S + SLACK_S, B)
        await asyncio.sleep(WHILE_S)


@case("what a server process says does not reach a router, which it hears", recovers_s=RELINK_S, loses="link_lost")
async def link_silent_to_the_router(stage: Stage) -> None:
    with partition(stage, R1, (B,), "there"):
        await stage.until_router_has(R1, ALL - SERVERS, DETECTION_S + SLACK_S)
        await asyncio.sleep(WHILE_S)


@case("what a router says does not reach a server process, which it hears", recovers_s=RELINK_S, loses="link_lost")
async def link_silent_to_the_servers(stage: Stage) -> None:
    with partition(stage, R1, (B,), "back"):
        await until_links(stage, 1, DETECTION_S + SLACK_S, B)
        await asyncio.sleep(WHILE_S)


@case("the messages of a link take 200 ms longer each way for a while", recovers_s=0.0)
async def link_delayed(stage: Stage) -> None:
    relay = stage.relays[R1, B]
    relay.delay_s = 0.2
    await asyncio.sleep(4 * WHILE_S)
    relay.heal()


@case("a link is cut ten times within three seconds", recovers_s=RELINK_S, loses="link_lost", compact=True)
async def link_flapping(stage: Stage) -> None:
    relay = stage.relays[R1, B]
    for _ in range(10):
        relay.cut()
        await asyncio.sleep(0.1)
        relay.heal()
        await asyncio.sleep(0.2)


@case("the policy is switched at all routers while one link is silent",
      recovers_s=RELINK_S, loses="link_lost")  # fmt: skip
async def policy_switched_in_a_partition(stage: Stage) -> None:
    with partition(stage, R1, (B,), "there", "back"):
        await asyncio.sleep(0.3 * HEARTBEAT_S)
        for table in ({"name": "random"}, stage.policy):
            for router in ROUTERS:
                assert (await stage.put(router, "/v1/policy", table))["name"] == table["name"]
            await asyncio.sleep(WHILE_S)
        await stage.until_router_has(R1, ALL - SERVERS, DETECTION_S + SLACK_S)
