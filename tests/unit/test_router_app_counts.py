"""What a router process counts as its own jobs at servers is what is there, by whatever way a job came and went."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from router.protocol.messages import Dispatch
from tests.unit.router_peers import FakeServers, Generator, Router, running, until


def outstanding(router: Router) -> dict[str, int]:
    return {server.id: server.outstanding for server in router.app.driver.core.servers.values()}


async def test_looking_at_a_router_does_not_touch_its_counts():
    async with running() as router:
        servers = await router.link("slow-1", "slow-2")
        jobs = [router.post() for _ in range(50)]
        held = [await servers.dispatch() for _ in jobs]
        for _ in range(10):
            for path in ("/health", "/ready", "/v1/servers"):
                await router.get(path)
            await router.metrics()
            assert sum(outstanding(router).values()) == router.app.driver.core.in_system == 50
        for dispatch in held:
            await servers.end(dispatch)
        await asyncio.gather(*jobs)
        assert outstanding(router) == {"slow-1": 0, "slow-2": 0}


async def test_late_ends_for_a_former_incarnation_do_nothing_to_the_new_one():
    async with running() as router:
        former = await router.link("slow-1", epoch=1)
        jobs = [router.post(), router.post()]
        held = [await former.dispatch(), await former.dispatch()]
        # It is started anew under the same name before the loss of its link is known, and its late ends still come.
        newer = await router.link("slow-1", epoch=2)
        for dispatch in held:
            await former.end(dispatch)
        assert [(await job).status for job in jobs] == [502, 502]  # link_lost: each had its one end
        another = router.post()
        dispatch = await newer.dispatch()
        for old in held:
            await newer.end(old)  # nor by the new link
        core = router.app.driver.core
        await until(lambda: core.orphaned == 2)
        assert outstanding(router) == {"slow-1": 1}
        await newer.end(dispatch)
        assert (await another).status == 200
        assert outstanding(router) == {"slow-1": 0} and core.servers["slow-1"].sent == 1


class Traffic:
    """Jobs that come and go by every way there is, and what the test knows of them."""

    def __init__(self, router: Router, stream: Generator, rng: Random) -> None:
        self.router, self.stream, self.rng = router, stream, rng
        self.core = router.app.driver.core
        self.links: dict[str, FakeServers] = {}
        self.held: dict[str, list[Dispatch]] = {}
        self.jobs: list[asyncio.Task[Any]] = []
        self.number = 0

    async def come(self) -> None:
        self.number = number = self.number + 1
        way = self.rng.choice(["plain", "keyed", "stream"])
        if way == "stream":
            await self.stream.send((number, 1.0, None))
        else:
            self.jobs.append(self.router.post({"key": f"k-{number}"} if way == "keyed" else {"size": 1.0}))
        await until(lambda: self.core.tally.arrivals >= number)

    async def end(self, name: str) -> None:
        dispatches = self.held[name]
        dispatch = dispatches.pop(self.rng.randrange(len(dispatches)))
        outcome = self.rng.choice(["served", "served", "blocked", "failed", "abandoned"])
        await self.links[name].end(dispatch, outcome=outcome, reason="server" if outcome == "failed" else "")
        await until(lambda: dispatch.job not in self.core.in_flight)

    async def link(self, name: str) -> None:
        self.held[name] = []
        self.links[name] = await self.router.link(name, process=f"p-{name}", epoch=self.number + 1)
        await until(lambda: name in self.core.servers)

    async def unlink(self, name: str) -> None:
        del self.held[name]
        await self.links.pop(name).ws.close()
        await until(lambda: name not in self.core.servers)

    async def step(self) -> None:
        dice, name = self.rng.random(), f"s-{self.rng.randrange(3)}"
        if dice < 0.35:
            await self.come()
        elif name not in self.links:
            await self.link(name)
        elif dice < 0.38:
            await self.unlink(name)
        elif dice < 0.42 and self.jobs:
            self.jobs.pop(self.rng.randrange(len(self.jobs))).cancel()
        elif self.held[name]:
            await self.end(name)
        for linked, servers in self.links.items():
            while len(self.held[linked]) < self.core.servers[linked].outstanding:
                self.held[linked].append(await servers.dispatch())

    def check(self) -> None:
        counted = outstanding(self.router)
        assert counted == {name: len(self.held[name]) for name in counted}
        assert self.core.in_system == sum(map(len, self.held.values()))


async def test_by_whatever_way_jobs_come_and_go_the_counts_are_those_of_the_jobs_that_are_there():
    # Ways in: the fast path, the ordinary one (a key), a stream. Ways out: served, blocked, failed (and retried),
    # abandoned, the link lost (and retried), the client gone, no server.
    async with running("random", retries=1) as router:
        traffic = Traffic(router, await router.stream(), Random(17))
        await traffic.come()  # no server yet
        for _ in range(300):
            await traffic.step()
            traffic.check()
        assert traffic.core.tally.retries > 5
        for reason in ("server", "link_lost", "no_server"):
            assert traffic.core.tally.ends["failed", reason] > 0
        for name in list(traffic.links):
            await traffic.unlink(name)
        assert traffic.core.in_system == 0
        for job in traffic.jobs:
            await job
