"""A small world of real cores: routers and servers joined by links whose messages the test delivers when it likes."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from random import Random
from typing import Any

from router.core import (
    EndJob,
    JobArrived,
    PolicyChanged,
    RouterCore,
    ServerDraining,
    ServerJoined,
    ServerLeft,
)
from router.policy import Job, Server
from router.protocol import messages
from router.protocol.timer import StartTimer
from router.registry import make_policy
from server.core import Disturbed, Drain, NeedsChanged, Open, RouterJoined, ServerCore, ServerSpec

FROM_ROUTER = (messages.Dispatch, messages.Probe)


class Link:
    """Messages under way between one router and one server, in order each way."""

    def __init__(self) -> None:
        self.to_server: deque[Any] = deque()
        self.to_router: deque[Any] = deque()


class World:
    """Routers, servers, their links and their timers; nothing happens unless a method is called.

    Attributes:
        ends: The end of each job, by its id.
        decisions: What was sent where, in order: `(router, job size, server, number, expected)`.
    """

    def __init__(
        self, table: dict[str, Any], specs: list[ServerSpec], *, routers: int = 1, seed: int = 1, **options: Any
    ) -> None:
        self.seed = seed
        self.now = 0.0
        self.jobs = 0
        self.ends: dict[int, EndJob] = {}
        self.decisions: list[tuple[Any, ...]] = []
        self.servers: dict[str, ServerCore] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.routers: dict[str, RouterCore] = {}
        self.timers: list[tuple[float, int, Any, Any]] = []
        self._sequence = 0
        self._policies = 0
        for number in range(routers):
            name = f"router-{number + 1}"
            self.routers[name] = RouterCore(name, self._policy(table), probe_timeout=5.0, **options)
        for spec in specs:
            self.join(spec)

    def _policy(self, table: dict[str, Any]) -> Any:
        self._policies += 1
        return make_policy(table, Random(f"{self.seed}:{self._policies}:policy"))

    # -- what may happen -------------------------------------------------------------------------

    def arrive(self, router: str = "router-1", size: float = 1.0) -> int:
        """A new job; returns its id."""
        self.jobs += 1
        self._do_router(router, JobArrived(Job(self.jobs, size)))
        return self.jobs

    def join(self, spec: ServerSpec) -> None:
        """A new server, or a new incarnation of one that has left."""
        server = self.servers[spec.id] = ServerCore(spec, Random(f"{self.seed}:{spec.id}"), now=self.now)
        for name, router in self.routers.items():
            self.links[name, spec.id] = Link()
            known = Server(spec.id, spec.pool, spec.rate, spec.slots, spec.capacity, spec.pool_index)
            self._do_router(name, ServerJoined(known))
            self._do_server(server, RouterJoined(name, router.policy.needs))
        self._do_server(server, Open())

    def drain(self, id: str) -> None:
        """The server takes nothing new; routers learn it when the news arrives."""
        self._do_server(self.servers[id], Drain())
        for name in self.routers:
            self.links[name, id].to_router.append(ServerDraining(id))

    def disturb(self, id: str, disturbance: Disturbed) -> None:
        """The server misbehaves from now on, or no more."""
        self._do_server(self.servers[id], disturbance)

    def leave(self, id: str) -> None:
        """The server is gone, and with it all that was on its links."""
        del self.servers[id]
        for name in self.routers:
            del self.links[name, id]
            self._do_router(name, ServerLeft(id))

    def switch(self, router: str, table: dict[str, Any]) -> None:
        """Another policy; servers learn it when the news arrives."""
        policy = self._policy(table)
        self._do_router(router, PolicyChanged(policy))
        for id in self.servers:
            self.links[router, id].to_server.append(NeedsChanged(router, policy.needs))

    def deliver(self, rng: Random) -> bool:
        """Deliver one message of a random link and direction; whether there was one."""
        waiting = [
            (key, to_router)
            for key, link in self.links.items()
            for to_router in (False, True)
            if (link.to_router if to_router else link.to_server)
        ]
        if not waiting:
            return False
        self._deliver(*rng.choice(waiting))
        return True

    def settle(self) -> None:
        """Deliver everything, with no time passing."""
        busy = True
        while busy:
            busy = False
            for key in list(self.links):
                for to_router in (False, True):
                    while (link := self.links[key]) and (link.to_router if to_router else link.to_server):
                        self._deliver(key, to_router)
                        busy = True

    def tick(self) -> bool:
        """Let time pass until the next timer; whether there is one."""
        if not self.timers:
            return False
        at, _, owner, event = heappop(self.timers)
        self.now = max(self.now, at)
        if isinstance(owner, str):
            self._do_router(owner, event)
        elif owner in self.servers.values():
            self._do_server(owner, event)
        return True

    def pass_time(self, until: float) -> None:
        """Let time pass, delivering all messages at once."""
        self.settle()
        while self.timers and self.timers[0][0] <= until:
            self.tick()
            self.settle()
        self.now = until

    def finish(self) -> None:
        """Deliver everything and let all jobs end."""
        self.settle()
        while any(router.in_system for router in self.routers.values()):
            assert self.tick(), "jobs are in the system, but nothing is left to happen"
            self.settle()

    # -- the machinery ---------------------------------------------------------------------------

    def _deliver(self, key: tuple[str, str], to_router: bool) -> None:
        router, id = key
        if to_router:
            self._do_router(router, self.links[key].to_router.popleft())
        else:
            self._do_server(self.servers[id], self.links[key].to_server.popleft())

    def _do_router(self, name: str, event: Any) -> None:
        router = self.routers[name]
        for effect in router.handle(event, self.now):
            if type(effect) is EndJob:
                assert effect.job.id not in self.ends, "a job has one end"
                self.ends[effect.job.id] = effect
            elif type(effect) is StartTimer:
                self._start(effect, name)
            else:
                assert isinstance(effect, FROM_ROUTER)
                assert effect.server in router.servers, "only servers that are there are chosen"
                assert effect.server not in router.draining, "a server that drains is never chosen"
                if type(effect) is messages.Dispatch:
                    assert effect.server not in router.members.aside, "one that is set aside is never chosen"
                    self.decisions.append((name, effect.size, effect.server, effect.number, effect.expected))
                self.links[name, effect.server].to_server.append(effect)

    def _do_server(self, server: ServerCore, event: Any) -> None:
        for effect in server.handle(event, self.now):
            if type(effect) is StartTimer:
                self._start(effect, server)
            else:
                assert not isinstance(effect, StartTimer)
                self.links[effect.router, effect.server].to_router.append(effect)

    def _start(self, timer: StartTimer, owner: Any) -> None:
        self._sequence += 1
        heappush(self.timers, (timer.at, self._sequence, owner, timer.event))

    # -- what must hold --------------------------------------------------------------------------

    def check(self) -> None:
        """What is true of every router at every instant."""
        in_system = 0
        for router in self.routers.values():
            tallies = router.tallies.values()
            arrivals, ended = sum(t.arrivals for t in tallies), sum(sum(t.ends.values()) for t in tallies)
            assert router.in_system == arrivals - ended >= 0
            assert router.in_system == len(router.in_flight) + router.probing
            in_system += router.in_system
            here: dict[str, int] = dict.fromkeys(router.servers, 0)
            for record in router.in_flight.values():
                assert router.servers[record.server.id] is record.server
                here[record.server.id] += 1
            assert {id: server.outstanding for id, server in router.servers.items()} == here
            policy = router.policy
            assert policy.held_total == sum(policy.held(server) for server in router.members.in_order())
            assert router.orphaned == 0
        assert in_system == self.jobs - len(self.ends)

    def check_settled(self) -> None:
        """What is true when nothing is under way: routers and servers agree."""
        for id, server in self.servers.items():
            known = [router.servers[id] for router in self.routers.values()]
            assert sum(s.outstanding for s in known) == server.length
            held = sum(router.members.held(router.servers[id]) for router in self.routers.values())
            assert held == server.pull_messages
            for router, s in zip(self.routers.values(), known, strict=True):
                assert s.sent == server.sessions[router.id].seen
                reports = router.policy.needs.reports
                if reports is not None and reports.change and not server.draining:
                    assert s.view == server.length
