"""Faults in virtual time: short stories whose ends are known by hand.

A time unit is 0.1 s: a silent peer is asked after 10 time units and given up after 15.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from router.app.settings import RouterSettings
from router.protocol.messages import OUTCOMES
from router.registry import policy_names
from server.app.settings import ServerSettings
from services.loadgen.workload import Workload, draw_workload
from services.measure.records import Records
from services.scenario import Scenario, parse_scenario
from services.scenario_text import write_table
from services.simulator import faulty_world as settings
from services.simulator.network import NO_DELAY, Delays
from services.simulator.run import simulate

BASE = """
name = "x"
policy.name = "jsq"
arrivals.load = 0.5
run = {warmup = 0, duration = 100}

[[pools]]
name = "a"
servers = 1
"""

PEACEFUL = """
name = "x"
routers.count = 3
run = {warmup = 5, duration = 25}
arrivals.load = 0.8
patience.rate = 0.2

[[pools]]
name = "slow"
servers = 4
capacity = 4

[[pools]]
name = "fast"
servers = 4
rate = 2.0
slots = 2
processes = 2
"""


def scenario(*wrong: dict[str, Any], overrides: tuple[str, ...] = (), text: str = BASE) -> Scenario:
    return parse_scenario(text + write_table({"faults": list(wrong)}), "x.toml", overrides)


def at(instant: float, kind: str, target: str = "servers-a", **more: Any) -> dict[str, Any]:
    return {"at": instant, "kind": kind, "target": target, **more}


def on_link(instant: float, kind: str, **more: Any) -> dict[str, Any]:
    return {"at": instant, "kind": kind, "between": ["router-1", "servers-a"], **more}


def story(experiment: Scenario, *jobs: tuple[float, float], router: int = 0, delays: Delays = NO_DELAY) -> Records:
    """What becomes of jobs that arrive at given instants, with given sizes."""
    instants, sizes = np.array(jobs).T
    workload = Workload(instants, np.full(len(jobs), router), sizes, np.full(len(jobs), np.nan))
    return simulate(experiment, workload, delays=delays).records


def ends(records: Records) -> list[tuple[str, float]]:
    return [(OUTCOMES[outcome], ended) for outcome, ended in zip(records.outcome, records.ended, strict=True)]


# -- processes that end ----------------------------------------------------------------------------


def test_the_jobs_of_a_killed_server_process_are_lost_and_the_next_incarnation_is_empty() -> None:
    found = story(
        scenario(at(5, "kill"), at(20, "restart")),
        (1, 10),  # in service when it dies
        (2, 10),  # waiting
        (10, 1),  # nobody is there
        (60, 3),  # the servers have dialled again, within 2 s = 20 time units
    )

    assert ends(found) == [("failed", 5), ("failed", 5), ("failed", 10), ("served", 63)]


def test_the_jobs_of_a_killed_router_are_lost_and_the_servers_work_goes_on() -> None:
    two = ("routers.count=2", "policy.name=random")
    killed = scenario(at(5, "kill", "router-1"), at(20, "restart", "router-1"), overrides=two)

    assert ends(story(killed, (1, 10), (10, 1), (20, 3))) == [("failed", 5), ("failed", 10), ("failed", 20)]
    assert ends(story(killed, (1, 10), (40, 3))) == [("failed", 5), ("served", 43)]
    # The job of the dead router is served unheard until 11, and that of the other one waits for it.
    instants = np.array([1.0, 6.0])
    workload = Workload(instants, np.array([0, 1]), np.array([10.0, 2.0]), np.full(2, np.nan))
    assert ends(simulate(killed, workload).records) == [("failed", 5), ("served", 13)]


def test_a_process_that_drains_finishes_what_it_has() -> None:
    two = BASE.replace("servers = 1", "servers = 2\nprocesses = 2")
    drained = scenario(at(5, "drain", "servers-a-1"), text=two)

    found = story(drained, (1, 10), (1, 10), (6, 1), (8, 1), (50, 2))

    # From 5 on only a-2 takes jobs: after 11 the one, then the other.
    assert ends(found) == [("served", 11), ("served", 11), ("served", 12), ("served", 13), ("served", 52)]
    assert sorted(found.server[:2].tolist()) == [0, 1] and found.server[2:].tolist() == [1, 1, 1]


def test_a_router_that_drains_refuses_and_ends() -> None:
    drained = scenario(at(5, "drain", "router-1"), at(30, "restart", "router-1"))

    found = story(drained, (1, 10), (6, 1), (20, 1), (60, 1))

    assert ends(found) == [("served", 11), ("failed", 6), ("failed", 20), ("served", 61)]


def test_servers_that_are_added_take_jobs() -> None:
    added = scenario({"at": 5, "kind": "add", "pool": "a", "servers": 1})

    found = story(added, (1, 50), (2, 50), (40, 1))

    assert ends(found) == [("served", 51), ("served", 101), ("served", 41)]
    assert found.server.tolist() == [0, 0, 1]


# -- processes that stand still ---------------------------------------------------------------------


def test_a_short_hang_delays_what_is_told_and_not_the_schedule() -> None:
    hung = scenario(at(5, "hang"), at(15, "resume"))

    found = story(hung, (1, 6), (2, 3), (8, 1))

    # The first is over at 7, the second at 10, as scheduled; both are told at 15. The third comes in at 15.
    assert ends(found) == [("served", 15), ("served", 15), ("served", 16)]
    assert found.service.tolist() == [6, 3, 1]
    assert found.waiting.tolist() == [0, 5, 0]


def test_a_long_hang_costs_the_links() -> None:
    hung = scenario(at(5, "hang"), at(70, "resume"))

    # The report on the dispatch of the first job was heard at 1; nothing else until the hang at 5: given up at 16.
    found = story(hung, (1, 10), (3, 10), (8, 1), (20, 1), (95, 1))

    # The second dispatch is reported at 3, the last thing heard: given up at 18.
    assert ends(found) == [("failed", 18), ("failed", 18), ("failed", 18), ("failed", 20), ("served", 96)]


def test_a_router_that_hangs_reads_what_came_when_it_goes_on() -> None:
    hung = scenario(at(5, "hang", "router-1"), at(12, "resume", "router-1"))

    assert ends(story(hung, (1, 6), (8, 1))) == [("served", 12), ("served", 13)]


def test_what_hangs_when_the_run_is_over_is_resumed() -> None:
    found = story(scenario(at(90, "hang")), (89, 3), (95, 1))

    assert ends(found) == [("served", 100), ("served", 101)]


def test_what_stands_still_is_not_told_to_misbehave() -> None:
    failing = scenario(at(5, "hang"), at(6, "fail"), at(9, "hang", "a-1"), at(15, "resume"))

    # The second is read at 15, by a server that nobody has told anything.
    assert ends(story(failing, (1, 6), (8, 1), (30, 2))) == [("served", 15), ("served", 16), ("served", 32)]

    # Whom the resume of a server does not reach stays as slow as it was.
    slow = scenario(at(2, "slow", factor=3), at(5, "hang"), at(6, "resume", "a-1"), at(15, "resume"))
    assert ends(story(slow, (3, 1), (8, 2))) == [("served", 15), ("served", 21)]


def test_what_stands_still_goes_on_to_drain() -> None:
    drained = scenario(at(5, "hang"), at(12, "drain"))

    assert ends(story(drained, (1, 6), (2, 6), (20, 1))) == [("served", 12), ("served", 13), ("failed", 20)]


# -- servers that misbehave -------------------------------------------------------------------------


def test_a_slow_server_takes_its_time() -> None:
    slow = scenario(at(5, "slow", "a-1", factor=3), at(30, "resume", "a-1"))

    # The service that has begun lasts as long as it was to; the next one takes three times as long.
    assert ends(story(slow, (1, 6), (6, 2), (40, 2))) == [("served", 7), ("served", 13), ("served", 42)]


def test_a_failing_server_fails_at_once_and_a_hung_one_never_ends() -> None:
    failing = scenario(at(5, "fail", "a-1"), at(30, "resume", "a-1"))
    assert ends(story(failing, (1, 6), (6, 2), (40, 2))) == [("served", 7), ("failed", 6), ("served", 42)]

    hung = scenario(at(5, "hang", "a-1"), at(30, "resume", "a-1"))
    assert ends(story(hung, (1, 6), (6, 2))) == [("served", 30), ("served", 32)]


def test_a_process_may_be_struck_in_all_its_servers() -> None:
    two = BASE.replace("servers = 1", "servers = 2")
    slow = scenario(at(5, "slow", factor=2), text=two)

    assert ends(story(slow, (6, 3), (6, 3))) == [("served", 12), ("served", 12)]


# -- links ------------------------------------------------------------------------------------------


def test_a_cut_is_known_at_once_and_the_server_works_on_unheard() -> None:
    cut = scenario(on_link(5, "cut"), on_link(30, "heal"))

    found = story(cut, (1, 40), (10, 1), (60, 3))

    # The lost job occupies its server until 41.
    assert ends(found) == [("failed", 5), ("failed", 10), ("served", 63)]
    unheard = story(scenario(on_link(5, "cut"), on_link(6, "heal")), (1, 40), (35, 3))
    assert ends(unheard) == [("failed", 5), ("served", 44)]


def test_half_open_loses_nothing_that_is_healed_in_time() -> None:
    silent = scenario(on_link(5, "cut", half_open=True), on_link(14, "heal"))

    found = story(silent, (1, 6), (8, 1))

    # The end of the first, at 7, and the second dispatch arrive at 14.
    assert ends(found) == [("served", 14), ("served", 15)]


def test_half_open_is_found_out_by_silence() -> None:
    silent = scenario(on_link(5, "cut", half_open=True), on_link(40, "heal"))

    # The router heard of the dispatch at 1, and hears nothing more: 16.
    assert ends(story(silent, (1, 6), (8, 1), (75, 1))) == [("failed", 16), ("failed", 16), ("served", 76)]


def test_delay_is_added_each_way_and_keeps_the_order() -> None:
    delayed = scenario(on_link(5, "delay", delay=2.5), on_link(20, "heal"))

    found = story(delayed, (1, 1), (6, 4), (18, 1), (20, 1), (40, 1))

    assert ends(found) == [
        ("served", 2),
        ("served", 15),  # 6 + 2.5 + 4 + 2.5
        ("served", 21.5),  # arrives at 20.5; its end goes without delay
        ("served", 22.5),  # sent at 20, but not before the one of 18
        ("served", 41),
    ]


# -- the whole --------------------------------------------------------------------------------------


def test_simulated_processes_have_the_settings_of_live_ones() -> None:
    router, server = RouterSettings(), ServerSettings(id="x", pool="a", servers=1, routers=("router",))
    assert router.probe_timeout_s == settings.PROBE_TIMEOUT_S
    assert server.reconnect_first_s == settings.RECONNECT_FIRST_S
    assert server.reconnect_most_s == settings.RECONNECT_MOST_S
    assert server.handshake_limit_s == settings.HANDSHAKE_LIMIT_S
    assert server.open_after_s == settings.OPEN_AFTER_S
    assert router.drain_limit_s == server.drain_limit_s == settings.DRAIN_LIMIT_S
    assert router.ceiling == server.ceiling == settings.CEILING


@pytest.mark.parametrize("delays", [NO_DELAY, Delays(0.01, 0.02, 0.03, 0.01)], ids=["no delay", "delays"])
@pytest.mark.parametrize("policy", policy_names())
def test_where_nothing_goes_wrong_it_is_the_world_without_faults(policy: str, delays: Delays) -> None:
    peaceful = parse_scenario(PEACEFUL, "x.toml", [f"policy.name={policy}"])
    harmless = parse_scenario(
        PEACEFUL, "x.toml", [f"policy.name={policy}", "faults=[{at = 9, kind = 'resume', target = 'servers-fast-1'}]"]
    )
    workload = draw_workload(peaceful)

    expected, found = (simulate(each, workload, delays=delays).records for each in (peaceful, harmless))

    for column in ("arrived", "ended", "waiting", "service", "server", "outcome", "fallback", "stale"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
