"""The best of a few: ask d random servers, then choose among those that answered."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from router.choice import Population, least, sample
from router.policy import BLOCK, Answer, Assign, Block, Fleet, Job, Parameters, Policy, Probe, Server, check_sample
from router.protocol.messages import build
from router.protocol.needs import Needs
from router.ranking import Full

FULL = 1 << 62
"""Added to the length of a full server: it comes after all that have vacancy."""


class PowerOfDParameters(Parameters):
    """Parameters of `power_of_d`.

    Attributes:
        d: Servers drawn for each job.
        replacement: Whether one server may be drawn twice for one job.
        memory: Servers remembered from one job to the next, with the lengths that they had after the choice.
        full: `skip` a server that answered that it is full; the job is lost if all are. Or `ignore` that.
    """

    d: Annotated[int, Field(ge=1)] = 2
    replacement: bool = False
    memory: Annotated[int, Field(ge=0)] = 0
    full: Full = "skip"

    def check(self, fleet: Fleet) -> None:
        """Raise `SettingsError` if there are fewer than d servers to draw from."""
        check_sample(self.d, self.replacement, fleet)


class PowerOfD(Policy):
    """Sends each job to the shortest queue among d random servers.

    Rule: d servers are drawn uniformly, without replacement unless told otherwise, and asked for their number of jobs
    in the system, waiting and in service. The lowest wins; ties are uniform over servers. With `memory` = m, the m
    shortest of those compared are kept with the lengths that they then had, the chosen one with its new job, and are
    compared with the next d answers; an answer replaces what was remembered of the same server. If all that were
    compared are full the job is lost at the router (`full = "ignore"`: the shortest is sent it, and turns it away).
    If fewer than d servers are there, all are asked.
    Equalises: the number of jobs present, roughly; with unequal rates it can overload the slow servers.
    Needs: probes; d questions and d answers a job (fewer where draws coincide).
    Source: Vvedenskaya, Dobrushin, Karpelevich 1996; Mitzenmacher 2001, doi:10.1109/71.963420; memory: Mitzenmacher,
    Prabhakar, Shah 2002, doi:10.1109/SFCS.2002.1182005.
    """

    name = "power_of_d"
    parameters_type = PowerOfDParameters
    parameters: PowerOfDParameters

    def __init__(self, parameters: PowerOfDParameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        self._servers: Population[Server] = Population()
        self._d = parameters.d
        self._replacement = parameters.replacement
        self._memory = parameters.memory
        self._skip_full = parameters.full == "skip"
        self._remembered: list[Answer] = []

    @property
    def needs(self) -> Needs:
        """Answers to probes."""
        return Needs(probes=True)

    def on_join(self, server: Server) -> None:
        """One more to draw from."""
        self._servers.add(server)

    def on_leave(self, server: Server) -> None:
        """Forget it."""
        self._servers.remove(server)
        self._remembered = [answer for answer in self._remembered if answer[0] is not server]

    def on_arrival(self, job: Job) -> Probe:
        """Ask d servers."""
        return build(Probe, (sample(self._servers, self._d, self._replacement, self.rng),))

    def on_reports(self, job: Job, answers: Sequence[Answer]) -> Assign | Block:
        """Take the shortest of those that answered, and of those remembered."""
        if self._memory:
            asked = {server: None for server, _ in answers}
            answers = [*answers, *(answer for answer in self._remembered if answer[0] not in asked)]
        ranks = []
        for server, length in answers:
            ranks.append(length + FULL if length >= server.capacity and self._skip_full else length)
        server, length = answers[least(ranks, self.rng)]
        blocked = self._skip_full and length >= server.capacity
        if self._memory:
            self._remember([(s, n + (s is server and not blocked)) for s, n in answers])
        return BLOCK if blocked else build(Assign, (server, None, length, False, ()))

    def _remember(self, known: list[Answer]) -> None:
        self._remembered = []
        while known and len(self._remembered) < self._memory:
            self._remembered.append(known.pop(least([length for _, length in known], self.rng)))


class MaxVacancyParameters(Parameters):
    """Parameters of `max_vacancy`.

    Attributes:
        d: Servers drawn for each job; `all`: every one is asked.
        replacement: Whether one server may be drawn twice for one job.
    """

    d: Annotated[int, Field(ge=1)] | Literal["all"] = 2
    replacement: bool = False

    def check(self, fleet: Fleet) -> None:
        """Raise `SettingsError` if there are fewer than d servers to draw from."""
        if self.d != "all":
            check_sample(self.d, self.replacement, fleet)


class MaxVacancy(Policy):
    """Sends each job to the server with the most vacancy among d random ones.

    Rule: d servers are drawn uniformly, without replacement unless told otherwise (with it, more jobs are lost), and
    asked for their number of jobs. The largest vacancy, capacity − jobs in the system, wins; ties are uniform over the
    *servers* that tie, not over their pools. If none of them has vacancy the job is lost, and there is no second try.
    This is neither the fewest jobs nor the lowest load when capacities differ. Infinite vacancies are equal.
    Equalises: vacancy.
    Needs: probes; d questions and d answers a job (fewer where draws coincide).
    Source: Mukhopadhyay, Mazumdar, Guillemin 2015, doi:10.1109/ITC.2015.22.
    """

    name = "max_vacancy"
    parameters_type = MaxVacancyParameters
    parameters: MaxVacancyParameters

    def __init__(self, parameters: MaxVacancyParameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        self._servers: Population[Server] = Population()

    @property
    def needs(self) -> Needs:
        """Answers to probes."""
        return Needs(probes=True)

    def on_join(self, server: Server) -> None:
        """One more to draw from."""
        self._servers.add(server)

    def on_leave(self, server: Server) -> None:
        """One less to draw from."""
        self._servers.remove(server)

    def on_arrival(self, job: Job) -> Probe:
        """Ask d servers, or all."""
        d = self.parameters.d
        if d == "all":
            return Probe(list(self._servers.items))
        return Probe(sample(self._servers, d, self.parameters.replacement, self.rng))

    def on_reports(self, job: Job, answers: Sequence[Answer]) -> Assign | Block:
        """Take the largest vacancy of those that answered."""
        server, length = answers[least([length - server.capacity for server, length in answers], self.rng)]
        return Assign(server, expected=length) if length < server.capacity else BLOCK
