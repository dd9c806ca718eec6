"""The messages between routers and servers.

A message is the effect of one core and the event of the other: what `RouterCore.handle` returns
as a `Dispatch` is, after the network, what `ServerCore.handle` is given. So each message names its
server and its router first, whichever of them sends it; the codec puts neither on the wire, since a link
knows them. Times are durations or instants on the sender's clock, in that clock's unit (seconds
live, time units in the simulator).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Outcome = Literal["served", "blocked", "abandoned", "failed"]
OUTCOMES: tuple[Outcome, ...] = ("served", "blocked", "abandoned", "failed")

build = tuple.__new__
"""`build(Report, (…))` is `Report(…)` at a third of the cost, all fields in their order: for what each job needs."""

CONTROL_KINDS = ("pull", "withdraw", "probe", "report")
WORK_KINDS = ("dispatch", "end")


class Dispatch(NamedTuple):
    """Router to server: serve this job.

    Attributes:
        server: The server it goes to.
        router: The router that sends it.
        job: Number of this dispatch, unique for the router's incarnation.
        size: Service requirement, unit mean.
        patience: Time units that the job will wait; `None`: for ever.
        number: The pull-message that this dispatch uses; `None`: none.
        expected: The queue length that the router believed in; `None`: it believed nothing.
        held: Pull-messages that the router still holds (`placement = "shortest_of"` reads it).
    """

    server: str
    router: str
    job: int
    size: float
    patience: float | None
    number: int | None
    expected: int | None
    held: int


class Probe(NamedTuple):
    """Router to server: how many jobs are in your system? Asked for the sake of `job`."""

    server: str
    router: str
    job: int


class Pull(NamedTuple):
    """Server to router: I am idle (or: I have vacancy). Numbered per server."""

    server: str
    router: str
    number: int


class Withdraw(NamedTuple):
    """Server to router: forget my pull-message of that number."""

    server: str
    router: str
    number: int


class Report(NamedTuple):
    """Server to router: my queue length.

    Attributes:
        server: The server that reports.
        router: The router that is told.
        length: Jobs in the system at the server, waiting and in service.
        seen: Dispatches that the server has received from this router on this link.
        job: The probe that this answers; `None`: the server volunteers it.
    """

    server: str
    router: str
    length: int
    seen: int
    job: int | None


class End(NamedTuple):
    """Server to router: that dispatch is over.

    Attributes:
        server: The server that had the job.
        router: The router that had dispatched it.
        job: The number of the dispatch.
        outcome: How it ended.
        reason: Why, when it failed; else empty.
        arrived: Instant at which the dispatch reached the server, on the server's clock.
        waiting: From there to the start of service (or to leaving, if it never started).
        service: From the start to the end of service.
        stale: The pull-message or the expected queue length was wrong when it arrived.
        length: Queue length after the end, if the router asked for reports riding on `end`.
        seen: As in `Report`, with `length`.
    """

    server: str
    router: str
    job: int
    outcome: Outcome
    reason: str
    arrived: float
    waiting: float
    service: float
    stale: bool
    length: int | None
    seen: int | None


Message = Dispatch | Probe | Pull | Withdraw | Report | End
