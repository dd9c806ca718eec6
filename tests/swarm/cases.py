"""A case of the swarm: a small world, its jobs and what goes wrong, all drawn from one number."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from router.policy import Fleet, Parameters
from router.protocol.errors import SettingsError
from router.registry import make_parameters, make_policy, policy_names, policy_type
from services.scenario import Scenario

Table = dict[str, Any]

MOST_JOBS = 300
DELAYS = (0.0, 0.02, 0.3, 1.5)
SLOTTED_ONLY = ("batch",)


@dataclass(frozen=True)
class Case:
    """Everything that a run depends on; written as JSON it runs again elsewhere.

    Attributes:
        seed: Of what is not written here: the sizes of jobs, the choices of policies.
        scenario: As TOML has it.
        jobs: The most jobs.
        delays: Generator to router, router to server, and the same ways back, in time units.
        switches: When which router is given which policy. `rates`: when which server has which rate.
        uneven: Each link has delays of its own.
        doubled: The share of the messages of servers that arrive twice.
        zero: The share of jobs of size 0, and of those without any patience where jobs have some.
        once: The share of jobs that may be served only once.
        options: Arguments of router cores.
    """

    seed: int
    scenario: Table
    jobs: int = MOST_JOBS
    delays: list[float] = field(default_factory=lambda: [0.0] * 4)
    switches: list[list[Any]] = field(default_factory=list)
    rates: list[list[Any]] = field(default_factory=list)
    uneven: bool = False
    doubled: float = 0.0
    zero: float = 0.0
    once: float = 0.0
    options: Table = field(default_factory=dict)

    def parsed(self) -> Scenario:
        """The scenario, checked."""
        return Scenario.model_validate(self.scenario)

    def json(self) -> str:
        """In one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def read(text: str) -> Case:
        """What `json` wrote."""
        return Case(**json.loads(text))

    def but(self, **changes: Any) -> Case:
        """Another case, which differs in this."""
        return replace(self, **changes)

    def with_scenario(self, **changes: Any) -> Case:
        """Another case, whose scenario differs in this; `None` leaves a key out."""
        table = {key: value for key, value in (self.scenario | changes).items() if value is not None}
        return replace(self, scenario=table)


def draw(seed: int) -> Case:
    """The case of that number."""
    rng = Random(f"swarm:{seed}")
    routers = rng.choice([1, 1, 2, 2, 3, 4])
    pools = [_pool(rng, name) for name in ("a", "b", "c")[: rng.choice([1, 1, 2, 2, 3])]]
    fleet = _fleet(pools)
    capacity = sum(pool["servers"] * pool["slots"] * pool["rate"] for pool in pools)
    rate = capacity * rng.choice([0.3, 0.6, 0.8, 0.95, 1.2, 2.0])
    duration = min(MOST_JOBS / rate, 200.0)
    scenario: Table = {
        "name": "swarm",
        "seed": seed,
        # The heartbeat, the patience of routers with probes and the pauses of those who dial are seconds.
        "time_unit_s": rng.choice([0.1, 0.3, 1.0, 2.0]),
        "policy": draw_policy(rng, fleet),
        "routers": {"split": [rng.choice([0.0, 0.5, 1.0, 1.0, 1.0]) for _ in range(routers - 1)] + [1.0]},
        "pools": pools,
        "arrivals": {"law": rng.choice(["poisson", "poisson", "poisson", "deterministic"]), "rate_total": rate},
        "service": rng.choice(
            [{"law": "exponential"}, {"law": "exponential"}, {"law": "deterministic"}, {"law": "pareto", "shape": 1.6}]
        ),
        "run": {"warmup": 0.0, "duration": duration},
    }
    if rng.random() < 0.4:
        scenario["patience"] = {"rate": rng.choice([0.05, 0.3, 2.0]), "in_service": rng.random() < 0.3}
    if rng.random() < 0.8:
        scenario["faults"] = _faults(rng, scenario, duration)
    return Case(
        seed,
        scenario,
        delays=[rng.choice(DELAYS) for _ in range(4)] if rng.random() < 0.6 else [0.0] * 4,
        uneven=rng.random() < 0.2,
        switches=_switches(rng, routers, fleet, duration) if rng.random() < 0.3 else [],
        rates=_rates(rng, pools, duration) if rng.random() < 0.2 else [],
        doubled=rng.choice([0.02, 0.3]) if rng.random() < 0.25 else 0.0,
        zero=0.2 if rng.random() < 0.15 else 0.0,
        once=rng.choice([0.0, 0.0, 0.5]),
        options=_options(rng),
    )


def _pool(rng: Random, name: str) -> Table:
    servers, slots = rng.randint(1, 4), rng.choice([1, 1, 1, 2, 3])
    return {
        "name": name,
        "servers": servers,
        "rate": rng.choice([0.5, 1.0, 1.0, 2.0, 4.0]),
        "slots": slots,
        "capacity": rng.choice(["inf", "inf", slots, slots + 1, slots + 4]),
        "processes": rng.randint(1, min(3, servers)),
    }


def _fleet(pools: list[Table]) -> Fleet:
    capacities = [float(pool["capacity"]) for pool in pools]
    names, servers, rates, slots = ([pool[key] for pool in pools] for key in ("name", "servers", "rate", "slots"))
    return Fleet(names, servers, rates, slots, capacities)


def _options(rng: Random) -> Table:
    found: Table = {}
    if rng.random() < 0.5:
        found["retries"] = rng.choice([1, 1, 2, 3])
    if rng.random() < 0.3:
        found["memory"] = {"failures": rng.choice([1, 2, 5]), "forgive": rng.choice([1.0, 5.0]), "longest": 20.0}
        if rng.random() < 0.6:
            found["memory"]["hang"] = rng.choice([1.0, 4.0])
    if rng.random() < 0.3:
        found |= {"stale_after": rng.choice([0.5, 3.0]), "stale": rng.choice(["ignore", "average", "full"])}
    if rng.random() < 0.1:
        found["ceiling"] = rng.choice([1, 5, 30])
    return found


# -- policies ----------------------------------------------------------------------------------------


def draw_policy(rng: Random, fleet: Fleet) -> Table:
    """A policy with parameters that suit this fleet."""
    while True:
        name = rng.choice(policy_names())
        table: Table = {"name": name}
        for key, about in policy_type(name).parameters_type.model_fields.items():
            if key not in SLOTTED_ONLY and rng.random() < 0.4:
                annotation = Annotated[about.annotation, *about.metadata] if about.metadata else about.annotation
                value = _value(rng, annotation, fleet)
                if value is not None:
                    table[key] = value
        if _suits(table, fleet):
            return table


def _suits(table: Table, fleet: Fleet) -> bool:
    try:
        parameters: Parameters = make_parameters(table)[1]
        parameters.check(fleet)
        make_policy(table, Random(0))
    except SettingsError:
        return False
    return True


def _value(rng: Random, annotation: Any, fleet: Fleet) -> Any:
    """Something of a type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(rng, arguments[0], fleet)
    if origin is Literal:
        return rng.choice(arguments)
    if origin in (Union, types.UnionType):
        return _value(rng, rng.choice(arguments), fleet)
    if origin is list:
        return [rng.choice([0.0, 1.0, 2.5]) for _ in fleet.pools]
    plain: dict[Any, Callable[[], Any]] = {
        bool: lambda: rng.random() < 0.5,
        int: lambda: rng.choice([0, 1, 2, 3]),
        float: lambda: rng.choice([0.1, 0.5, 1.0, 2.0]),
    }
    return plain[annotation]() if annotation in plain else None


def _switches(rng: Random, routers: int, fleet: Fleet, duration: float) -> list[list[Any]]:
    found = []
    for _ in range(rng.randint(1, 3)):
        at, table = _instant(rng, duration), draw_policy(rng, fleet)
        # Mostly all routers, as `herdless policy` does it; sometimes one, which leaves them of two minds.
        names = range(1, routers + 1) if rng.random() < 0.7 else [rng.randint(1, routers)]
        found += [[at, f"router-{number}", table] for number in names]
    return sorted(found, key=lambda each: float(each[0]))


def _rates(rng: Random, pools: list[Table], duration: float) -> list[list[Any]]:
    servers = [f"{pool['name']}-{number + 1}" for pool in pools for number in range(pool["servers"])]
    found = [
        [_instant(rng, duration), rng.choice(servers), rng.choice([0.2, 1.0, 3.0])] for _ in range(rng.randint(1, 4))
    ]
    return sorted(found, key=lambda each: float(each[0]))


# -- faults ------------------------------------------------------------------------------------------

KINDS = ("kill", "restart", "hang", "slow", "fail", "drain", "add", "cut", "cut", "delay")
MENDED_BY = {"kill": "restart", "drain": "restart", "hang": "resume", "slow": "resume", "fail": "resume",
             "cut": "heal", "delay": "heal"}  # fmt: skip


def _instant(rng: Random, duration: float) -> float:
    """Sometimes one at which other things happen too."""
    if rng.random() < 0.3:
        return duration * rng.randint(0, MOST_JOBS) / MOST_JOBS
    return round(rng.uniform(0.0, duration), 3)


def _faults(rng: Random, scenario: Table, duration: float) -> list[Table]:
    found: list[Table] = []
    for _ in range(rng.choice([1, 1, 2, 3, 5, 8])):
        fault = _fault(rng, scenario, duration)
        found.append(fault)
        mended_by = MENDED_BY.get(fault["kind"])
        if mended_by is not None and rng.random() < 0.8:
            after = rng.expovariate(1.0 / rng.choice([0.5, 3.0, 15.0]))
            where = "between" if "between" in fault else "target"
            at = round(min(fault["at"] + after, duration), 3)
            found.append({"at": at, "kind": mended_by, where: fault[where]})
    return found


def _fault(rng: Random, scenario: Table, duration: float) -> Table:
    kind = rng.choice(KINDS)
    routers = [f"router-{place + 1}" for place in range(len(scenario["routers"]["split"]))]
    processes = Scenario.model_validate(scenario | {"faults": []}).processes()
    servers = [spec.id for process in processes for spec in process.specs()]
    names = [process.name for process in processes]
    fault: Table = {"at": _instant(rng, duration), "kind": kind}
    if kind in ("cut", "delay"):
        fault["between"] = [rng.choice(routers), rng.choice(names)]
        if kind == "delay":
            fault["delay"] = rng.choice([0.01, 0.5, 3.0])
        elif rng.random() < 0.5:
            fault["half_open"] = True
    elif kind == "add":
        pool = rng.choice(scenario["pools"])["name"]
        fault |= {"pool": pool, "servers": rng.randint(1, 2)}
    else:
        fault["target"] = rng.choice(_struck_by(kind, routers, names, servers, rng))
        if kind == "slow":
            fault["factor"] = rng.choice([0.5, 3.0, 20.0])
    return fault


def _struck_by(kind: str, routers: list[str], names: list[str], servers: list[str], rng: Random) -> list[str]:
    if kind in ("slow", "fail"):
        return rng.choice([names, servers])
    if kind == "hang":
        return rng.choice([routers, names, servers])
    return rng.choice([routers, names])
