"""The tables of a scenario, each checked by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from router.freshness import Stale
from router.memory import MemoryRule
from router.protocol.faults import fault, listed, no_such_key, shown
from server.laws import LARGEST_PARAMETER, LAWS
from services.loadgen.trace_options import TraceOptions
from services.scenario_text import RATES

MOST_SERVERS = 10_000
MOST_ROUTERS = 64
MOST_PROCESSES = 1_000

Positive = Annotated[float, Field(gt=0.0, le=1e9, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=1000, description="text in quotes, of at most 1000 characters")]
# Shorter than the names of the wire protocol, which have a number after them.
Name = Annotated[
    str,
    Field(
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$",
        description="a name: at most 100 letters, digits and . _ : -, the first a letter or digit",
    ),
]


class Part(BaseModel):
    """A table of which every key is known and has exactly the type that is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Routers(Part):
    """The routers, and how the jobs are split among them: independently job by job, with these shares.

    Attributes:
        count: How many; left out where `split` is a list: its length.
        split: "equal", or a list of shares, one a router; only their ratios matter.
        retries: How often a job that failed at a server, or with its link, is dispatched to another one, at random.
        memory: When servers that fail or hang are set aside; `None`: never.
        stale_after: Views that no report has renewed for so many time units are stale; `None`: none is.
        stale: What a stale view counts as.
    """

    count: Annotated[int, Field(ge=1, le=MOST_ROUTERS)] = 1
    split: Annotated[
        Literal["equal"] | Annotated[list[NotNegative], Field(min_length=1)],
        Field(description='"equal" or a list of shares, one number >= 0 a router'),
    ] = "equal"
    retries: Annotated[int, Field(ge=0, le=1000)] = 0
    memory: MemoryRule | None = None
    stale_after: Positive | None = None
    stale: Stale = "ignore"

    @model_validator(mode="before")
    @classmethod
    def _count_the_shares(cls, table: Any) -> Any:
        split = table.get("split") if isinstance(table, dict) else None
        return {"count": len(split), **table} if isinstance(split, list) and split else table

    @model_validator(mode="after")
    def _one_share_a_router(self) -> Self:
        if self.split != "equal" and len(self.split) != self.count:
            raise fault(f'but count = {self.count}: give one share a router, or "equal"', "split", found=self.split)
        if self.split != "equal" and not any(self.split):
            raise fault("expected at least one share above 0", "split", found=self.split)
        return self

    @property
    def upkeep(self) -> dict[str, Any]:
        """What the routers do about servers that fail, hang or fall silent, as arguments of `RouterCore`."""
        return {"retries": self.retries, "memory": self.memory, "stale_after": self.stale_after, "stale": self.stale}

    @property
    def shares(self) -> list[float]:
        """Shape (count,): the share of each router; they add up to 1."""
        given = [1.0] * self.count if self.split == "equal" else self.split
        total = math.fsum(given)
        return [share / total for share in given]


def _capacity(value: Any) -> float:
    if value == "inf":
        return math.inf
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (value == math.inf or (1 <= value <= 1e9 and value == int(value))):
        return float(value)
    raise fault('expected a whole number >= 1, or "inf"', found=value)


class Pool(Part):
    """Servers that are alike.

    Units: `rate` in jobs of unit size per time unit and slot.

    Attributes:
        name: Its servers are called name-1, name-2, …
        servers: How many.
        rate: Service rate of a slot.
        slots: Jobs that a server serves at the same time.
        capacity: The most jobs that a server holds, service included; `inf` allowed.
        processes: Into how many server processes it is split, as evenly as possible.
    """

    name: Name
    servers: Annotated[int, Field(ge=1, le=MOST_SERVERS)]
    rate: Positive = 1.0
    slots: Annotated[int, Field(ge=1, le=100_000)] = 1
    capacity: Annotated[float, BeforeValidator(_capacity)] = math.inf
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES)] = 1

    @model_validator(mode="after")
    def _room_for_all_slots(self) -> Self:
        if self.capacity < self.slots:
            raise fault(
                f"but slots = {self.slots}, and jobs in service count: choose capacity >= {self.slots}, or fewer slots",
                "capacity",
                found=int(self.capacity),
            )
        if self.processes > self.servers:
            raise fault(f"but servers = {self.servers}: choose processes <= {self.servers}",
                        "processes", found=self.processes)  # fmt: skip
        return self


class Arrivals(Part):
    """Arrivals that are drawn.

    Units: rates in jobs per time unit.

    Attributes:
        law: `poisson` or `deterministic`; `mmpp` is a `BurstyArrivals`, `trace` a `TraceArrivals`.
        load: Arrival rate ÷ Σ servers·slots·rate; or
        rate_per_server: arrival rate ÷ servers; or
        rate_total: the arrival rate. Exactly one of them.
    """

    law: Literal["poisson", "deterministic", "mmpp", "trace"] = "poisson"
    load: Positive | None = None
    rate_per_server: Positive | None = None
    rate_total: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_keys_of_other_laws(cls, table: Any) -> Any:
        if isinstance(table, dict):
            found = shown(table.get("law", "poisson"))
            for key in table:
                for law, other in (("trace", TraceArrivals), ("mmpp", BurstyArrivals)):
                    if key in other.model_fields and key not in cls.model_fields:
                        raise fault(f'only law = "{law}" has it, found law = {found}: leave one of them out', key)
        return table

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        _check_one_rate(self, RATES[:3])
        return self


class BurstyArrivals(Arrivals):
    """Arrivals in bursts: Poisson, but for a rate that jumps between two values.

    Units: `cycle` in time units.

    Attributes:
        burst: The rate in a burst ÷ the rate at other times.
        share: The share of time in a burst.
        cycle: The mean time from the beginning of a burst to that of the next one.
    """

    law: Literal["mmpp"]
    burst: Annotated[float, Field(gt=1.0, le=1e6, allow_inf_nan=False)]
    share: Annotated[float, Field(gt=0.0, lt=1.0, description="a number above 0 and below 1")]
    cycle: Positive


class TraceArrivals(TraceOptions):
    """Arrivals, and sizes if columns for them are named, replayed from a trace.

    Units: rates in jobs per time unit.

    Attributes:
        path: The file, relative to the scenario's file or to the working directory.
        speedup: Replay that many times faster than recorded; or one of the rates, as in `Arrivals`.
        repeat: Begin the trace again until the run is over.
    """

    law: Literal["trace"]
    path: Annotated[str, Field(min_length=1, max_length=4000, description="the path of a trace file")]
    speedup: Positive | None = None
    load: Positive | None = None
    rate_per_server: Positive | None = None
    rate_total: Positive | None = None
    repeat: bool = False

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        _check_one_rate(self, RATES)
        return self


def _check_one_rate(arrivals: Arrivals | TraceArrivals, names: Sequence[str]) -> None:
    found = [name for name in names if getattr(arrivals, name) is not None]
    if len(found) != 1:
        raise fault(f"give exactly one of {', '.join(names)}; found {listed(found, 'and') if found else 'none'}")


def kind_of_arrivals(value: Any) -> str:
    """Tell the three kinds of [arrivals] tables apart."""
    law = value.get("law") if isinstance(value, dict) else getattr(value, "law", None)
    return f"<{law}>" if law in ("trace", "mmpp") else "<drawn>"


_KNOWN_LAWS = listed(shown(name) for name in LAWS)


class Service(BaseModel):
    """The law of job sizes, with mean 1; every further key is a parameter of that law."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    law: Annotated[str, Field(description=_KNOWN_LAWS)] = "exponential"

    @model_validator(mode="after")
    def _fits_the_law(self) -> Self:
        if self.law not in LAWS:
            raise fault(f"expected {_KNOWN_LAWS}", "law", found=self.law)
        limits = LAWS[self.law].limits
        for name in self.parameters:
            if name not in limits:
                raise fault(f'{no_such_key(name, ["law", *limits])} (law "{self.law}")', name)
        for name, limit in limits.items():
            value = self.parameters.get(name)
            expected = f"expected a number above {limit:g} and <= {LARGEST_PARAMETER:g}"
            if value is None:
                raise fault(f'missing, law "{self.law}" needs it: {expected}', name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not limit < value <= LARGEST_PARAMETER:
                raise fault(expected, name, found=value)
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the law."""
        return dict(self.model_extra or {})


class Patience(Part):
    """How long jobs wait: exponentially distributed.

    Units: `rate` per time unit.

    Attributes:
        rate: 1 ÷ the mean patience; 0 means for ever, as if [patience] were left out.
        in_service: Whether a job in service abandons too.
    """

    rate: NotNegative
    in_service: bool = False


class RunPlan(Part):
    """How long a run takes.

    Units: time units.

    Attributes:
        warmup: Nothing is measured before.
        duration: How long is measured after it.
        time: Continuous, or in slots of one time unit.
        events: How much of the event logs of a live run is kept: so much that it never grows large, or all.
    """

    warmup: NotNegative = 50.0
    duration: Positive = 400.0
    time: Literal["continuous", "slotted"] = "continuous"
    events: Literal["bounded", "full"] = "bounded"
