"""What a policy is: how it is told what happens, and what it may decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict

from router.protocol.errors import LocalProtocolError, SettingsError
from router.protocol.needs import Needs


class Job(NamedTuple):
    """One customer, with all of its randomness drawn by whoever generated it.

    Attributes:
        id: Unique among the jobs in one router's system.
        size: Service requirement, unit mean.
        patience: Time units that it will wait; `None`: for ever.
    """

    id: int
    size: float = 1.0
    patience: float | None = None


class Server:
    """What a router knows of one server. Policies read it; only `RouterCore` writes to it.

    Attributes:
        id: Its name, unique in the system.
        pool: The name of its pool.
        pool_index: The place of its pool in the scenario, from 0.
        rate: Service rate of one slot, jobs of unit size per time unit.
        slots: Jobs that it serves at the same time.
        capacity: The most jobs that it holds, service included; `inf` allowed.
        outstanding: Jobs that this router has there: dispatched, and not ended.
        sent: Dispatches on this link so far.
        view: The queue length that this router believes in; `None`: it was not told under the policy in force.
        failed: Jobs of ours that it has failed; those that it turned away, because it drains or is full, do not count.
        left: Its link is lost; whoever comes under its name is another one.
    """

    __slots__ = (
        "capacity", "failed", "id", "left", "outstanding", "pool", "pool_index", "rate", "sent", "slots", "view",
    )  # fmt: skip

    def __init__(self, id: str, pool: str, rate: float, slots: int, capacity: float, pool_index: int = 0) -> None:
        self.id = id
        self.pool = pool
        self.pool_index = pool_index
        self.rate = rate
        self.slots = slots
        self.capacity = capacity
        self.outstanding = 0
        self.sent = 0
        self.view: int | None = None
        self.failed = 0
        self.left = False

    def __repr__(self) -> str:
        return f"Server({self.id}, view={self.view}, outstanding={self.outstanding})"


class Assign(NamedTuple):
    """Dispatch the job to `server`.

    Attributes:
        server: Where it goes.
        number: The pull-message that is used up; `None`: none.
        expected: The queue length that the policy believes in; `None`: it believes nothing.
        fallback: The policy knew nothing of use and chose at random (`dispatch.random`).
        refresh: Servers (all different) to be asked for their queue lengths after the dispatch, for later jobs.
    """

    server: Server
    number: int | None = None
    expected: int | None = None
    fallback: bool = False
    refresh: Sequence[Server] = ()


class Probe(NamedTuple):
    """Ask these servers (all different) for their queue lengths, then decide in `on_reports`."""

    servers: Sequence[Server]


class Block(NamedTuple):
    """The job is lost: no server that the policy may choose has vacancy."""


Decision = Assign | Probe | Block
BLOCK = Block()
Answer = tuple[Server, int]
"""A server, and the queue length that it answered to a probe, with the dispatches that were on their way to it."""


class Fleet(NamedTuple):
    """The pools that a policy will meet, to check its parameters against before anything starts.

    Shape: one entry a pool in each list, in the scenario's order.
    """

    pools: list[str]
    servers: list[int]
    rates: list[float]
    slots: list[int]
    capacities: list[float]


class Parameters(BaseModel):
    """The parameters of a policy: typed, with defaults; unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def check(self, fleet: Fleet) -> None:
        """Raise `SettingsError` where the parameters make no sense for this fleet."""


def check_sample(d: int, replacement: bool, fleet: Fleet) -> None:
    """Raise `SettingsError` if d different servers cannot be drawn from this fleet."""
    servers = sum(fleet.servers)
    if d > servers and not replacement:
        there = "is 1 server" if servers == 1 else f"are {servers} servers"
        raise SettingsError(f"policy.d = {d}, but there {there}: choose d <= {servers}, or policy.replacement = true")


class Policy(ABC):
    """Chooses a server for each job. Pure: no clock, no await, no log; randomness from `rng` alone.

    The core tells it of every server that it may choose from (`on_join`, `on_leave`; a server that
    drains or is set aside has left), and of whatever it asked for with `needs`. It writes what it knows into the
    `Server` objects before it calls a hook, so that a policy which ranks servers needs one index and
    one line a hook. Only `on_arrival` is mandatory, and it is called only while there is a server.

    Attributes:
        name: What users call it.
        parameters_type: Its parameters, with their defaults.
        parameters: The values in force.
        rng: The only source of randomness.
        whole_batches: Slotted time only: all jobs that a slot brings to this router go where the first one goes.
    """

    name: ClassVar[str]
    parameters_type: ClassVar[type[Parameters]] = Parameters
    whole_batches: bool = False

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        self.parameters = parameters
        self.rng = rng

    @property
    def needs(self) -> Needs:
        """What servers must send; derived from the parameters, and constant."""
        return Needs()

    def on_join(self, server: Server) -> None:
        """`server` may be chosen from now on."""

    def on_leave(self, server: Server) -> None:
        """`server` may not be chosen any more; forget it and its pull-messages."""

    @abstractmethod
    def on_arrival(self, job: Job) -> Decision:
        """Decide where `job` goes, or whom to ask first."""

    def on_reports(self, job: Job, answers: Sequence[Answer]) -> Assign | Block:
        """Decide on the answers to a `Probe`: one each from the servers that answered, at least one."""
        raise LocalProtocolError(f"policy {self.name} probed, but has no on_reports")

    def on_rate(self, server: Server) -> None:
        """`server.rate` was just changed; the server, what is known of it and its pull-messages stay."""

    def on_pull(self, server: Server, number: int) -> None:
        """`server` says that it is idle, or has vacancy."""

    def on_withdraw(self, server: Server, number: int) -> bool:
        """Forget a pull-message; whether it was held."""
        return False

    def on_report(self, server: Server) -> None:
        """`server.view` was just set from a report."""

    def on_sent(self, server: Server) -> None:
        """A job was just dispatched to `server`; `outstanding`, and a known `view`, have grown by one."""

    def on_job_ended(self, server: Server) -> None:
        """A job of ours at `server` has ended; `outstanding`, and perhaps `view`, have changed."""

    def on_slot(self) -> Sequence[Server]:
        """Slotted time only: a slot begins. The servers (all different) to be asked for their lengths first."""
        return ()

    def messages(self, server: Server) -> Sequence[int]:
        """The numbers of the pull-messages of `server` that are held."""
        return ()

    def held(self, server: Server) -> int:
        """How many those are."""
        return len(self.messages(server))

    @property
    def held_total(self) -> int:
        """Pull-messages held in all."""
        return 0
