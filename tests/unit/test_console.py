"""The console's collector: what it makes of the answers of a cluster, and whom it tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router.registry import make_parameters, policy_names
from services.console.journal import fleet_changes, policy_changes, policy_words
from services.console.parameters import policy_forms
from services.console.shown import router_shows, server_shows
from services.console.status import KEPT_POINTS, History, models_json
from services.console.viewers import MOST_VIEWERS, MOST_WAITING, Viewers
from services.console.window import Reading, Window, quantile
from services.solver import predict
from tests.unit.console_peers import (
    LOAD,
    ROUTERS,
    SERVERS,
    Cluster,
    collector,
    router_text,
    server_text,
    small,
    told,
    watch,
)


def reading(at_s: float, jobs: int, pulls: int = 0, busy_s: float = 0.0) -> Reading:
    routers = {url: router_shows(router_text("pull", jobs), "pull") for url in ROUTERS}
    servers = {SERVERS[0]: server_shows(server_text("slow", pulls, busy_s))}
    return Reading(at_s, routers, servers)


def test_quantities_are_those_of_the_policy_in_force_over_all_routers() -> None:
    window = Window(time_unit_s=0.5)
    window.add(reading(100.0, jobs=100, pulls=30, busy_s=1.0))
    window.add(reading(104.0, jobs=300, pulls=330, busy_s=5.0))
    values = window.values()
    # Two routers gain 200 jobs each in 4 s. Of all jobs 0.9 are admitted and 0.65 start at once.
    assert values["jobs_per_s"] == pytest.approx(100.0)
    assert values["wait_probability"] == pytest.approx(0.25)
    assert values["block_probability"] == pytest.approx(0.1)
    assert values["abandon_probability"] == 0.0
    # 0.125 s of waiting a job, 0.9 of them admitted, half a second to a time unit.
    assert values["waiting_mean"] == pytest.approx(0.125 / 0.9 / 0.5)
    # Half of the sojourn times lie below 1 s, the others evenly up to 2 s: the median is 1 s, the 95% point 1.9 s.
    assert values["sojourn_mean"] == pytest.approx(2.0)
    assert values["sojourn_p50"] == pytest.approx(2.0)
    assert values["sojourn_p95"] == pytest.approx(3.8)
    assert values["dispatch.random"] == pytest.approx(0.2)
    # Servers sent 300 pull-messages for 400 jobs; routers sent two probes a job.
    assert values["messages.pull"] == pytest.approx(0.75)
    assert values["messages.total"] == pytest.approx(2.75)
    # Two slots were busy for 4 s together, out of 8.
    assert values["utilisation.slow"] == pytest.approx(0.5)


def test_without_server_processes_routers_say_what_they_have_received() -> None:
    window = Window(time_unit_s=0.5)
    for at_s, jobs in ((0.0, 0), (1.0, 10)):
        window.add(Reading(at_s, reading(at_s, jobs).routers, {}))
    assert window.values()["messages.pull"] == pytest.approx(1.0)


def test_a_router_that_was_started_anew_is_left_out_until_it_is_in_two_readings() -> None:
    window = Window(time_unit_s=0.5)
    window.add(reading(0.0, jobs=500))
    again = router_shows(router_text("pull", 20), "pull")
    going_on = router_shows(router_text("pull", 520), "pull")
    window.add(Reading(1.0, {ROUTERS[0]: again, ROUTERS[1]: going_on}, {}))
    assert window.values()["jobs_per_s"] == pytest.approx(20.0)
    assert list(window.rates()) == [ROUTERS[1]]


def test_a_window_reaches_back_so_far_and_can_be_emptied() -> None:
    window = Window(time_unit_s=0.5, length_s=10.0)
    for second in range(31):
        window.add(reading(float(second), jobs=second))
    assert window.span_s == 10.0
    window.clear()
    assert (window.span_s, window.values(), window.rates()) == (0.0, {}, {})


@pytest.mark.parametrize(
    ("q", "expected"),
    # Ten zeros, ten evenly in (0, 1], ten above: the 45% point lies 3.5 of 10 into the second bucket.
    [(0.2, 0.0), (0.45, 0.35), (2 / 3, 1.0), (0.99, 1.0)],
)
def test_quantiles_are_read_as_prometheus_reads_them(q: float, expected: float) -> None:
    assert quantile([(0.0, 10.0), (1.0, 20.0), (float("inf"), 30.0)], q) == pytest.approx(expected)


def test_a_histogram_without_observations_has_quantile_zero() -> None:
    assert quantile([(0.0, 0.0), (float("inf"), 0.0)], 0.5) == 0.0
    assert quantile([], 0.5) == 0.0


# -- collector ------------------------------------------------------------------------------------


async def test_a_new_page_is_told_everything() -> None:
    cluster = Cluster()
    cluster.lengths["slow-9"] = 4
    looking = collector(cluster)
    await looking.look(counters=True)
    hello = json.loads(json.dumps(looking.hello(), allow_nan=False))
    # Pool after pool as in the scenario, and by number: slow-9 comes before slow-10.
    assert [server[0] for server in hello["fleet"]["servers"]] == ["slow-1", "slow-9", "slow-10", "fast-1", "fast-2"]
    assert hello["queues"] == {"q": [0, 4, 0, 0, 0]}
    assert hello["status"]["policy"] == cluster.policy
    assert hello["status"]["load"] == {"load": 0.5, "rate_total": 3.5, "rate_per_s": 7.0, "before": 0.5}
    assert [row["name"] for row in hello["status"]["routers"]] == ["router-1", "router-2"]
    assert [row["held"] for row in hello["status"]["routers"]] == [4, 4]
    rows = [(row["name"], row["servers"], row["jobs"], row["links_up"]) for row in hello["status"]["processes"]]
    assert rows == [("slow", 3, 4, 2), ("fast", 2, 0, 2)]
    said = [entry["text"] for entry in hello["log"]]
    assert "3 servers of pool slow (slow-1 to slow-10) joined" in said
    assert "router-1 joined" in said and "the policy in force is pull" in said


@pytest.mark.parametrize(("late", "doubted"), [(0, False), (5, False), (100, True)])
async def test_numbers_are_doubted_when_more_than_one_job_in_a_hundred_is_late(late: int, doubted: bool) -> None:
    cluster = Cluster()
    looking = collector(cluster)
    await looking.look(counters=True)
    assert looking.status["doubts"] == []  # nothing is known yet
    cluster.jobs, cluster.late = 1000, late
    await looking.look(counters=True)
    # The 1,000th part of a second from one reading to the next: each router has used 10 s of a core in it.
    doubts = [doubt for doubt in looking.status["doubts"] if "of a core" not in doubt]
    assert len(looking.status["doubts"]) - len(doubts) == len(ROUTERS)
    # Of 100 late ones evenly from 0.08 to 0.12 units, 90 are up to 0.116: that is the 99th of a hundred of all.
    expected = ["the generator was late: p99 0.116 time units, allowed 0.1"] if doubted else []
    assert [doubt.rpartition(": ")[0] for doubt in doubts] == expected


async def test_a_switch_is_noted_and_starts_a_new_window() -> None:
    cluster = Cluster()
    looking = collector(cluster)
    for cluster.jobs in (100, 200):
        await looking.look(counters=True)
    assert looking.status["values"]["jobs_per_s"] > 0.0
    cluster.policy = {"name": "random"}
    await looking.look(counters=True)
    assert looking.status["values"] == {}
    assert looking.journal.entries[-1].kind == "policy"
    assert looking.journal.entries[-1].text == "policy pull → random"


async def test_a_change_of_load_starts_a_new_window_and_a_generator_that_is_silent_does_not() -> None:
    cluster = Cluster()
    looking = collector(cluster)
    for cluster.jobs in (100, 200):
        await looking.look(counters=True)
    cluster.up.remove(LOAD)
    for cluster.jobs in (300, 400):
        await looking.look(counters=True)
        assert looking.status["load"] is None
        assert looking.status["values"]["jobs_per_s"] > 0.0
    cluster.up.add(LOAD)
    await looking.look(counters=True)
    assert looking.status["values"]["jobs_per_s"] > 0.0  # it sends what it sent before
    cluster.rate = 5.6
    await looking.look(counters=True)
    assert looking.status["values"] == {}


async def test_of_processes_with_the_same_name_the_busiest_is_doubted() -> None:
    looking = collector(Cluster())
    looking._routers = dict.fromkeys(ROUTERS, "router")
    (doubt,) = looking._doubts(dict(zip(ROUTERS, (1.0, 0.1), strict=True)))
    assert doubt.startswith("router used 1")


async def test_a_change_of_load_and_a_pause_are_noted_and_the_load_before_is_kept() -> None:
    cluster = Cluster()
    looking = collector(cluster)
    for cluster.rate in (3.5, 5.6, 0.0):
        await looking.look(counters=True)
    assert [entry.text for entry in looking.journal.entries if entry.kind == "load"] == [
        "load is now 0.8",
        "load paused",
    ]
    assert looking.status["load"]["before"] == pytest.approx(0.8)


async def test_servers_of_a_process_that_does_not_answer_are_gone_after_some_looks() -> None:
    cluster = Cluster()
    looking = collector(cluster)
    await looking.look(counters=False)
    cluster.up.remove(SERVERS[0])
    for _ in range(2):
        await looking.look(counters=False)
    assert len(looking.fleet.places) == 5  # it may only have been late
    await looking.look(counters=False)
    assert [place.id for place in looking.fleet.places] == ["fast-1", "fast-2"]
    assert looking.journal.entries[-1].text == "3 servers of pool slow (slow-1 to slow-10) left"


async def test_a_process_that_is_known_no_more_takes_its_servers_with_it_at_once() -> None:
    cluster = Cluster()
    looking = collector(cluster)
    await looking.look(counters=False)
    cluster.known_servers = SERVERS[1:]
    await looking.look(counters=False)
    assert len(looking.fleet.places) == 2


async def test_without_server_processes_queue_lengths_are_what_routers_have_outstanding() -> None:
    cluster = Cluster()
    cluster.known_servers = ()
    cluster.lengths["slow-1"] = 3
    looking = collector(cluster)
    await looking.look(counters=True)
    assert looking.fleet.queues()["q"] == [6, 0, 0, 0, 0]  # three at each of two routers
    assert looking.status["processes"] == []


async def test_a_strange_answer_does_not_end_the_looking(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    looking = collector(cluster)
    cluster.policy = {"nome": "pull"}
    await looking.look(counters=True)
    assert "not understood" in caplog.text
    cluster.policy = {"name": "pull"}
    await looking.look(counters=True)
    assert looking.status["policy"] == {"name": "pull"}
    caplog.clear()
    cluster.links_up = "+Inf"  # a number that is none of links
    await looking.look(counters=True)
    assert "not understood" in caplog.text


async def test_predictions_are_shown_only_for_what_is_in_force() -> None:
    cluster, watching = Cluster(), watch()
    cluster.policy = {"name": "random"}
    looking = collector(cluster, watching)
    await looking.look(counters=True)
    assert looking.hello()["models"] == {"asked": False, "values": {}}
    watching.scenario = small().with_policy(cluster.policy)
    watching.solution, watching.looked = predict(watching.scenario), True
    await looking.look(counters=True)
    assert looking.hello()["models"]["values"]["messages.total"]["method"] == "closed"
    cluster.policy = {"name": "jsq"}
    await looking.look(counters=True)
    assert looking.hello()["models"] == {"asked": False, "values": {}}


async def test_a_model_that_fails_is_told_once() -> None:
    cluster, watching = Cluster(), watch()
    cluster.policy = watching.scenario.policy
    looking = collector(cluster, watching)
    for watching.problem in ("", "two of these", "two of these", "", "two of these"):
        await looking.look(counters=True)
    told = [entry.text for entry in looking.journal.entries if entry.kind == "problem"]
    assert told == ["the models cannot say: two of these"] * 2


async def test_looking_costs_the_cluster_the_same_however_many_look_on() -> None:
    alone, watched = Cluster(), Cluster()
    await collector(alone).look(counters=True)
    looking = collector(watched)
    for _ in range(20):
        looking.viewers.join()
    await looking.look(counters=True)
    assert sorted(watched.asked) == sorted(alone.asked)


# -- viewers --------------------------------------------------------------------------------------


async def test_a_viewer_that_does_not_keep_up_is_dropped_and_the_others_are_not() -> None:
    viewers = Viewers(lambda: {"hello": 1})
    slow, quick = viewers.join(), viewers.join()
    assert slow is not None and quick is not None
    seen: list[bytes] = []
    for number in range(MOST_WAITING + 5):
        viewers.tell("queues", {"q": [number]})
        data = await quick.next()
        assert data is not None
        seen.append(data)
    assert (slow.dropped, quick.dropped, viewers.dropped) == (True, False, 1)
    assert await slow.next() is None  # nothing is kept for it
    assert viewers.open == {quick}
    assert told(seen, "hello") == 1 and seen[1] == b'event: queues\ndata: {"q":[0]}\n\n'


async def test_there_are_not_more_viewers_than_may_be() -> None:
    viewers = Viewers(dict)
    assert all(viewers.join() for _ in range(MOST_VIEWERS))
    assert viewers.join() is None
    viewers.end_all()
    for viewer in list(viewers.open):
        assert await viewer.next() is None
        viewers.leave(viewer)
    assert viewers.join() is not None


# -- words and forms ------------------------------------------------------------------------------


def test_events_of_the_fleet_are_told_by_pool() -> None:
    cluster = Cluster()
    looking = collector(cluster)
    looking.fleet.see_servers(SERVERS[:1], {SERVERS[0]: {"servers": cluster._of_process("slow")}})
    before = looking.fleet.places
    now = [place._replace(state="draining") if place.id == "slow-9" else place for place in before]
    assert fleet_changes(before, now) == [("drained", "slow-9 drained: nothing new is taken")]
    assert fleet_changes(now, now) == []
    assert fleet_changes(before, before[1:]) == [("left", "slow-1 left")]


def test_policies_are_told_by_what_is_not_the_default() -> None:
    assert policy_words({"name": "pull", "stale": "withdraw", "k": 3}) == "pull (k = 3)"
    before = {"name": "power_of_d", "d": 2, "memory": 0}
    assert policy_changes(before, before | {"d": 3}) == [("policy", "policy power_of_d: d 2 → 3")]
    assert policy_changes(before, None) == []


@pytest.mark.parametrize("form", policy_forms(), ids=lambda form: str(form["name"]))
def test_a_form_has_every_parameter_with_a_default_that_is_accepted(form: dict[str, Any]) -> None:
    defaults = {each["name"]: each["default"] for each in form["parameters"] if each["default"] is not None}
    name, parameters = make_parameters({"name": form["name"], **defaults})
    assert [each["name"] for each in form["parameters"]] == list(type(parameters).model_fields)
    assert parameters == make_parameters({"name": name})[1]
    assert form["about"].endswith(".")
    assert all(each["about"] for each in form["parameters"])
    for each in form["parameters"]:
        for choice in each["choices"]:
            make_parameters({"name": name, each["name"]: choice})


def test_there_is_a_form_for_each_policy() -> None:
    assert [form["name"] for form in policy_forms()] == policy_names()


def test_history_is_kept_for_five_minutes() -> None:
    history = History()
    for second in range(KEPT_POINTS + 7):
        history.add(float(second), {"wait_probability": 0.5}, models_json(None, asked=True)["values"])
    columns = history.json()
    assert columns["at_s"][0] == 7.0 and len(columns["at_s"]) == KEPT_POINTS
    assert columns["live"]["wait_probability"] == [0.5] * KEPT_POINTS
    assert columns["model"]["wait_probability"] == [None] * KEPT_POINTS
