"""A live run is added up, its folder too, and what is altered in it is called by name."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from router.protocol.eventlog import Kind, read_head
from services.audit.log import DTYPE
from services.cli.main import run_command
from services.lab.audit import audit_folder
from tests.live.lab import laboratory


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, and what it has said."""
    with laboratory(tmp_path_factory.mktemp("audited")) as lab:
        short = ("--set", "run.warmup=5", "--set", "run.duration=20", "--replications", "2")
        code, out, err = lab.run("run", "small.toml", *short, "--out", "run", "--json")
        assert code in (0, 3), err  # 3: the machine is too busy to measure; it adds up all the same
        yield lab.folder / "run", json.loads(out)


@pytest.fixture
def herdless(capsys):
    """Runs a command: exit code and standard output."""

    def command(*arguments):
        code = run_command([str(argument) for argument in arguments])
        return code, capsys.readouterr().out

    return command


@pytest.fixture
def copy(run, tmp_path):
    """A copy of the folder, to be altered."""
    return Path(shutil.copytree(run[0], tmp_path / "copy"))


def jobs(folder):
    with (folder / "jobs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def alter_log(folder, process, change):
    """Let `change` alter the records of a log in place."""
    path = folder / "events" / f"{process}.events.gz"
    data = bytearray(gzip.decompress(path.read_bytes()))
    change(np.frombuffer(data, DTYPE, offset=read_head(bytes(data)).records_at))
    path.write_bytes(gzip.compress(bytes(data)))


def test_a_run_is_followed_from_end_to_end(run) -> None:
    folder, report = run
    found = report["audit"]

    assert found["holds"] and found["jobs"] == found["traced"] == report["jobs"] == len(jobs(folder))
    assert found["mismatches"] == [] and found["accounted"] == {} and found["unchecked"] == []
    assert {log["process"] for log in found["logs"]} == {"router-1", "router-2", "servers-fast", "servers-slow"}
    assert all(log["ended_in_order"] and not log["overwritten"] for log in found["logs"])
    assert audit_folder(folder).json() == found
    assert sum(path.stat().st_size for path in (folder / "events").iterdir()) < 200 * len(jobs(folder)) + 10_000


def test_a_story_leads_through_the_right_processes(run, herdless) -> None:
    folder, _ = run
    job = 41
    row = jobs(folder)[job]

    code, said = herdless("story", folder, job, "--json")
    story = json.loads(said)
    events = [(event["event"], event["process"]) for event in story["events"]]
    assert code == 0 and story["job"] == job and story["clock"].startswith("one clock") and story["missing"] == []
    assert events[0] == ("sent", "generator") and events[1] == ("arrived", row["router"])
    assert ("received", f"servers-{row['pool']}") in events and events[-2:] == [
        ("ended", row["router"]), ("end", "generator"),
    ]  # fmt: skip
    assert {event["server"] for event in story["events"]} == {"", row["server"]}
    instants = [event["at_units"] for event in story["events"]]
    assert instants == sorted(instants)
    # Instants of jobs.csv have six digits.
    assert instants[-1] == pytest.approx(float(row["ended_units"]) - float(row["intended_units"]), abs=5e-6)
    _, told = herdless("story", folder, job)
    assert f"{row['server']} has ended it: served" in told and len(told.splitlines()) == 1 + len(events)


def test_an_end_that_is_altered_at_the_generator_is_named(copy, herdless) -> None:
    rows = jobs(copy)
    rows[17]["outcome"] = "blocked"
    rows[23]["server"] = next(row["server"] for row in rows if row["server"] != rows[23]["server"])
    with (copy / "jobs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    code, said = herdless("audit", copy)
    assert code == 3
    assert "ended otherwise at the generator than at its router: job 17\n" in said
    assert "at another server by the generator than by its router: job 23\n" in said
    assert f"its end: blocked at {rows[17]['server']}" in said  # their stories are told


def test_records_that_are_altered_in_a_log_are_named(copy) -> None:
    def lose_an_end(records):
        (first, *_) = np.flatnonzero((records["code"] & 255) == Kind.LEFT_SERVER)
        records["dispatch"][first] += 10**6

    before = audit_folder(copy).found
    alter_log(copy, "servers-fast", lose_an_end)
    found = audit_folder(copy).json()
    [job] = {job for mismatch in found["mismatches"] for job in mismatch["jobs"]}
    assert before.holds and jobs(copy)[job]["pool"] == "fast"
    assert {mismatch["what"] for mismatch in found["mismatches"]} == {
        "ended by its server, but never received",
        "received, but never ended by its server",
    }
    assert [story["job"] for story in found["stories"]] == [job]


def test_counters_that_do_not_balance_are_told(copy) -> None:
    path = copy / "metrics" / "router-1.txt"
    text = path.read_text()
    line = next(line for line in text.splitlines() if line.startswith('herdless_router_jobs_total{policy="pull"}'))
    path.write_text(text.replace(line, line.rpartition(" ")[0] + " 1.0"))

    whats = [mismatch.what for mismatch in audit_folder(copy).found.mismatches]
    assert len(whats) == 2 and all(what.startswith("router-1 counts 1 arrivals, ") for what in whats)


def test_without_its_logs_a_run_says_what_it_could_not_check(copy) -> None:
    shutil.rmtree(copy / "events")

    found = audit_folder(copy).found
    assert (
        found.holds
        and not found.complete
        and found.traced == 0
        and "no event log of router-1, router-2" in found.unchecked[0]
    )


def test_a_folder_of_another_kind_is_a_mistake_of_the_user(tmp_path, run, herdless) -> None:
    code, said = herdless("audit", tmp_path, "--json")
    assert code == 2 and "no folder of a live run" in json.loads(said)["error"]["message"]
    code, said = herdless("story", run[0], 999999, "--json")
    assert code == 2 and "job 999999" in json.loads(said)["error"]["message"]
