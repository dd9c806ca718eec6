"""LSQ: the shortest queue by a local view that is refreshed now and then."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from router.choice import Population, WeightedDraw, sample
from router.policy import Assign, Fleet, Job, Parameters, Policy, Server, check_sample
from router.protocol.needs import Needs, Positive, Probability, ReportNeeds
from router.ranking import Full, Measure, Ranks, ServerIndex, Ties

MOST_DRAWS = 50


class LsqParameters(Parameters):
    """Parameters of `lsq`.

    Attributes:
        refresh: `update`: a server reports at a departure, with probability p and surely when it becomes idle, to one
            uniformly random router. `idle`: only when it becomes idle. `smart`: as `update`, but to the router whose
            view is most wrong, ties at random. `piggyback`: the length rides on each `end`, to the router whose job
            ended. `sample`: after each job the router asks d random servers.
        p: The probability that `update` and `smart` report at a departure which leaves jobs behind.
        d: Servers that `sample` asks for each job. `weighted`: drawn in proportion to rate instead of uniformly.
        rank: `queue` q, `joined` (q + 1) / rate, `present` q / rate, q being the view. `rate` is that of one slot.
        ties: Equals are broken at `random`, or by rate (`fastest` first, then at random).
        full: `skip` a server that is believed to be full while another is not; or `ignore` that.
        refresh_on_send: The server that gets a job is asked for its length, too.
        batch: In slotted time only, where jobs come in batches: `split` them one by one, or send the `whole` batch to
            one server.
        every: All servers report to all routers each that many time units, instead of what `refresh` says.
    """

    refresh: Literal["update", "idle", "sample", "smart", "piggyback"] = "update"
    p: Probability = 1.0
    d: Annotated[int, Field(ge=1)] = 2
    weighted: bool = False
    rank: Measure = "queue"
    ties: Ties = "random"
    full: Full = "skip"
    refresh_on_send: bool = False
    batch: Literal["split", "whole"] = "split"
    every: Positive | None = None

    def check(self, fleet: Fleet) -> None:
        """Raise `SettingsError` if there are fewer than d servers to sample."""
        if self.refresh == "sample":
            check_sample(self.d, False, fleet)


class Lsq(Policy):
    """Sends each job to the server that is shortest in the router's own view.

    Rule: the lowest rank by view; ties uniform (or the highest rate first, then uniform). The view is the length last
    told plus this router's dispatches that it had not counted; a server that has told nothing yet counts as empty but
    for own jobs, so that newcomers are used at once. `sample` draws without replacement.
    Equalises: the number of jobs present (or delay, by `rank`), as far as the views are right. Each router errs in its
    own way, so they do not herd, as they do on a view that all share (`every`).
    Needs: `update`: at most one report a completion, exactly one with p = 1. `idle`: one each time a server becomes
    idle. `piggyback`: none. `sample`: d questions and d answers a job. `refresh_on_send`: one more of each.
    Source: Vargaftik, Keslassy, Orda 2020, arXiv:2003.02368. The exact rules of `update` and `smart` are our reading.
    """

    name = "lsq"
    parameters_type = LsqParameters
    parameters: LsqParameters

    def __init__(self, parameters: LsqParameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        skip_full, fastest = parameters.full == "skip", parameters.ties == "fastest"
        self._index = ServerIndex(Ranks(parameters.rank, skip_full=skip_full, fastest=fastest))
        self._servers: Population[Server] = Population()
        self._by_rate: WeightedDraw[Server] = WeightedDraw()
        self._samples = parameters.refresh == "sample" and parameters.every is None
        self._slotted = False
        self.whole_batches = parameters.batch == "whole"

    @property
    def needs(self) -> Needs:
        """What `refresh` lives on."""
        p = self.parameters
        probes = self._samples or p.refresh_on_send
        if p.every is not None:
            return Needs(reports=ReportNeeds(every=p.every), probes=probes)
        if p.refresh == "piggyback":
            return Needs(reports=ReportNeeds(on_end=True), probes=probes)
        if p.refresh == "sample":
            return Needs(probes=True)
        chance = 0.0 if p.refresh == "idle" else p.p
        to: Literal["one", "most_wrong"] = "most_wrong" if p.refresh == "smart" else "one"
        return Needs(reports=ReportNeeds(departure=chance, idle=True, to=to), probes=probes)

    def on_join(self, server: Server) -> None:
        """It counts as empty until it says otherwise."""
        self._servers.add(server)
        self._by_rate.add(server, server.rate)
        self._index.join(server, _believed(server))

    def on_leave(self, server: Server) -> None:
        """Forget it."""
        self._servers.remove(server)
        self._by_rate.remove(server)
        self._index.leave(server)

    def on_rate(self, server: Server) -> None:
        """Rank it, and draw it, by its new rate."""
        self._by_rate.add(server, server.rate)
        self._index.rate(server, _believed(server))

    def on_report(self, server: Server) -> None:
        """Rank it by its new view."""
        self._index.update(server, _believed(server))

    def on_sent(self, server: Server) -> None:
        """Rank it by its new view, which counts the job that is on its way."""
        self._index.update(server, _believed(server))

    def on_job_ended(self, server: Server) -> None:
        """The length may have come back with the `end`."""
        self._index.update(server, _believed(server))

    def on_arrival(self, job: Job) -> Assign:
        """Take one of lowest rank, then ask whom `refresh` says."""
        server = self._index.choose(self.rng)
        assert server is not None
        asked = self._sample() if self._samples and not self._slotted else []
        if self.parameters.refresh_on_send and server not in asked:
            asked.append(server)
        return Assign(server, expected=_believed(server), refresh=asked)

    def on_slot(self) -> Sequence[Server]:
        """In slotted time `sample` asks before the jobs of each slot, even if none come, not after each job."""
        self._slotted = True
        return self._sample() if self._samples else ()

    def _sample(self) -> list[Server]:
        d = self.parameters.d
        if not self.parameters.weighted or d >= len(self._servers):
            return sample(self._servers, d, replacement=False, rng=self.rng)
        drawn: dict[Server, None] = {}
        for _ in range(MOST_DRAWS * d):  # draws of the same server are repeated
            drawn[self._by_rate.draw(self.rng)] = None
            if len(drawn) == d:
                return list(drawn)
        # The rates are so unequal that this could take for ever. The first of exponential clocks of these rates to
        # ring are drawn by the same law, and need one number for each server.
        rest = [server for server in self._servers.items if server not in drawn]
        rest.sort(key=lambda server: self.rng.expovariate(server.rate))
        return [*drawn, *rest[: d - len(drawn)]]


def _believed(server: Server) -> int:
    return server.view if server.view is not None else server.outstanding
