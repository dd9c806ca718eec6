"""Every policy in virtual time, with everything that must hold checked after every event."""

from __future__ import annotations

from typing import Any

import pytest

from router.protocol.errors import InvariantViolation
from router.registry import policy_names
from services.scenario import Scenario, parse_scenario
from services.simulator.network import NO_DELAY, Delays
from services.simulator.run import simulate
from tests.property.variants import label, tables
from tests.swarm.mutants import MUTANTS
from tests.swarm.story import Story
from tests.swarm.watchers import Watchers

FLEETS = {
    "queues": ("servers = 3", "servers = 2\nrate = 2.0", ""),
    "slots": ("servers = 3\nslots = 2", "servers = 2\nslots = 3\nrate = 2.0", ""),
    "capacity": ("servers = 3\ncapacity = 2", "servers = 2\nslots = 2\ncapacity = 3\nrate = 2.0", ""),
    "patience": ("servers = 3", "servers = 2\nslots = 2\ncapacity = 4", "[patience]\nrate = 0.7"),
    "patience in service": ("servers = 3", "servers = 2\nslots = 2", "[patience]\nrate = 0.5\nin_service = true"),
}
NETWORKS = {"no delay": NO_DELAY, "delay": Delays(0.05, 0.1, 0.15, 0.05)}
PLAIN = [{"name": name} for name in policy_names()] + [
    {"name": "pull", "stale": "keep"},
    {"name": "pull", "stale": "duplicate"},
    {"name": "pull", "announce_at": "vacancy", "placement": "shortest_of"},
]
# The weights are those of finite capacities, which not all of the fleets have.
OTHERS = [table for table in tables() if table not in PLAIN and table.get("weights") != "capacity"]


def scenario_on(fleet: str, table: dict[str, Any], duration: float = 25.0) -> Scenario:
    first, second, more = FLEETS[fleet]
    text = f"""
        name = "watched"
        seed = 3
        policy = {{name = "random"}}
        routers = {{count = 3}}
        [[pools]]
        name = "a"
        {first}
        [[pools]]
        name = "b"
        {second}
        [arrivals]
        load = 0.95
        [run]
        warmup = 0
        duration = {duration}
        {more}
    """
    return parse_scenario(text, "here").with_policy(table)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("table", PLAIN, ids=label)
def test_everything_that_must_hold_does(table: dict[str, Any], fleet: str, network: str) -> None:
    watched(table, fleet, network)


@pytest.mark.long
@pytest.mark.parametrize("table", OTHERS, ids=label)
def test_it_holds_for_every_parameter(table: dict[str, Any]) -> None:
    for fleet in FLEETS:
        for network in NETWORKS:
            watched(table, fleet, network)


def watched(table: dict[str, Any], fleet: str, network: str) -> None:
    scenario = scenario_on(fleet, table)
    watchers = Watchers(scenario, Story(told=True))
    run = simulate(scenario, delays=NETWORKS[network], wrap=watchers.watch)
    watchers.finish()
    jobs = len(run.records.intended)
    assert watchers.story.events > 3 * jobs > 300  # at least an arrival, a dispatch and an end a job
    if network == "no delay":
        # Then every message has arrived before the next event: the last one that comes of a job's end leaves none.
        assert sum(server.quiet_points for server in watchers.servers) >= jobs
    assert (run.records.outcome >= 0).all()
    if fleet == "capacity":
        assert (run.records.outcome == 1).any()
    if fleet.startswith("patience"):
        assert (run.records.outcome == 2).any()


# -- a test of the test: here, too, mistakes are noticed; `tests.swarm.test_mutants` has all of them ----------------


@pytest.mark.parametrize(
    ("mistake", "policy", "said"),
    [
        ("last_come_first_served", "random", "starts before"),
        ("an_end_is_told_twice", "random", "a job ends twice"),
        ("a_job_is_lost", "least_requests", "ends and"),
        ("a_pull_message_is_used_twice", "pull", "pull-messages"),
        ("a_length_is_misread", "jsq", "believes in"),
    ],
)
def test_a_mistake_is_noticed(monkeypatch: pytest.MonkeyPatch, mistake: str, policy: str, said: str) -> None:
    MUTANTS[mistake](monkeypatch)
    with pytest.raises(InvariantViolation) as caught:
        watched({"name": policy}, "queues", "no delay")
    # The story is part of the error and of its message: the latest events, the last of which is to blame.
    story = caught.value.story
    assert story and str(caught.value) == "\n  ".join((caught.value.what, *story))
    assert said in caught.value.what
