"""PULL: idle servers ask for jobs, and a router that has nobody asking falls back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Literal

from router.choice import Entry, LeastLoaded, Population, WeightedDraw, least, sample
from router.policy import Answer, Assign, Decision, Job, Parameters, Policy, Probe, Server
from router.protocol.needs import Count, CountFrom1, Needs, PullNeeds, ReportNeeds
from router.ranking import Measure, Ranks, ServerIndex

FALLBACK_D = 2


class PullParameters(Parameters):
    """Parameters of `pull`.

    Attributes:
        stale: What a server does with its pull-message when a job that did not use it makes the server busy:
            `withdraw` it, `keep` it out, or keep it and post a `duplicate` when idle again.
        fallback: What is done without a pull-message. `random`: uniform over all servers. `weighted`: drawn by rate.
            `power_of_d`: the shorter of two that are probed. `least_requests`: own jobs. `view`: own jobs in
            flight plus the queue length that came back with the last `end`.
        rank: By what the last two fallbacks rank: `joined` (q + 1) / rate, `queue` q, `present` q / rate.
        order: Which message is used: a uniformly `random` one, or a random one of the `fastest` servers that asked.
        placement: Where a server posts: at a `random` router, or at the `shortest_of` k routers' lists.
        k: Routers looked at by `shortest_of`.
        announce_at: Post when at most that many jobs are left; `vacancy`: when a slot is free.
        batch: In slotted time only, where jobs come in batches: `single`: one job a message, and the fallback for the
            rest of a batch; `spread`: a batch that is larger than the messages held is spread over their servers.
    """

    stale: Literal["withdraw", "keep", "duplicate"] = "withdraw"
    fallback: Literal["random", "weighted", "power_of_d", "least_requests", "view"] = "random"
    rank: Literal["joined", "queue", "present"] = "joined"
    order: Literal["random", "fastest"] = "random"
    placement: Literal["random", "shortest_of"] = "random"
    k: CountFrom1 = 2
    announce_at: Count | Literal["vacancy"] = 0
    batch: Literal["single", "spread"] = "single"


class _Fallback:
    """What `pull` does without a message; by itself, a uniform draw over all servers."""

    def __init__(self, rank: Measure) -> None:
        self._servers: Population[Server] = Population()

    def join(self, server: Server) -> None:
        self._servers.add(server)

    def leave(self, server: Server) -> None:
        self._servers.remove(server)

    def changed(self, server: Server) -> None:
        """What the router knows of `server` has changed."""

    def rate(self, server: Server) -> None:
        """The rate of `server` has changed."""

    def decide(self, rng: Random) -> Assign | Probe:
        return Assign(self._servers.draw(rng), fallback=True)


class _Weighted(_Fallback):
    """A draw by rate."""

    def __init__(self, rank: Measure) -> None:
        self._draw: WeightedDraw[Server] = WeightedDraw()

    def join(self, server: Server) -> None:
        self._draw.add(server, server.rate)

    def leave(self, server: Server) -> None:
        self._draw.remove(server)

    def rate(self, server: Server) -> None:
        self._draw.add(server, server.rate)

    def decide(self, rng: Random) -> Assign:
        return Assign(self._draw.draw(rng), fallback=True)


class _PowerOfD(_Fallback):
    """Probes to two servers."""

    def decide(self, rng: Random) -> Probe:
        return Probe(sample(self._servers, FALLBACK_D, replacement=False, rng=rng))


class _LeastRequests(_Fallback):
    """The lowest rank by own jobs."""

    def __init__(self, rank: Measure) -> None:
        self._index = ServerIndex(Ranks(rank, skip_full=True))

    def join(self, server: Server) -> None:
        self._index.join(server, server.outstanding)

    def leave(self, server: Server) -> None:
        self._index.leave(server)

    def changed(self, server: Server) -> None:
        self._index.update(server, server.outstanding)

    def rate(self, server: Server) -> None:
        self._index.rate(server, server.outstanding)

    def decide(self, rng: Random) -> Assign:
        server = self._index.choose(rng)
        assert server is not None
        return Assign(server, fallback=True)


class _View(_Fallback):
    """The lowest rank by view; uniform while no view is known."""

    def __init__(self, rank: Measure) -> None:
        super().__init__(rank)
        self._index = ServerIndex(Ranks(rank, skip_full=True))

    def join(self, server: Server) -> None:
        super().join(server)
        self._index.join(server, server.view)

    def leave(self, server: Server) -> None:
        super().leave(server)
        self._index.leave(server)

    def changed(self, server: Server) -> None:
        self._index.update(server, server.view)

    def rate(self, server: Server) -> None:
        self._index.rate(server, server.view)

    def decide(self, rng: Random) -> Assign:
        server = self._index.choose(rng)
        if server is None:
            return Assign(self._servers.draw(rng), fallback=True)
        return Assign(server, expected=server.view, fallback=True)


_FALLBACKS: dict[str, type[_Fallback]] = {
    "random": _Fallback,
    "weighted": _Weighted,
    "power_of_d": _PowerOfD,
    "least_requests": _LeastRequests,
    "view": _View,
}


class _Message(Entry):
    """A pull-message. One that was used stays with its server, with place -1, and is written anew for the next."""

    __slots__ = ("number", "server")

    def __init__(self, server: Server, number: int) -> None:
        super().__init__()
        self.server = server
        self.number = number


class Pull(Policy):
    """Sends each job to a server that has asked for one; if none has, it falls back on something else.

    Rule: a server that becomes idle posts one pull-message at one router. An arrival uses up a uniformly random one of
    the *messages* that its router holds (`order = "fastest"`: of those from the highest rate), so pools are chosen in
    proportion to their idle servers, not to their speed. Without a message the fallback decides: by default uniformly
    over all servers of all pools, busy and full ones included. Ties of the other fallbacks are uniform, and they
    prefer servers that are not known to be full; all of them are counted as fallback. With `view`, only own dispatches
    and own ends touch the view: a pull-message does not set it to 0, since that would be wrong once it is withdrawn.
    Equalises: at moderate load the idle time that a server is left with before its next job, not utilisation: slow
    pools are busier. At low load (rates 4 and 1, load 0.05) jobs are spread uniformly over idle servers, where `sed`
    sends them to the fast pool.
    Needs: pull-messages, at most one a job, and the withdrawals of stale ones; `view`: lengths riding on `end`, no
    message of their own; `power_of_d`: two probes and two answers a fallback.
    Source: Stolyar 2017, arXiv:1512.07873; placement and its variants: Lu et al. 2011,
    doi:10.1016/j.peva.2011.07.015; the fallbacks: rows G91, G92.
    """

    name = "pull"
    parameters_type = PullParameters
    parameters: PullParameters

    def __init__(self, parameters: PullParameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        self._messages: LeastLoaded[_Message] = LeastLoaded()
        self._by_server: dict[Server, list[_Message]] = {}
        self._total = 0
        self._fastest = parameters.order == "fastest"
        self._fallback = _FALLBACKS[parameters.fallback](parameters.rank)
        self._answered = Ranks("queue", skip_full=True)
        self._spreads = False
        self._asked: deque[Server] = deque()

    @property
    def needs(self) -> Needs:
        """Pull-messages, and what the fallback lives on."""
        p = self.parameters
        return Needs(
            pull=PullNeeds(announce_at=p.announce_at, stale=p.stale, placement=p.placement, k=p.k),
            reports=ReportNeeds(on_end=True) if p.fallback == "view" else None,
            probes=p.fallback == "power_of_d",
        )

    def on_join(self, server: Server) -> None:
        """It may be fallen back on, and may ask for jobs."""
        self._by_server[server] = []
        self._fallback.join(server)

    def on_leave(self, server: Server) -> None:
        """Forget it and its messages."""
        for message in self._held(server):
            self._drop(message)
        del self._by_server[server]
        self._fallback.leave(server)

    def on_rate(self, server: Server) -> None:
        """Rank its messages, and itself, by its new rate."""
        if self._fastest:
            for message in self._held(server):
                self._messages.move(message, -server.rate)
        self._fallback.rate(server)

    def on_pull(self, server: Server, number: int) -> None:
        """Keep the message, once."""
        message = None
        known = self._by_server[server]
        for other in known:
            if other.place < 0:
                message = other  # it was used: written anew
            elif other.number == number:
                return
        if message is None:
            message = _Message(server, number)
            known.append(message)
        message.number = number
        self._messages.shuffle_in(message, -server.rate if self._fastest else 0, self.rng)
        self._total += 1

    def on_withdraw(self, server: Server, number: int) -> bool:
        """Forget that message, if it is held."""
        for message in self._held(server):
            if message.number == number:
                self._drop(message)
                return True
        return False

    def on_arrival(self, job: Job) -> Decision:
        """Use up a message, or fall back."""
        message = self._messages.take()
        if message is None:
            if self._asked:
                self._asked.rotate(-1)
                return Assign(self._asked[-1])
            return self._fallback.decide(self.rng)
        self._total -= 1
        if self._spreads:
            self._asked.append(message.server)
        return Assign(message.server, message.number)

    def on_reports(self, job: Job, answers: Sequence[Answer]) -> Assign:
        """Take the shorter of those that answered; the server decides if it is full."""
        ranks = [self._answered.of(server, length) for server, length in answers]
        server, length = answers[least(ranks, self.rng)]
        return Assign(server, expected=length, fallback=True)

    def on_report(self, server: Server) -> None:
        """Rank it by its new view."""
        self._fallback.changed(server)

    def on_sent(self, server: Server) -> None:
        """One more own job."""
        self._fallback.changed(server)

    def on_job_ended(self, server: Server) -> None:
        """One own job less, and perhaps another view."""
        self._fallback.changed(server)

    def on_slot(self) -> Sequence[Server]:
        """In slotted time `spread` deals a batch in turn to the servers that had asked."""
        self._spreads = self.parameters.batch == "spread"
        self._asked.clear()
        return ()

    def messages(self, server: Server) -> Sequence[int]:
        """Numbers of the messages of `server` that are held."""
        return [message.number for message in self._held(server)]

    @property
    def held_total(self) -> int:
        """Messages held in all."""
        return self._total

    def _held(self, server: Server) -> list[_Message]:
        return [message for message in self._by_server.get(server, ()) if message.place >= 0]

    def _drop(self, message: _Message) -> None:
        self._messages.remove(message)
        self._total -= 1
