"""The experiment: policy, routers, pools, arrivals, service, patience and run, read from TOML.

Mandatory are `name`, `[policy]` with `name`, one `[[pools]]` or more with `name` and `servers`, and `[arrivals]`
with exactly one of `load`, `rate_per_server`, `rate_total` (a trace may have `speedup` instead, and needs `path`
and `time_column`). Everything else has a default: seed 1, a time unit of 0.1 s, one router, rate 1, one slot,
infinite capacity, Poisson arrivals, exponential service, jobs that wait for ever, 50 time units of warm-up and
400 of measurement. A load of 1 or more is allowed: it is what abandonment and blocking are studied with.

How overrides (`--set KEY=VALUE`) are merged: `services.scenario_text.read_table`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from router.policy import Fleet as PolicyFleet
from router.protocol.errors import SettingsError
from router.protocol.faults import explain, fault, listed
from router.registry import make_parameters
from server.core import ServerSpec
from server.laws import Law, make_law
from services.measure.records import Fleet
from services.scenario_faults import MOST_FAULTS, Fault, all_processes, check_faults, in_order
from services.scenario_parts import (
    MOST_SERVERS,
    Arrivals,
    BurstyArrivals,
    Name,
    Part,
    Patience,
    Pool,
    Routers,
    RunPlan,
    Service,
    Text,
    TraceArrivals,
    kind_of_arrivals,
)
from services.scenario_processes import ServersProcess, first_processes
from services.scenario_text import RATES, read_table, write_table


class Scenario(Part):
    """An experiment, checked.

    Attributes:
        policy: The table as written: `name`, and parameters of that policy.
        service: `None`: the sizes come from the trace.
        patience: `None`: jobs wait for ever.
        faults: What goes wrong, and when; in any order.
    """

    name: Name
    title: Text = ""
    source: Text = ""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, description="a whole number >= 0, below 2^63")] = 1
    time_unit_s: Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)] = 0.1
    policy: Annotated[dict[str, Any], Field(description="[policy] with name, and parameters of that policy")]
    routers: Routers = Routers()
    pools: Annotated[list[Pool], Field(min_length=1, description="one [[pools]] or more, with name and servers")]
    arrivals: Annotated[
        Annotated[Arrivals, Tag("<drawn>")]
        | Annotated[BurstyArrivals, Tag("<mmpp>")]
        | Annotated[TraceArrivals, Tag("<trace>")],
        Discriminator(kind_of_arrivals),
        Field(description=f"[arrivals] with law and one of {listed(RATES[:3])}"),
    ]
    service: Service | None = None
    patience: Patience | None = None
    run: RunPlan = RunPlan()
    faults: Annotated[list[Fault], Field(default_factory=list, max_length=MOST_FAULTS)]

    @field_validator("patience", mode="after")
    @classmethod
    def _for_ever(cls, patience: Patience | None) -> Patience | None:
        return patience if patience is not None and patience.rate > 0.0 else None

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Scenario:
        self._check_pools()
        self._check_service()
        check_faults(self.faults, self.router_names(), self.pools)
        if self.run.time == "slotted":
            self._check_slotted()
        self._check_policy()
        return self

    def _check_pools(self) -> None:
        first: dict[str, int] = {}
        for place, pool in enumerate(self.pools):
            if pool.name in first:
                raise fault(
                    f"but pools.{first[pool.name]} is called so too: give each pool a name of its own",
                    "pools", place, "name", found=pool.name,
                )  # fmt: skip
            if pool.name == "router":
                raise fault("but the routers are called router-1, router-2, …: choose another name",
                            "pools", place, "name", found=pool.name)  # fmt: skip
            first[pool.name] = place
        named: dict[str, int] = {}
        for process in first_processes(self.pools):
            if named.setdefault(process.name, process.place) != process.place:
                raise fault(f"but pools.{named[process.name]} has a process {process.name} too: choose another name",
                            "pools", process.place, "name", found=process.pool.name)  # fmt: skip
        if self.servers_total > MOST_SERVERS:
            raise fault(f"{self.servers_total} servers in all, expected at most {MOST_SERVERS}", "pools")

    def _check_service(self) -> None:
        sizes_from_trace = isinstance(self.arrivals, TraceArrivals) and bool(self.arrivals.size_weights)
        if sizes_from_trace and self.service is not None:
            raise fault(
                "the sizes come from the trace: leave [service] out, or the size columns of arrivals", "service"
            )
        if not sizes_from_trace and self.service is None:
            # Frozen for everybody else.
            self.__dict__["service"] = Service()

    def _check_slotted(self) -> None:
        slotted = 'for run.time = "slotted"'
        if self.arrivals.law != "poisson":
            raise fault(f'expected "poisson" {slotted}', "arrivals", "law", found=self.arrivals.law)
        if self.service is not None and self.service.law != "exponential":
            raise fault(f'expected "exponential" {slotted}', "service", "law", found=self.service.law)
        if self.faults:
            raise fault(f"{slotted} nothing fails: leave [[faults]] out", "faults")
        for key, plain in (("retries", 0), ("memory", None), ("stale_after", None)):
            if getattr(self.routers, key) != plain:
                raise fault(f"{slotted} no server fails or falls silent: leave it out", "routers", key)
        if self.patience is not None:
            raise fault(f"{slotted} jobs wait for ever: leave [patience] out", "patience")
        for place, pool in enumerate(self.pools):
            if pool.slots != 1:
                raise fault(f"expected 1 {slotted}, where rate is the mean capacity of a slot",
                            "pools", place, "slots", found=pool.slots)  # fmt: skip
            if pool.capacity != math.inf:
                raise fault(f'expected "inf" {slotted}', "pools", place, "capacity", found=int(pool.capacity))

    def _check_policy(self) -> None:
        _, parameters = make_parameters(self.policy)
        parameters.check(self.policy_fleet())

    def with_policy(self, table: Mapping[str, Any]) -> Scenario:
        """Return the same experiment under another policy.

        Args:
            table: A [policy] table: `name`, and parameters.

        Raises:
            SettingsError: There is no such policy or parameter, or it does not fit the pools.
        """
        other = self.model_copy(update={"policy": dict(table)})
        other._check_policy()
        return other

    @property
    def policy_name(self) -> str:
        """The policy's name."""
        return str(self.policy["name"])

    def parameter(self, name: str) -> Any:
        """The value in force of a parameter of the policy; `None`: the policy has none of that name."""
        _, parameters = make_parameters(self.policy)
        return getattr(parameters, name, None)

    @property
    def servers_total(self) -> int:
        """Servers of all pools."""
        return sum(pool.servers for pool in self.pools)

    @property
    def service_rate_total(self) -> float:
        """Σ servers·slots·rate, in jobs of unit size per time unit."""
        return math.fsum(pool.servers * pool.slots * pool.rate for pool in self.pools)

    @property
    def rate_total(self) -> float:
        """The arrival rate, in jobs per time unit.

        Raises:
            SettingsError: It depends on the trace.
        """
        arrivals = self.arrivals
        if arrivals.rate_total is not None:
            return arrivals.rate_total
        if arrivals.rate_per_server is not None:
            return arrivals.rate_per_server * self.servers_total
        if arrivals.load is not None:
            return arrivals.load * self.service_rate_total
        raise SettingsError(
            "arrivals.speedup: the trace decides the arrival rate: give load, rate_per_server or rate_total instead"
        )

    @property
    def load(self) -> float:
        """The arrival rate ÷ Σ servers·slots·rate.

        Raises:
            SettingsError: It depends on the trace.
        """
        return self.arrivals.load if self.arrivals.load is not None else self.rate_total / self.service_rate_total

    @property
    def horizon(self) -> float:
        """Warm-up and duration together, in time units."""
        return self.run.warmup + self.run.duration

    def law(self) -> Law:
        """Return the law of the job sizes.

        Raises:
            SettingsError: They come from a trace.
        """
        if self.service is None:
            raise SettingsError("service: the sizes come from the trace, no law is known: leave its size columns out")
        return make_law(self.service.law, **self.service.parameters)

    def router_names(self) -> list[str]:
        """The names of the routers, in order."""
        return [f"router-{number}" for number in range(1, self.routers.count + 1)]

    def processes(self) -> list[ServersProcess]:
        """The server processes: pool after pool, then those that are added in the run."""
        return all_processes(self.pools, self.faults)

    def timeline(self) -> list[Fault]:
        """The faults that happen, in order."""
        return in_order(each for each in self.faults if each.at <= self.horizon)

    def server_specs(self) -> list[ServerSpec]:
        """The servers that a run begins with, pool after pool."""
        return [spec for process in self.processes() if process.added_at is None for spec in process.specs()]

    def fleet(self) -> Fleet:
        """The servers as the records of a run name them, those included that are added in the run."""
        specs = [spec for process in self.processes() for spec in process.specs()]
        return Fleet(
            servers=[spec.id for spec in specs],
            pool_of=np.array([spec.pool_index for spec in specs], np.int64),
            pools=[pool.name for pool in self.pools],
            rates=np.array([pool.rate for pool in self.pools], float),
            slots=np.array([pool.slots for pool in self.pools], np.int64),
            capacities=np.array([pool.capacity for pool in self.pools], float),
            routers=self.router_names(),
        )

    def policy_fleet(self) -> PolicyFleet:
        """The pools as policies check their parameters against them."""
        return PolicyFleet(
            [pool.name for pool in self.pools],
            [pool.servers for pool in self.pools],
            [pool.rate for pool in self.pools],
            [pool.slots for pool in self.pools],
            [pool.capacity for pool in self.pools],
        )


def parse_scenario(text: str, where: str, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario.

    Args:
        text: TOML.
        where: What to call the file in messages.
        overrides: `KEY=VALUE` each, as after `--set`.

    Raises:
        SettingsError: One sentence about the first thing that is wrong, missing or contradictory.
    """
    table: Any = None
    try:
        table = read_table(text, overrides)
        return Scenario.model_validate(table)
    except ValidationError as error:
        raise SettingsError(f"{explain(error, Scenario, table)} ({where})") from None
    except SettingsError as error:
        raise SettingsError(f"{error} ({where})") from None


def scenario_toml(scenario: Scenario) -> str:
    """Write a scenario as TOML, defaults included: parsed again it is the same scenario."""
    table = scenario.model_dump()
    for pool in table["pools"]:
        pool["capacity"] = "inf" if pool["capacity"] == math.inf else int(pool["capacity"])
    if not table["faults"]:
        del table["faults"]
    return write_table(table)
