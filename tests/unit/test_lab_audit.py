"""The audit of a folder: counters against logs, and stories of simulations."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from router.protocol.errors import SettingsError
from services.lab.audit import check_counters, story_of
from services.lab.folder import make_folder, write_summary
from services.lab.ledger import COLUMNS, read_ledger
from services.lab.scrape import Samples
from services.scenario import Scenario, parse_scenario
from services.simulator.recording import Recording
from services.simulator.run import simulate

SCENARIO = """
name = "small"
seed = 2
[policy]
name = "pull"
[[pools]]
name = "a"
servers = 2
[arrivals]
load = 0.5
[run]
warmup = 0
duration = 50
"""


def scenario(*changes: str) -> Scenario:
    return parse_scenario(SCENARIO, "small", changes)


def logs():
    """The router's log and that of the servers, and how many jobs they saw."""
    recording = Recording()
    run = simulate(scenario(), wrap=recording.watch)
    return *recording.logs(), len(run.records.sent)


def router(arrivals, served, here=0):
    return Samples(
        f'herdless_router_jobs_total{{policy="pull"}} {arrivals}\n'
        f'herdless_router_ends_total{{policy="pull",outcome="served",reason=""}} {served}\n'
        f"herdless_router_in_flight {here}\nherdless_router_probing 0\n"
        'herdless_router_servers{pool="a",state="live"} 2\n'
    )


def servers(arrivals, served, here=0):
    return Samples(
        f'herdless_server_arrivals_total{{pool="a"}} {arrivals}\n'
        f'herdless_server_jobs_total{{pool="a",outcome="served"}} {served}\n'
        f'herdless_server_queue_length{{pool="a"}} {here}\n'
    )


def whats(metrics, found):
    return [mismatch.what for mismatch in check_counters(metrics, found)]


def test_counters_that_balance_and_say_what_the_logs_say_are_silent() -> None:
    of_router, of_servers, jobs = logs()

    assert whats({"router-1": router(jobs, jobs), "servers-a": servers(jobs, jobs)}, [of_router, of_servers]) == []
    # Read before the end: the log may know of more ends than the counters, never of fewer.
    assert whats({"servers-a": servers(jobs, jobs - 1, 1)}, [of_servers]) == []


def test_counters_that_do_not_balance_are_named() -> None:
    assert whats({"router-1": router(10, 8, 1)}, []) == [
        "router-1 counts 10 arrivals, but 8 ends and 1 jobs that are there"
    ]
    assert whats({"servers-a": servers(10, 11)}, []) == [
        "servers-a counts 10 arrivals, but 11 ends and 0 jobs that are there"
    ]


def test_counters_and_logs_that_disagree_are_named() -> None:
    of_router, of_servers, jobs = logs()

    assert whats({"router-1": router(jobs - 1, jobs - 1)}, [of_router]) == [
        f"router-1 counts {jobs - 1} arrivals, its log has {jobs}"
    ]
    assert whats({"servers-a": servers(jobs + 1, jobs + 1)}, [of_servers]) == [
        f"servers-a counts {jobs + 1} arrivals, its log has {jobs}",
        f"servers-a counts {jobs + 1} ends served, its log has {jobs}",
    ]


def test_a_log_that_is_not_whole_is_not_held_against_counters() -> None:
    of_router, _, jobs = logs()
    metrics = {"router-1": router(jobs + 5, jobs + 5)}

    assert whats(metrics, [replace(of_router, overwritten=15)]) == []
    assert whats(metrics, [replace(of_router, closed_at=0.0)]) == []  # killed, and read before


def test_counters_are_those_of_the_last_incarnation() -> None:
    of_router, _, jobs = logs()
    before = replace(of_router, about=of_router.about._replace(epoch=-1), records=of_router.records[:7])

    assert whats({"router-1": router(jobs, jobs)}, [of_router, before]) == []


def test_the_story_of_a_simulated_job(tmp_path) -> None:
    folder = make_folder(scenario(), tmp_path / "run", parts=())
    write_summary(folder, {"policy": "pull"})
    story = story_of(folder, 7)

    run = simulate(scenario()).records
    assert story.clock == "virtual time" and story.missing == []
    assert [event.event for event in story.events if event.process == "generator"] == ["sent", "end"]
    assert story.json()["events"][-1]["at_units"] == pytest.approx(run.ended[7] - run.intended[7], abs=1e-6)
    assert "virtual time" in story.lines()[0]


def test_stories_are_told_of_runs_only(tmp_path) -> None:
    faulty = scenario('faults=[{at=5,kind="kill",target="router-1"}]')
    folder = make_folder(faulty, tmp_path / "faulty", parts=())
    write_summary(folder, {"policy": "pull"})
    with pytest.raises(SettingsError, match="without faults"):
        story_of(folder, 0)
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "summary.json").write_text(json.dumps({"policies": ["pull", "jsq"]}))
    with pytest.raises(SettingsError, match="no folder of a live run"):
        story_of(tmp_path / "comparison", 0)


LEDGER = {"start_s": 1.0, "time_unit_s": 0.1, "boot": "b", "routers": ["router-1"], "tagged": True,
          "doubled": 0, "twice": []}  # fmt: skip


@pytest.mark.parametrize(
    ("ledger", "jobs"),
    [
        ("[" * 100_000, ""),
        (json.dumps(LEDGER | {"doubled": 10**30}), ""),
        (json.dumps(LEDGER | {"doubled": float("inf")}), ""),
        (json.dumps(LEDGER | {"twice": ["x"]}), ""),
        (json.dumps(LEDGER | {"twice": [[]]}), ""),
        (json.dumps(LEDGER), "x" * 200_000),
        (json.dumps(LEDGER), "1,2"),
    ],
)
def test_a_ledger_that_is_damaged_is_said_to_be(tmp_path, ledger: str, jobs: str) -> None:
    (tmp_path / "ledger.json").write_text(ledger)
    (tmp_path / "jobs.csv").write_text(f"{','.join(COLUMNS)}\n{jobs}\n" if jobs else f"{','.join(COLUMNS)}\n")
    with pytest.raises(SettingsError, match=r"ledger\.json or jobs\.csv cannot be read"):
        read_ledger(tmp_path)
