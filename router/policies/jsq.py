"""The shortest queue, or the shortest expected delay, by what all servers report."""

from __future__ import annotations

from random import Random
from typing import Literal

from router.choice import Population
from router.policy import Assign, Job, Parameters, Policy, Server
from router.protocol.needs import Needs, Positive, ReportNeeds
from router.ranking import Full, Ranks, ServerIndex, Ties


class _ByView(Policy):
    """What `jsq` and `sed` have in common: an index of all views, which every signal keeps in order."""

    def __init__(self, parameters: Parameters, rng: Random, ranks: Ranks) -> None:
        super().__init__(parameters, rng)
        self._servers: Population[Server] = Population()
        self._index = ServerIndex(ranks)

    @property
    def needs(self) -> Needs:
        """A report on each change, to all routers."""
        return Needs(reports=ReportNeeds(change=True))

    def on_join(self, server: Server) -> None:
        """It may be chosen at random at once, and by rank when it has reported."""
        self._servers.add(server)
        self._index.join(server, server.view)

    def on_leave(self, server: Server) -> None:
        """Forget it."""
        self._servers.remove(server)
        self._index.leave(server)

    def on_rate(self, server: Server) -> None:
        """Rank it by its new rate."""
        self._index.rate(server, server.view)

    def on_report(self, server: Server) -> None:
        """Rank it by its new view."""
        self._index.update(server, server.view)

    def on_sent(self, server: Server) -> None:
        """Rank it by its new view, which counts the job that is on its way."""
        self._index.update(server, server.view)

    def on_job_ended(self, server: Server) -> None:
        """A job that was turned away has lowered the view."""
        self._index.update(server, server.view)

    def on_arrival(self, job: Job) -> Assign:
        """Take one of lowest rank."""
        server = self._index.choose(self.rng)
        if server is None:
            return Assign(self._servers.draw(self.rng), fallback=True)
        return Assign(server, expected=server.view)


class JsqParameters(Parameters):
    """Parameters of `jsq`.

    Attributes:
        ties: Equals are broken at `random`, or by rate (`fastest` first, then at random).
        full: `skip` a server that is known to be full while another is not; or `ignore` that.
        every: Reports come each that many time units instead of on change; leave out: on change.
    """

    ties: Ties = "random"
    full: Full = "skip"
    every: Positive | None = None


class Jsq(_ByView):
    """Sends each job to the server with the fewest jobs in its system, waiting and in service.

    Rule: the lowest view; ties uniform (or the highest rate first, then uniform). The view is the length last
    reported plus this router's dispatches that the report had not counted. Servers that have not reported yet are
    unknown, not empty: they are left out while any other is known; if none is, the choice is uniform and counts as a
    fallback. If all are known to be full, the rule is applied to all of them and the server decides.
    Equalises: the number of jobs present, not the number of jobs sent: a server of twice the rate serves about twice
    as many. It measures neither the waiting jobs alone, nor vacancy, nor load over capacity.
    Needs: a report to every router on each change, 2 messages per job and router; or one each `every` time units.
    Source: Winston 1977, doi:10.2307/3213271; with several speeds and full servers, rows G11, G19, G22 of the tests.
    """

    name = "jsq"
    parameters_type = JsqParameters
    parameters: JsqParameters

    def __init__(self, parameters: JsqParameters, rng: Random) -> None:
        ranks = Ranks("queue", skip_full=parameters.full == "skip", fastest=parameters.ties == "fastest")
        super().__init__(parameters, rng, ranks)

    @property
    def needs(self) -> Needs:
        """Reports to all routers, on change or periodic."""
        every = self.parameters.every
        return Needs(reports=ReportNeeds(change=every is None, every=every))


class SedParameters(Parameters):
    """Parameters of `sed`.

    Attributes:
        rank: `joined`: (q + 1) / rate; `present`: q / rate. `rate` is that of one slot.
        ties: Equals are broken at `random`, or by rate (`fastest` first, then at random).
        full: `skip` a server that is known to be full while another is not; or `ignore` that.
    """

    rank: Literal["joined", "present"] = "joined"
    ties: Ties = "random"
    full: Full = "skip"


class Sed(_ByView):
    """Sends each job to the server with the shortest expected delay.

    Rule: the lowest (q + 1) / rate (or q / rate), q being the view as in `jsq`: the jobs in the system; ties uniform
    (or the highest rate first, then uniform). Unknown and full servers are treated as in `jsq`.
    Equalises: expected delay. At low load `joined` leaves slow servers idle: with rates 4 and 1 a slow server gets a
    job only when each fast one has three or more, or at random when they have exactly three. `present` treats idle
    servers alike, whatever their rate.
    Needs: a report to every router on each change, 2 messages per job and router.
    Source: Foschini 1977; analysed by Selen, Adan, Kapodistria, van Leeuwaarden 2016, doi:10.1007/s11134-016-9491-y.
    """

    name = "sed"
    parameters_type = SedParameters
    parameters: SedParameters

    def __init__(self, parameters: SedParameters, rng: Random) -> None:
        skip_full, fastest = parameters.full == "skip", parameters.ties == "fastest"
        super().__init__(parameters, rng, Ranks(parameters.rank, skip_full=skip_full, fastest=fastest))
