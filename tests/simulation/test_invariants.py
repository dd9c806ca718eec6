"""Every policy in virtual time, with everything that must hold checked after every event."""

from __future__ import annotations

from typing import Any

import pytest

from router.core import RouterCore
from router.policies.pull import Pull
from router.protocol.errors import InvariantViolation
from router.protocol.messages import End, Report
from router.registry import policy_names
from server.core import ServerCore
from services.scenario import Scenario, parse_scenario
from services.simulator.checks import Checks
from services.simulator.network import NO_DELAY, Delays
from services.simulator.run import simulate
from tests.property.variants import label, tables

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
    checks = Checks()
    run = simulate(scenario_on(fleet, table), delays=NETWORKS[network], wrap=checks.watch)
    checks.finish()
    assert checks.events > 3 * len(run.records.intended) > 300  # at least an arrival, a dispatch and an end a job
    if network == "no delay":
        # Then every message has arrived before the next event: most events end quietly.
        assert checks.quiet_points > len(run.records.intended)
    assert (run.records.outcome >= 0).all()
    if fleet == "capacity":
        assert (run.records.outcome == 1).any()
    if fleet.startswith("patience"):
        assert (run.records.outcome == 2).any()


# -- tests of the test: each kind of mistake is noticed -------------------------------------------


def spoilt(table: dict[str, Any]) -> str:
    """What is said of a run in which something is wrong."""
    with pytest.raises(InvariantViolation) as caught:
        watched(table, "queues", "no delay")
    # The story is part of the error and of its message: the latest events, the last of which is to blame.
    story = caught.value.story
    assert story and str(caught.value) == "\n  ".join((caught.value.what, *story))
    return caught.value.what


def test_a_job_that_overtakes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stack:
        """A waiting room that serves the last to come."""

        def __init__(self) -> None:
            self.items: list[Any] = []
            self.append = self.items.append
            self.popleft = self.items.pop

        def __len__(self) -> int:
            return len(self.items)

    made = ServerCore.__init__

    def init(self: ServerCore, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self._waiting = Stack()  # type: ignore[assignment]

    monkeypatch.setattr(ServerCore, "__init__", init)
    assert "which came earlier" in spoilt({"name": "random"})


def test_an_end_that_is_told_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ServerCore._end

    def end(self: ServerCore, *args: Any) -> list[Any]:
        return 2 * ended(self, *args)

    monkeypatch.setattr(ServerCore, "_end", end)
    assert "of a job that is not there" in spoilt({"name": "random"})


def test_a_message_that_is_not_deleted_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pull, "_drop", lambda self, message: None)
    assert "pull-messages of" in spoilt({"name": "pull"})


def test_a_view_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = RouterCore._report

    def report(self: RouterCore, event: Report, now: float) -> list[Any]:
        return reported(self, event._replace(length=event.length + 1), now)

    monkeypatch.setattr(RouterCore, "_report", report)
    assert "believes in" in spoilt({"name": "jsq"})


def test_a_job_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = RouterCore._end

    def end(self: RouterCore, event: End, now: float) -> list[Any]:
        effects = ended(self, event, now)
        return [] if event.job == 17 else effects

    monkeypatch.setattr(RouterCore, "_end", end)
    assert "ends and" in spoilt({"name": "least_requests"})
