"""The audit of a folder: counters against logs, and stories of simulations."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from router.process.eventlog import EventLog
from router.protocol.errors import SettingsError
from router.protocol.eventlog import ENDS, Kind, read_head
from services.audit.log import DTYPE
from services.audit.story import tell
from services.cli.main import run_command
from services.lab.audit import check_counters, story_of
from services.lab.folder import make_folder, write_summary
from services.lab.ledger import COLUMNS, read_ledger
from services.lab.scrape import Samples
from services.scenario import Scenario, parse_scenario
from services.simulator.recording import Recording, ledger_of
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
          "doubled": 0, "twice": [], "processes": {}, "metrics": [], "broken": ""}  # fmt: skip


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


@pytest.fixture
def left(tmp_path):
    """What a live run of one job leaves, but for its event logs and metrics."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "ledger.json").write_text(json.dumps(LEDGER))
    (folder / "jobs.csv").write_text(f"{','.join(COLUMNS)}\n0,0,1,router-1,a-1,served,\n")
    return folder


@pytest.fixture
def herdless(capsys):
    """Runs a command: exit code, standard output, standard error."""

    def command(*arguments):
        return run_command([str(argument) for argument in arguments]), *capsys.readouterr()

    return command


def test_a_run_without_event_logs_is_not_called_added_up(left, herdless) -> None:
    code, out, _ = herdless("audit", left)
    assert code == 4 and "adds up" not in out
    assert out.splitlines()[0] == (
        "audit: 1 jobs sent, 0 followed from end to end: no event log is there, so no job could be checked"
    )
    assert "  not checked: no event log of router-1: " in out and "  not checked: no final metrics in " in out
    code, out, _ = herdless("audit", left, "--json")
    assert code == 4 and len(json.loads(out)["unchecked"]) == 2


def test_what_is_missing_in_part_is_not_called_added_up_either(left, herdless) -> None:
    (left / "metrics").mkdir()
    (left / "metrics" / "router-1.txt").write_text("herdless_router_servers 1\nherdless_router_jobs_total 1\n")
    code, out, _ = herdless("audit", left)
    assert code == 3 and "router-1 counts 1 arrivals, but 0 ends" in out  # what is wrong outweighs what is missing

    (left / "metrics" / "router-1.txt").write_text("herdless_router_servers 1\n")
    assert herdless("audit", left)[0] == 4


def test_a_story_says_which_logs_are_missing(left, herdless) -> None:
    code, out, _ = herdless("story", left, 0)
    assert code == 0 and out.splitlines()[-1] == "  router-1 has left no event log"


def test_a_story_of_which_the_servers_say_nothing() -> None:
    recording = Recording()
    run = simulate(scenario(), wrap=recording.watch)
    of_router, of_servers = recording.logs()
    ledger = ledger_of(run)
    server = ledger.servers[ledger.server[0]]

    assert tell(ledger, [of_router, of_servers], 0).missing == []
    assert f"the process of {server} has left no event log" in tell(ledger, [of_router], 0).missing


@pytest.fixture
def by_hand(tmp_path):
    """The folder that processes were told to write their event logs to."""
    recording = Recording()
    simulate(scenario(), wrap=recording.watch)
    folder = tmp_path / "logs"
    folder.mkdir()
    for log in recording.logs():
        file = EventLog(folder / f"{log.about.id}.events", log.about)
        for name in log.names:
            file.name(name)
        for record in log.records.tolist():
            file.append(*record[:-1])
        file.close(1e3)
    return folder


def test_logs_alone_are_added_up_as_far_as_they_go(by_hand, herdless) -> None:
    code, out, _ = herdless("audit", by_hand)
    assert code == 4 and "not everything could be checked; what could be adds up" in out
    assert "  not checked: the generator has left no jobs.csv and ledger.json: " in out

    path = by_hand / "servers-a.events"
    data = bytearray(path.read_bytes())
    records = np.frombuffer(data, DTYPE, offset=read_head(bytes(data)).records_at)
    ends = np.flatnonzero(records["code"] & 255 == Kind.LEFT_SERVER)
    records["code"][ends[3]] ^= ENDS["failed"] << 8  # it was served, which is 0
    path.write_bytes(data)
    code, out, _ = herdless("audit", by_hand)
    assert code == 3 and "ended otherwise at the router than at its server: job " in out


def test_logs_alone_tell_stories(by_hand, herdless) -> None:
    code, out, _ = herdless("story", by_hand, 7, "--json")
    story = json.loads(out)
    assert code == 0 and story["events"][0]["event"] == "arrived" and story["events"][0]["at_ms"] == 0.0
    assert [event["event"] for event in story["events"]][-2:] == ["left_server", "ended"]
    assert story["missing"] == ["the generator has left nothing: when it was sent and what came back is not known"]
    for job in ("99999", 10**18):
        code, _, err = herdless("story", by_hand, job)
        assert code == 2 and "expected one that a router has on record" in err


@pytest.mark.parametrize("name", ["jobs.csv", "summary.json"])
def test_a_run_that_has_lost_its_ledger_is_not_taken_for_logs_alone(by_hand, herdless, name) -> None:
    (by_hand / name).write_text("{}")
    code, _, err = herdless("audit", by_hand)
    assert code == 2 and "ledger.json: No such file or directory" in err


EMPTY = gzip.compress(bytes(1000), mtime=0)
TORN = EMPTY[:10] + b"\x07" + EMPTY[11:]
"""Behind the 10 bytes of a gzip header stands a block of type 3, which RFC 1951 (3.2.3) keeps free."""


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("events", b"", "events: expected the folder of the event logs, found a file"),
        ("events/router-1.events.gz", b"junk", "cannot be read: Not a gzipped file"),
        ("events/router-1.events.gz", EMPTY[:-9], "cannot be read: Compressed file ended"),
        ("events/router-1.events.gz", EMPTY, "cannot be read: no event log"),
        ("events/router-1.events.gz", TORN, "cannot be read: Error -3"),
    ],
)
@pytest.mark.parametrize("command", ["audit", "story"])
def test_a_damaged_log_is_named(left, herdless, command, file, content, said) -> None:
    (left / file).parent.mkdir(exist_ok=True)
    (left / file).write_bytes(content)
    code, out, err = herdless(command, left, *(["0"] if command == "story" else []))
    assert code == 2 and not out and f"herdless: {left / file.partition('/')[0]}" in err
    assert said in err and "take another copy of the run, or move this file away" in err


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"herdless_router_jobs_total x\n", b"herdless_router_jobs_total NaN\n", b"process_open_fds +Inf\n"],
)
def test_damaged_metrics_are_named(left, herdless, content) -> None:
    (left / "metrics").mkdir()
    (left / "metrics" / "router-1.txt").write_bytes(content)
    code, _, err = herdless("audit", left)
    assert (
        code == 2 and "metrics/router-1.txt: cannot be read: " in err and "expected metrics as the run left them" in err
    )


@pytest.mark.parametrize("command", ["audit", "story"])
def test_what_is_no_folder_of_a_run_is_said_to_be_none(tmp_path, herdless, command) -> None:
    job = ["0"] if command == "story" else []
    (tmp_path / "file").write_text("x")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "summary.json").write_text("3")
    for name, found in (
        ("nowhere", "there is nothing of that name"),
        ("file", "it is a file"),
        ("odd", "ledger.json: No such file or directory"),
    ):
        code, out, err = herdless(command, tmp_path / name, *job)
        assert code == 2 and not out
        assert f"{tmp_path / name}: no folder of a live run: {found}: expected one that `herdless run` has left" in err


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("x", "JOB = 'x': expected the number of a job"),
        ("1.5", "JOB = '1.5': expected the number of a job"),
        ("", "JOB = '': expected the number of a job"),
        ("1", "job 1: there is none of that number in"),
        ("9" * 30, "expected one of its 1 jobs, from 0 to 0"),
        ("9" * 5000, "expected the number of a job"),
    ],
)
def test_a_job_that_is_not_there_is_a_mistake_of_the_user(left, herdless, job, said) -> None:
    code, out, err = herdless("story", left, job)
    assert code == 2 and not out and said in err
