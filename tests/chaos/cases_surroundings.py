"""What surrounds the processes: generators, logs, clocks."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from services.lab.process import Process
from tests.chaos.case import ALL, R1, WHILE_S, B, case
from tests.chaos.means import full_pipe, total
from tests.chaos.stage import (
    BOUND_S,
    RELINK_S,
    ROUTERS,
    UNIT_S,
    Stage,
)


@case("kill -9 of a generator with jobs under way", recovers_s=0.0)
async def generator_killed(stage: Stage) -> None:
    stage.guests = True
    urls = ",".join(stage.running.urls[router] for router in ROUTERS)
    scenario = stage.folder / "generator.toml"
    scenario.write_text(
        f'name = "chaos"\ntime_unit_s = {UNIT_S}\n[policy]\nname = "random"\n[routers]\ncount = 2\n'
        f'[[pools]]\nname = "slow"\nservers = {ALL}\n[arrivals]\nload = 0.5\n[run]\nduration = 10000\n',
        encoding="utf-8",
    )
    unheard = await total(stage, ROUTERS, "herdless_router_unheard_ends_total")
    command = ["load", str(scenario), "--routers", urls, "--end-with-parent"]
    generator = await Process.start("generator", command, stage.folder / "generator.log")
    while (line := await generator.says()) is not None and line.get("sent", 0) < 30:
        pass
    generator.signal(signal.SIGKILL)  # half of the servers work for it
    await generator.ended()
    await generator.stop()

    async def some_are_unheard() -> bool:
        return await total(stage, ROUTERS, "herdless_router_unheard_ends_total") > unheard

    await stage.until(some_are_unheard, BOUND_S, "ends that nobody hears")


@case("nobody reads the logs of a router and of a server process, and their pipes are full", recovers_s=RELINK_S,
      loses="link_lost no_router no_server")  # fmt: skip
async def logs_frozen(stage: Stage) -> None:
    with full_pipe(stage, R1), full_pipe(stage, B):
        await stage.running.restart(R1)
        await stage.running.restart(B)
        await stage.until_well()
        for _ in range(200):  # each one is worth a line in the log
            async with stage.session.ws_connect(stage.running.urls[R1] + "/v1/link") as link:
                await link.send_bytes(b"no hello")
                await link.receive()
        for _ in range(5):
            stage.relays[R1, B].cut()
            await asyncio.sleep(0.1)
            stage.relays[R1, B].heal()
            await stage.until_well()
    await stage.running.restart(R1)
    await stage.running.restart(B)


@case("the wall clocks of a router and a server process jump by a day, to and fro", recovers_s=RELINK_S,
      loses="link_lost no_router no_server")  # fmt: skip
async def wall_clock_jumps(stage: Stage) -> None:
    jumping = stage.folder / "jumping"
    jumping.mkdir()
    (jumping / "sitecustomize.py").write_text(_JUMPING_CLOCK, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(jumping), prepend=os.pathsep)
        await stage.running.restart(R1)
        await stage.running.restart(B)
    for name in (R1, B):
        assert (jumping / f"sitecustomize.py.{stage.running[name].pid}").exists(), "its clock does not jump"
    await stage.until_well()
    first = len(stage.load.jobs)
    await asyncio.sleep(4 * WHILE_S)
    jobs = [job for job in stage.load.jobs[first:] if job.outcome]
    assert len(jobs) > 100 and {job.outcome for job in jobs} == {"served"}
    assert max(job.ended_s - job.sent_s for job in jobs) < 60, "nobody measures by the wall clock"
    await stage.running.restart(R1)
    await stage.running.restart(B)


_JUMPING_CLOCK = """
import os, time
open(f"{__file__}.{os.getpid()}", "w").close()
_now, _now_ns, _calls = time.time, time.time_ns, [0]
def _jump():
    _calls[0] += 1
    return 86_400 * (_calls[0] % 3 - 1)
time.time = lambda: _now() + _jump()
time.time_ns = lambda: _now_ns() + _jump() * 10**9
"""
