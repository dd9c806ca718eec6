"""What goes wrong in a run, and when: the `[[faults]]` of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from router.protocol.faults import fault, listed, shown
from server.openapi import LARGEST
from services.scenario_parts import MOST_SERVERS, Name, NotNegative, Part, Pool
from services.scenario_processes import ServersProcess, with_added

Kind = Literal["kill", "restart", "hang", "resume", "slow", "fail", "drain", "add", "cut", "heal", "delay"]

KEYS: dict[Kind, tuple[str, ...]] = {
    "kill": ("target",),
    "restart": ("target",),
    "hang": ("target",),
    "resume": ("target",),
    "slow": ("target", "factor"),
    "fail": ("target",),
    "drain": ("target",),
    "add": ("pool", "servers"),
    "cut": ("between",),
    "heal": ("between",),
    "delay": ("between", "delay"),
}
"""What each kind must say, besides `at` and `kind`; `cut` may say `half_open`."""

OF_PROCESSES = ("kill", "restart", "drain")
OF_SERVERS = ("slow", "fail")
"""Whom they may strike: processes only, and servers only (a process of them: all of its servers). The rest: both."""

MOST_FAULTS = 1_000

HEARTBEAT_S = 1.0
"""How often the processes of a run with faults ask a silent peer whether it is there."""

SILENCE = 1.5
"""Heartbeats after which a silent peer is given up: one until it is asked, half of one for the answer."""

_EXPECTED = {
    "target": "the name of a router, a server process or a server",
    "factor": f"a number from {1.0 / LARGEST:g} to {LARGEST:g}",
    "pool": "the name of a pool",
    "servers": "a whole number >= 1",
    "between": "a router and a server process",
    "delay": "a number >= 0, in time units",
}


class Fault(Part):
    """Something that goes wrong at an instant, or is mended.

    Units: time units; `at` from the start of the run, warm-up included.

    Attributes:
        at: When. What lies beyond the end of the run does not happen.
        kind: `kill` a process. `restart` it: a new incarnation of the same name; killed first if it is alive.
            `hang`: a process stands still, or a server ends no service. `slow`: services that start take `factor`
            times as long. `fail`: jobs fail at once. `resume` ends hang, slow and fail. `drain`: the process takes
            nothing new, finishes what it has and ends. `add`: a new process with so many `servers` of `pool`. `cut`
            the link `between` a router and a server process, so that both notice (`half_open`: neither is told).
            `delay` its messages, each way. `heal` ends cut and delay.
        target: Whom it strikes.
    """

    at: NotNegative
    kind: Annotated[Kind, Field(description=listed(shown(kind) for kind in get_args(Kind)))]
    target: Name | None = None
    factor: Annotated[float | None, Field(ge=1.0 / LARGEST, le=LARGEST, description=_EXPECTED["factor"])] = None
    between: Annotated[list[Name] | None, Field(min_length=2, max_length=2, description=_EXPECTED["between"])] = None
    half_open: bool = False
    delay: NotNegative | None = None
    pool: Name | None = None
    servers: Annotated[int | None, Field(ge=1, le=MOST_SERVERS)] = None

    @model_validator(mode="after")
    def _says_what_its_kind_needs(self) -> Self:
        needed = KEYS[self.kind]
        for key in needed:
            if getattr(self, key) is None:
                raise fault(f'missing, kind "{self.kind}" needs it: expected {_EXPECTED[key]}', key)
        for key in _EXPECTED:
            if key not in needed and getattr(self, key) is not None:
                raise fault(f'kind "{self.kind}" has no such key: leave it out', key)
        if self.half_open and self.kind != "cut":
            raise fault(f'kind "{self.kind}" has no such key: leave it out', "half_open")
        return self

    @property
    def words(self) -> str:
        """What happens, as people read it."""
        match self.kind:
            case "add":
                return f"add {self.servers} to {self.pool}"
            case "cut" | "heal" | "delay":
                assert self.between is not None
                how = " half-open" if self.half_open else f" by {self.delay:g}" if self.delay is not None else ""
                return f"{self.kind} {self.between[0]} – {self.between[1]}{how}"
            case "slow":
                return f"slow {self.target} by {self.factor:g}"
        return f"{self.kind} {self.target}"


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Faults by instant; those of one instant stay in the order of the file."""
    return sorted(faults, key=lambda each: each.at)


def all_processes(pools: Sequence[Pool], faults: Iterable[Fault]) -> list[ServersProcess]:
    """The server processes of a run, those included that faults add."""
    additions = [(each.at, each.pool, each.servers) for each in in_order(faults) if each.kind == "add"]
    return with_added(pools, [(at, pool or "", servers or 0) for at, pool, servers in additions])


def check_faults(faults: Sequence[Fault], routers: Sequence[str], pools: Sequence[Pool]) -> None:
    """Refuse a fault that strikes what is not there.

    Raises:
        PydanticCustomError: Which one, and what there is.
    """
    names = [pool.name for pool in pools]
    for number, each in enumerate(faults):
        if each.kind == "add" and each.pool not in names:
            raise _wrong(number, "pool", each.pool, f"no such pool; known are {', '.join(names)}")
    processes = all_processes(pools, faults)
    _check_additions(processes)
    for number, each in enumerate(faults):
        if each.target is not None:
            _check_target(number, each, routers, processes)
        if each.between is not None:
            _check_between(number, each.between, each.at, routers, processes)


def _check_additions(processes: Sequence[ServersProcess]) -> None:
    names = [process.name for process in processes]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise fault(f"two processes would be called {twice[0]}: choose another name for a pool", "faults")
    servers = sum(process.servers for process in processes)
    if servers > MOST_SERVERS:
        raise fault(f"{servers} servers in all, expected at most {MOST_SERVERS}", "faults")


def _check_target(number: int, each: Fault, routers: Sequence[str], processes: Sequence[ServersProcess]) -> None:
    target = each.target
    owner = next((process for process in processes if process.name == target), None)
    if target in routers or owner is not None:
        if each.kind in OF_SERVERS and owner is None:
            raise _wrong(number, "target", target,
                         f'but kind "{each.kind}" is of servers: expected a server process or a server')  # fmt: skip
        _check_there(number, "target", target, each.at, owner)
        return
    owner = next((process for process in processes if _has(process, target)), None)
    if owner is None:
        raise _wrong(number, "target", target, f"no such router, server process or server; processes are "
                     f"{_some([*routers, *(process.name for process in processes)])}")  # fmt: skip
    if each.kind in OF_PROCESSES:
        raise _wrong(number, "target", target,
                     f'but kind "{each.kind}" is of whole processes: this server is one of {owner.name}')  # fmt: skip
    _check_there(number, "target", target, each.at, owner)


def _check_between(
    number: int, between: list[str], at: float, routers: Sequence[str], processes: Sequence[ServersProcess]
) -> None:
    router, name = between
    owner = next((process for process in processes if process.name == name), None)
    if router not in routers:
        raise _wrong(number, "between", between, f"expected a router first; known are {_some(routers)}")
    if owner is None:
        known = _some([process.name for process in processes])
        raise _wrong(number, "between", between, f"expected a server process second; known are {known}")
    _check_there(number, "between", between, at, owner)


def _check_there(number: int, key: str, found: Any, at: float, owner: ServersProcess | None) -> None:
    if owner is not None and owner.added_at is not None and owner.added_at > at:
        raise _wrong(number, key, found, f"but {owner.name} is added only at {owner.added_at:g}: choose a later at")


def _has(process: ServersProcess, server: str | None) -> bool:
    prefix, _, number = (server or "").rpartition("-")
    if prefix != process.pool.name or not number.isascii() or not number.isdecimal() or number.startswith("0"):
        return False
    return process.first <= int(number) < process.first + process.servers


def _some(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= 12 else [*names[:11], "…"])


def _wrong(number: int, key: str, found: Any, text: str) -> Exception:
    return fault(text, "faults", number, key, found=found)
