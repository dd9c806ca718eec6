"""Failure memory, retries, rates and stale views in a router process: what is told, shown and counted."""

from __future__ import annotations

from collections import Counter

from router.memory import MemoryRule
from router.protocol.messages import Dispatch, Report
from router.protocol.notices import Rated, encode_notice
from tests.unit.router_peers import FakeServers, running, until


async def failing(servers: FakeServers) -> Dispatch:
    dispatch = await servers.dispatch()
    await servers.end(dispatch, outcome="failed", reason="server", service=0.0)
    return dispatch


async def test_a_server_that_fails_is_set_aside_and_its_job_goes_elsewhere():
    memory = MemoryRule(failures=1, forgive=1e6)
    async with running("round_robin", retries=1, memory=memory) as router:
        servers = await router.link("slow-1", "slow-2")
        job = router.post()
        first = await failing(servers)
        second = await servers.dispatch()
        assert second.server != first.server
        await servers.end(second)
        answer = await (await job).json()
        assert (answer["outcome"], answer["server"]) == ("served", second.server)
        shown = {entry["id"]: entry for entry in (await router.get("/v1/servers"))["servers"]}
        assert (shown[first.server]["state"], shown[first.server]["failed"]) == ("aside", 1)
        assert shown[second.server]["state"] == "live"
        metrics = await router.metrics()
        assert metrics["set_aside_total", "failed"] == metrics["retries_total", "round_robin"] == 1
        assert metrics["servers", "slow", "aside"] == metrics["servers", "slow", "live"] == 1
        # Nobody else is left: both get jobs again.
        job = router.post()
        await failing(servers)
        assert (await router.metrics())["aside_ignored_total",] == 1
        await servers.end(await servers.dispatch())
        await job


async def test_a_server_is_let_back_when_its_time_is_over():
    async with running("round_robin", memory=MemoryRule(failures=1, forgive=1.0), time_unit_s=0.02) as router:
        servers = await router.link("slow-1", "slow-2")
        job = router.post()
        await failing(servers)
        assert (await job).status == 502
        core = router.app.driver.core
        assert len(core.members.aside) == 1
        await until(lambda: not core.members.aside)


async def test_another_rate_counts_from_the_next_decision_on_although_all_were_equal():
    async with running("sed") as router:
        servers = await router.link("slow-1", "slow-2")
        await servers.say(Report("slow-1", "router-1", 2, 0, None), Report("slow-2", "router-1", 5, 0, None))
        await servers.ws.send_bytes(encode_notice(Rated(server=1, rate=4.0)))
        await until(lambda: router.app.driver.core.servers["slow-2"].rate == 4.0)
        # (2 + 1) / 1 against (5 + 1) / 4
        job = router.post()
        dispatch = await servers.dispatch()
        assert dispatch.server == "slow-2"
        await servers.end(dispatch)
        await job
        assert (await router.metrics())["server_rate", "slow"] == 2.5
        assert [entry["rate"] for entry in (await router.get("/v1/servers"))["servers"]] == [1.0, 4.0]


async def test_weights_that_were_equal_can_become_unequal():
    async with running("weighted_random") as router:
        servers = await router.link("slow-1", "slow-2")
        counts: Counter[str] = Counter()

        async def send(jobs: int) -> None:
            for _ in range(jobs):
                job = router.post()
                dispatch = await servers.dispatch()
                counts[dispatch.server] += 1
                await servers.end(dispatch)
                await job

        await send(20)
        await servers.ws.send_bytes(encode_notice(Rated(server=0, rate=1e-6)))
        await until(lambda: router.app.driver.core.servers["slow-1"].rate == 1e-6)
        counts.clear()
        await send(20)
        assert counts == {"slow-2": 20}  # by chance otherwise once in 50,000 runs


async def test_a_rate_for_a_place_that_is_not_on_the_link_closes_it():
    async with running() as router:
        servers = await router.link("slow-1")
        await servers.ws.send_bytes(encode_notice(Rated(server=1, rate=4.0)))
        code, reason = await servers.closed()
        assert code == 1002 and "rated names server 1, of 1 on the link" in reason
        assert await router.get("/v1/servers") == {"servers": []}


async def test_reports_that_stop_make_a_view_stale_and_jobs_are_dispatched_all_the_same():
    for rule in ("ignore", "average", "full"):
        async with running("jsq", stale_after=1.0, stale=rule, time_unit_s=0.02) as router:
            servers = await router.link("slow-1")
            await servers.say(Report("slow-1", "router-1", 0, 0, None))
            await servers.probe()  # it is asked first, and does not answer
            await until(lambda router=router: router.app.driver.core.upkeep.stale_views)
            assert (await router.metrics())["stale_views",] == 1
            job = router.post()
            message = await servers.next()
            while not isinstance(message, Dispatch):
                message = await servers.next()
            await servers.end(message)
            assert (await job).status == 200
