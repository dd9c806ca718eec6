"""Fewest own requests: what proxies do that know nothing but their own jobs."""

from __future__ import annotations

from random import Random
from typing import Annotated, Literal

from pydantic import Field

from router.choice import Population, least, sample
from router.policy import Assign, Fleet, Job, Parameters, Policy, Server, check_sample
from router.ranking import Full, Measure, Ranks, ServerIndex


class LeastRequestsParameters(Parameters):
    """Parameters of `least_requests`.

    Attributes:
        d: Servers compared for each job; `all`: every one.
        replacement: Whether one server may be drawn twice for one job.
        rank: `queue`: own jobs o there; `joined`: (o + 1) / rate; `present`: o / rate. `rate` is that of one slot.
        full: `skip` a server that own jobs alone fill, while another is there; or `ignore` that.
    """

    d: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    replacement: bool = False
    rank: Measure = "queue"
    full: Full = "skip"

    def check(self, fleet: Fleet) -> None:
        """Raise `SettingsError` if there are fewer than d servers to draw from."""
        if self.d != "all":
            check_sample(self.d, self.replacement, fleet)


class LeastRequests(Policy):
    """Sends each job to the server at which this router has the fewest jobs of its own.

    Rule: the lowest own outstanding count (or that count over the rate), among all servers or among d drawn uniformly
    for the job, without replacement unless told otherwise; ties uniform. It does not see the jobs of other routers:
    any count is a count per router, and with many routers most of them are 0 or 1. Full servers: see `full`; if all
    are, the rule is applied to all of them and the server decides.
    Equalises: this router's concurrency at each server, not the number of jobs sent to it.
    Needs: nothing; no control message.
    Source: least connections and two-choice balancing on local counts, as in today's proxies; rows G91, G92.
    """

    name = "least_requests"
    parameters_type = LeastRequestsParameters
    parameters: LeastRequestsParameters

    def __init__(self, parameters: LeastRequestsParameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        self._servers: Population[Server] = Population()
        self._ranks = Ranks(parameters.rank, skip_full=parameters.full == "skip")
        self._index = ServerIndex(self._ranks)

    def on_join(self, server: Server) -> None:
        """Rank it by own jobs that are there already."""
        self._servers.add(server)
        self._index.join(server, server.outstanding)

    def on_leave(self, server: Server) -> None:
        """Forget it."""
        self._servers.remove(server)
        self._index.leave(server)

    def on_rate(self, server: Server) -> None:
        """Rank it by its new rate."""
        self._index.rate(server, server.outstanding)

    def on_sent(self, server: Server) -> None:
        """One more."""
        self._index.update(server, server.outstanding)

    def on_job_ended(self, server: Server) -> None:
        """One less."""
        self._index.update(server, server.outstanding)

    def on_arrival(self, job: Job) -> Assign:
        """Take one of lowest rank, of all or of d."""
        d = self.parameters.d
        if d == "all":
            server = self._index.choose(self.rng)
            assert server is not None
            return Assign(server)
        servers = sample(self._servers, d, self.parameters.replacement, self.rng)
        return Assign(servers[least([self._ranks.of(s, s.outstanding) for s in servers], self.rng)])
