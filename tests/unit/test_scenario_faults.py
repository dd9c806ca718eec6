"""The faults of a scenario: what they mean, whom they strike, and one exact message for whatever is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from router.protocol.errors import SettingsError
from router.protocol.notices import MAX_SERVERS
from services.lab.terminal import faults_line
from services.scenario import Scenario, parse_scenario, scenario_toml
from services.scenario_text import write_table

BASE = """
name = "x"
policy.name = "pull"
routers.count = 2
arrivals.load = 0.5
run = {warmup = 10, duration = 90}

[[pools]]
name = "slow"
servers = 3

[[pools]]
name = "fast"
servers = 8
processes = 3
rate = 2.0
"""


def scenario(*faults: dict[str, Any], overrides: tuple[str, ...] = ()) -> Scenario:
    return parse_scenario(BASE + (write_table({"faults": list(faults)}) if faults else ""), "x.toml", overrides)


def mistake(*faults: dict[str, Any], overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(SettingsError) as caught:
        scenario(*faults, overrides=overrides)
    return str(caught.value)


def test_a_pool_is_split_into_processes_as_evenly_as_possible() -> None:
    found = scenario().processes()

    assert [(process.name, process.first, process.servers) for process in found] == [
        ("servers-slow", 1, 3),
        ("servers-fast-1", 1, 3),
        ("servers-fast-2", 4, 3),
        ("servers-fast-3", 7, 2),
    ]
    assert [spec.id for spec in found[2].specs()] == ["fast-4", "fast-5", "fast-6"]
    assert all(process.added_at is None for process in found)


def test_a_pool_that_is_too_large_for_one_process_is_split_by_itself() -> None:
    found = scenario(overrides=("pools.0.servers=5000",)).processes()

    assert [process.servers for process in found[:2]] == [2500, 2500]
    assert max(process.servers for process in found) <= MAX_SERVERS
    assert found[0].name == "servers-slow-1"


def test_what_is_added_counts_on_in_the_order_of_time() -> None:
    found = scenario(
        {"at": 50, "kind": "add", "pool": "slow", "servers": 1},
        {"at": 20, "kind": "add", "pool": "slow", "servers": 2},
        {"at": 60, "kind": "add", "pool": "fast", "servers": 1},
        {"at": 70, "kind": "kill", "target": "servers-slow-3"},
        {"at": 20, "kind": "slow", "target": "slow-5", "factor": 3},
    )

    added = [process for process in found.processes() if process.added_at is not None]
    assert [(process.name, process.added_at, [spec.id for spec in process.specs()]) for process in added] == [
        ("servers-slow-2", 20.0, ["slow-4", "slow-5"]),
        ("servers-slow-3", 50.0, ["slow-6"]),
        ("servers-fast-4", 60.0, ["fast-9"]),
    ]
    assert len(found.server_specs()) == 11
    fleet = found.fleet()
    assert fleet.servers[11:] == ["slow-4", "slow-5", "slow-6", "fast-9"]
    assert fleet.pool_of.tolist()[11:] == [0, 0, 0, 1]


def test_the_timeline_is_in_order_and_ends_with_the_run() -> None:
    found = scenario(
        {"at": 101, "kind": "kill", "target": "router-1"},
        {"at": 40, "kind": "resume", "target": "router-2"},
        {"at": 30, "kind": "hang", "target": "router-2"},
        {"at": 40, "kind": "cut", "between": ["router-1", "servers-slow"], "half_open": True},
        {"at": 100, "kind": "delay", "between": ["router-1", "servers-slow"], "delay": 0.5},
    )

    assert [(fault.at, fault.words) for fault in found.timeline()] == [
        (30.0, "hang router-2"),
        (40.0, "resume router-2"),
        (40.0, "cut router-1 – servers-slow half-open"),
        (100.0, "delay router-1 – servers-slow by 0.5"),
    ]


def test_faults_are_written_out_and_may_be_overridden() -> None:
    found = scenario(
        {"at": 30, "kind": "slow", "target": "servers-fast-1", "factor": 2.5},
        overrides=("faults.0.at=31.5", "faults.0.target=fast-8"),
    )

    assert found.faults[0].words == "slow fast-8 by 2.5" and found.faults[0].at == 31.5
    assert parse_scenario(scenario_toml(found), "x.toml") == found
    assert scenario(overrides=("faults=[{at = 1, kind = 'drain', target = 'router-1'}]",)).faults[0].kind == "drain"
    assert "faults" not in scenario_toml(scenario())


def test_what_goes_wrong_is_said_in_one_line() -> None:
    found = scenario(
        {"at": 30, "kind": "kill", "target": "router-1"}, {"at": 20, "kind": "add", "pool": "slow", "servers": 2}
    )

    assert list(faults_line(found)) == ["faults: add 2 to slow at 20; kill router-1 at 30"]
    assert list(faults_line(scenario())) == []


KINDS = (
    'expected "kill", "restart", "hang", "resume", "slow", "fail", "drain", "add", "cut", "heal" or "delay"'
)  # fmt: skip
KNOWN = "router-1, router-2, servers-slow, servers-fast-1, servers-fast-2, servers-fast-3"
LINK = ["router-1", "servers-slow"]

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"at": 1}, f"faults.0.kind: missing, {KINDS}"),
    "no instant": ({"kind": "kill", "target": "router-1"}, "faults.0.at: missing, expected a number >= 0"),
    "unknown kind": ({"at": 1, "kind": "burn", "target": "router-1"}, f'faults.0.kind = "burn", {KINDS}'),
    "before the start": (
        {"at": -1, "kind": "kill", "target": "router-1"},
        "faults.0.at = -1, expected a number >= 0",
    ),
    "typing error": (
        {"at": 1, "kind": "kill", "tagret": "router-1"},
        'faults.0.tagret: no such key; did you mean "target"?',
    ),
    "no target": (
        {"at": 1, "kind": "kill"},
        'faults.0.target: missing, kind "kill" needs it: '
        "expected the name of a router, a server process or a server",
    ),
    "no factor": (
        {"at": 1, "kind": "slow", "target": "fast-1"},
        'faults.0.factor: missing, kind "slow" needs it: expected a number from 1e-06 to 1e+06',
    ),
    "slower than a server can be": (
        {"at": 1, "kind": "slow", "target": "fast-1", "factor": 1e9},
        "faults.0.factor = 1000000000.0, expected a number from 1e-06 to 1e+06",
    ),
    "no delay": (
        {"at": 1, "kind": "delay", "between": LINK},
        'faults.0.delay: missing, kind "delay" needs it: expected a number >= 0, in time units',
    ),
    "no factor there": (
        {"at": 1, "kind": "kill", "target": "router-1", "factor": 2},
        'faults.0.factor: kind "kill" has no such key: leave it out',
    ),
    "no half a kill": (
        {"at": 1, "kind": "kill", "target": "router-1", "half_open": True},
        'faults.0.half_open: kind "kill" has no such key: leave it out',
    ),
    "unknown target": (
        {"at": 1, "kind": "kill", "target": "router-3"},
        f'faults.0.target = "router-3", no such router, server process or server; processes are {KNOWN}',
    ),
    "no such server": (
        {"at": 1, "kind": "hang", "target": "fast-9"},
        f'faults.0.target = "fast-9", no such router, server process or server; processes are {KNOWN}',
    ),
    "a server is no process": (
        {"at": 1, "kind": "kill", "target": "fast-7"},
        'faults.0.target = "fast-7", but kind "kill" is of whole processes: this server is one of servers-fast-3',
    ),
    "a router has no service": (
        {"at": 1, "kind": "slow", "target": "router-1", "factor": 2},
        'faults.0.target = "router-1", but kind "slow" is of servers: expected a server process or a server',
    ),
    "one end": (
        {"at": 1, "kind": "cut", "between": ["router-1"]},
        'faults.0.between = ["router-1"], expected a router and a server process',
    ),
    "the wrong way round": (
        {"at": 1, "kind": "cut", "between": ["servers-slow", "router-1"]},
        'faults.0.between = ["servers-slow", "router-1"], expected a router first; known are router-1, router-2',
    ),
    "no link to a server": (
        {"at": 1, "kind": "heal", "between": ["router-1", "slow-1"]},
        'faults.0.between = ["router-1", "slow-1"], expected a server process second; known are servers-slow, '
        "servers-fast-1, servers-fast-2, servers-fast-3",
    ),
    "no such pool": (
        {"at": 1, "kind": "add", "pool": "quick", "servers": 1},
        'faults.0.pool = "quick", no such pool; known are slow, fast',
    ),
    "too many": (
        {"at": 1, "kind": "add", "pool": "slow", "servers": 9_990},
        "faults: 10001 servers in all, expected at most 10000",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_wrong_fault_gets_one_exact_message(fault: dict[str, Any], expected: str) -> None:
    assert mistake(fault) == f"{expected} (x.toml)"


def test_what_is_added_later_cannot_fail_yet() -> None:
    add = {"at": 50, "kind": "add", "pool": "slow", "servers": 1}
    for fault in (
        {"at": 49, "kind": "kill", "target": "servers-slow-2"},
        {"at": 49, "kind": "slow", "target": "slow-4", "factor": 2},
        {"at": 49, "kind": "cut", "between": ["router-1", "servers-slow-2"]},
    ):
        assert mistake(fault, add).endswith("but servers-slow-2 is added only at 50: choose a later at (x.toml)")
        assert scenario({**fault, "at": 50}, add).faults


def test_more_processes_than_servers_are_refused() -> None:
    assert mistake(overrides=("pools.0.processes=4",)) == (
        "pools.0.processes = 4, but servers = 3: choose processes <= 3 (x.toml)"
    )
    assert mistake(overrides=("pools.0.processes=0",)) == (
        "pools.0.processes = 0, expected a whole number from 1 to 1000 (x.toml)"
    )


def test_no_two_processes_have_one_name() -> None:
    assert mistake(overrides=("pools.0.name=fast-2",)) == (
        'pools.1.name = "fast", but pools.0 has a process servers-fast-2 too: choose another name (x.toml)'
    )
    fault = {"at": 1, "kind": "add", "pool": "fast", "servers": 1}
    assert mistake(fault, overrides=("pools.0.name=fast-4",)) == (
        "faults: two processes would be called servers-fast-4: choose another name for a pool (x.toml)"
    )


def test_slotted_time_has_no_faults() -> None:
    fault = {"at": 1, "kind": "kill", "target": "router-1"}
    assert mistake(fault, overrides=("run.time=slotted",)) == (
        'faults: for run.time = "slotted" nothing fails: leave [[faults]] out (x.toml)'
    )
