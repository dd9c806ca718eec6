"""Server processes are killed, stopped, started again, and misbehave."""

from __future__ import annotations

import asyncio
from time import monotonic

from services.lab.process import Process
from tests.chaos.case import ALL, WHILE_S, A, B, case
from tests.chaos.load import outcomes
from tests.chaos.means import all_ended, disturbed, nothing_under_way, total
from tests.chaos.stage import (
    BOUND_S,
    DETECTION_S,
    HEARTBEAT_S,
    JOBS_PER_S,
    RELINK_S,
    ROUTERS,
    SERVERS,
    SLACK_S,
    Stage,
)


@case("kill -9 of a server process; it is started again later", recovers_s=0.0, loses="link_lost", compact=True)
async def server_killed(stage: Stage) -> None:
    await stage.running.kill(B)
    for router in ROUTERS:
        await stage.until_router_has(router, ALL - SERVERS, SLACK_S)
    await asyncio.sleep(WHILE_S)
    await stage.running.restart(B)


@case("kill -9 of a server process and a new incarnation of the same name at once", recovers_s=0.0, loses="link_lost")
async def server_restarted(stage: Stage) -> None:
    epoch = (await stage.get(B, "/v1/servers"))["servers"][0]["epoch"]
    await stage.running.restart(B)
    assert (await stage.get(B, "/v1/servers"))["servers"][0]["epoch"] > epoch


@case("kill -9 of a server process while routers try jobs again elsewhere: none is lost",
      recovers_s=RELINK_S, loses="link_lost no_router no_server")  # fmt: skip
async def server_killed_with_retries(stage: Stage) -> None:
    for router in ROUTERS:
        await stage.running.restart(router, stage.router_command(router, retries=2))
    await stage.until_well()
    first = len(stage.load.jobs)
    await asyncio.sleep(WHILE_S)
    servers = {server["id"] for server in (await stage.get(B, "/v1/servers"))["servers"]}

    async def has_jobs() -> bool:
        known = [await stage.get(router, "/v1/servers") for router in ROUTERS]
        return any(each["outstanding"] for answer in known for each in answer["servers"] if each["id"] in servers)

    stage.running.hang(B)  # else it may have ended its last job when it is killed
    await stage.until(has_jobs, SLACK_S, "jobs at the process that is to be killed")
    await stage.running.kill(B)
    await asyncio.sleep(2 * WHILE_S)
    last = len(stage.load.jobs)
    await stage.running.restart(B)
    await stage.until(lambda: all_ended(stage.load.jobs[first:last]), BOUND_S, "an end of each job")
    assert outcomes(stage.load.jobs[first:last]).keys() == {("served", "")}
    assert await total(stage, ROUTERS, "herdless_router_retries_total") > 0, "some were tried again"
    for router in ROUTERS:
        await stage.running.restart(router, stage.router_command(router))


@case("a server process stands still for less than a heartbeat", recovers_s=0.0)
async def server_stopped_shortly(stage: Stage) -> None:
    stage.running.hang(B)
    await asyncio.sleep(0.4 * HEARTBEAT_S)
    stage.running.resume(B)


@case("a server process stands still until its links are given up, then goes on",
      recovers_s=RELINK_S, loses="link_lost", compact=True)  # fmt: skip
async def server_stopped(stage: Stage) -> None:
    stage.running.hang(B)
    began = monotonic()
    for router in ROUTERS:
        await stage.until_router_has(router, ALL - SERVERS, began + DETECTION_S + SLACK_S - monotonic())
    await asyncio.sleep(WHILE_S)
    stage.running.resume(B)


@case("a server process is killed while it stands still, and started again", recovers_s=0.0, loses="link_lost")
async def server_killed_while_it_stood_still(stage: Stage) -> None:
    stage.running.hang(B)
    await asyncio.sleep(0.3 * HEARTBEAT_S)
    await stage.running.restart(B)


@case("a server process is killed while routers hold its pull-messages and views; then jobs come",
      recovers_s=0.0, compact=True)  # fmt: skip
async def server_killed_when_idle(stage: Stage) -> None:
    await stage.load.stop()
    await stage.until(lambda: nothing_under_way(stage), BOUND_S, "an idle cluster")
    await stage.running.kill(B)
    for router in ROUTERS:
        await stage.until_router_has(router, ALL - SERVERS, SLACK_S)
    first = len(stage.load.jobs)
    stage.load.start(JOBS_PER_S)
    await asyncio.sleep(WHILE_S)
    dead = {f"slow-{number}" for number in range(1 + SERVERS, 1 + 2 * SERVERS)}
    jobs = stage.load.jobs[first:]
    assert len(jobs) > 20 and not [job for job in jobs if job.server in dead], "nobody is sent to the dead"
    await stage.running.restart(B)


@case("SIGTERM of a server process under load: it drains and ends; a new one takes its place",
      recovers_s=0.0, loses="draining")  # fmt: skip
async def server_drained(stage: Stage) -> None:
    stage.running.drain(B)
    assert await asyncio.wait_for(stage.running[B].ended(), BOUND_S) == 0
    await stage.running.restart(B)


@case("servers join under load, and drain again", recovers_s=0.0, loses="draining", compact=True)
async def servers_added(stage: Stage) -> None:
    first = 1 + ALL
    await stage.running.start("servers-d", stage.servers_command("servers-d", first, direct=True))
    for router in ROUTERS:
        await stage.until_router_has(router, ALL + SERVERS, SLACK_S)
    before = len(stage.load.jobs)
    new = {f"slow-{number}" for number in range(first, first + SERVERS)}

    async def is_used() -> bool:
        return len({job.server for job in stage.load.jobs[before:]} & new) == SERVERS

    await stage.until(is_used, BOUND_S, "a job at each new server")
    stage.running.drain("servers-d")
    assert await asyncio.wait_for(stage.running["servers-d"].ended(), BOUND_S) == 0


@case("one server takes five times as long, then is itself again", recovers_s=0.0)
async def server_slow(stage: Stage) -> None:
    async with disturbed(stage, slow=5.0):
        await asyncio.sleep(4 * WHILE_S)


@case("one server fails each job at once, then is itself again", recovers_s=0.0, loses="server", compact=True)
async def server_failing(stage: Stage) -> None:
    before = len(stage.load.jobs)
    async with disturbed(stage, failing=True):
        await asyncio.sleep(4 * WHILE_S)
    failed = [job for job in stage.load.jobs[before:] if job.reason == "server"]
    assert failed and {job.server for job in failed} == {"slow-6"}


@case("one server takes jobs and ends none, then ends them all", recovers_s=0.0, compact=True)
async def server_hung_inside(stage: Stage) -> None:
    async with disturbed(stage, hung=True):
        await asyncio.sleep(4 * WHILE_S)
        [server] = [each for each in (await stage.get(B, "/v1/servers"))["servers"] if each["id"] == "slow-6"]
        assert server["queue_length"] > 0


@case("two processes of one name: the second one is refused, the first one works on", recovers_s=0.0)
async def process_of_the_same_name(stage: Stage) -> None:
    command = stage.servers_command(B, 1 + SERVERS)
    command[command.index(B)] = A  # the name of another process, with servers of a third
    twin = await Process.start("twin", command, stage.folder / "twin.log")
    try:
        await twin.listening()
        await asyncio.sleep(WHILE_S)
        for router in ROUTERS:
            assert await stage.servers_at(router) == ALL
    finally:
        await twin.stop()
