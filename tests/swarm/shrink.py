"""Makes a failing case small: fewer jobs, faults, servers and features, as long as something is still violated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from router.protocol.errors import HerdlessError
from tests.swarm.cases import Case, Table
from tests.swarm.run import violation

MOST_RUNS = 400

PLAIN: Table = {"doubled": 0.0, "uneven": False, "once": 0.0, "zero": 0.0, "options": {}, "delays": [0.0] * 4}


def is_possible(case: Case) -> bool:
    """Whether it is a scenario at all."""
    try:
        scenario = case.parsed()
    except (HerdlessError, ValidationError):
        return False
    routers = scenario.router_names()
    servers = [spec.id for process in scenario.processes() for spec in process.specs()]
    known = all(router in routers for _, router, _ in case.switches)
    return known and all(server in servers for _, server, _ in case.rates)


def shrink(case: Case, fails: Callable[[Case], bool] | None = None) -> Case:
    """A case in which nothing more can be left out, as far as a few hundred runs tell.

    Args:
        case: It fails.
        fails: Whether another one does so too; left out: whether it violates the same, but for names and numbers.
    """
    if fails is None:
        wanted = _kind(violation(case))
        fails = lambda each: _kind(violation(each)) == wanted  # noqa: E731
    runs = 0
    smaller = True
    while smaller and runs < MOST_RUNS:
        smaller = False
        for candidate in _smaller(case):
            if not is_possible(candidate):
                continue
            runs += 1
            if fails(candidate):
                case, smaller = candidate, True
                break
            if runs >= MOST_RUNS:
                break
    return case


def _kind(what: str) -> str:
    """A violation without names and numbers."""
    return re.sub(r"[\w.]*-\d+|[-+e.\d]*\d", "", what.split(", at ")[0])[:60]


def _smaller(case: Case) -> Iterator[Case]:
    """What might be left out, the largest pieces first."""
    table = case.scenario
    for jobs in (case.jobs // 8, case.jobs // 2, case.jobs * 3 // 4, case.jobs * 9 // 10, case.jobs - 1):
        if 0 < jobs < case.jobs:
            yield case.but(jobs=jobs)
    yield from (case.but(switches=kept) for kept in _fewer(case.switches))
    yield from (case.but(rates=kept) for kept in _fewer(case.rates))
    yield from (case.with_scenario(faults=kept or None) for kept in _fewer(table.get("faults", [])))
    yield from (case.but(**{name: plain}) for name, plain in PLAIN.items() if getattr(case, name) != plain)
    if case.options:
        yield from (case.but(options={key: case.options[key] for key in case.options if key != left_out})
                    for left_out in case.options)  # fmt: skip
    if any(case.delays):
        yield from (case.but(delays=[*case.delays[:i], 0.0, *case.delays[i + 1 :]]) for i in range(4) if case.delays[i])
    if "patience" in table:
        yield case.with_scenario(patience=None)
    if table["service"]["law"] != "exponential":
        yield case.with_scenario(service={"law": "exponential"})
    yield from (case.with_scenario(pools=pools) for pools in _fewer_servers(table["pools"]))
    split = table["routers"]["split"]
    if len(split) > 1:
        yield case.with_scenario(routers={"split": split[1:]})
    yield from (case.with_scenario(policy=policy) for policy in _simpler(table["policy"]))
    for number, (at, router, policy) in enumerate(case.switches):
        for simpler in _simpler(policy):
            switches = [*case.switches]
            switches[number] = [at, router, simpler]
            yield case.but(switches=switches)


def _fewer(items: list[Any]) -> Iterator[list[Any]]:
    if not items:
        return
    yield []
    if len(items) > 3:
        yield items[: len(items) // 2]
        yield items[len(items) // 2 :]
    if len(items) > 1:
        yield from ([*items[:place], *items[place + 1 :]] for place in range(len(items)))


def _fewer_servers(pools: list[Table]) -> Iterator[list[Table]]:
    if len(pools) > 1:
        yield from ([*pools[:place], *pools[place + 1 :]] for place in range(len(pools)))
    for place, pool in enumerate(pools):
        changes: list[Table] = []
        if pool["servers"] > 1:
            servers = pool["servers"] - 1
            changes.append({"servers": servers, "processes": min(pool["processes"], servers)})
        if pool["processes"] > 1:
            changes.append({"processes": 1})
        if pool["slots"] > 1:
            changes.append({"slots": 1})
        if pool["capacity"] != "inf":
            changes.append({"capacity": "inf"})
        if pool["rate"] != 1.0:
            changes.append({"rate": 1.0})
        yield from ([*pools[:place], pool | change, *pools[place + 1 :]] for change in changes)


def _simpler(policy: Table) -> Iterator[Table]:
    yield from ({key: value for key, value in policy.items() if key != left_out} for left_out in policy
                if left_out != "name")  # fmt: skip
