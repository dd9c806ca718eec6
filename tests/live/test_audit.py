"""A live run is added up, its folder too, and what is altered in it is called by name."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from router.protocol.eventlog import Kind, read_head
from services.audit.log import DTYPE, read_log
from services.cli.main import run_command
from services.lab.audit import audit_folder
from tests.live.lab import BOUND_S, laboratory


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


def test_what_a_run_has_written_must_be_there(copy, herdless) -> None:
    (copy / "events" / "router-2.events.gz").unlink()
    (copy / "metrics" / "servers-fast.txt").unlink()
    code, said = herdless("audit", copy)
    assert code == 3
    assert "started, but its event log is missing: router-2\n" in said
    assert "showed final metrics, but they are missing: servers-fast" in said

    shutil.rmtree(copy / "events")
    shutil.rmtree(copy / "metrics")
    code, said = herdless("audit", copy)
    assert code == 3 and "its event log is missing: router-1, router-2, servers-slow, servers-fast\n" in said
    assert "not checked: no event log of router-1, router-2" in said


def test_a_record_that_is_gone_is_no_overwritten_one(copy, herdless) -> None:
    def lose_a_pull_message(records):
        used = records["number"][np.isin(records["code"] & 255, (Kind.ARRIVED, Kind.DISPATCHED))]
        here = (records["code"] & 255 == Kind.PULLED) & np.isin(records["number"], used[used >= 0])
        (first, *_) = np.flatnonzero(here)
        records[first] = np.zeros((), DTYPE)
        lost.append(int(first) + 1)

    lost: list[int] = []
    alter_log(copy, "router-1", lose_a_pull_message)
    code, said = herdless("audit", copy)
    assert code == 3 and "overwritten" not in said
    assert f"the event log of router-1 is damaged, records are missing: {lost[0]}\n" in said


def test_a_run_that_breaks_off_is_added_up(tmp_path, herdless) -> None:
    with laboratory(tmp_path) as lab:
        process = lab.start("run", "small.toml", "--set", "run.duration=300", "--out", "run", "--json")
        lab.wait_for(lambda: lab.processes("load"))
        (pid,) = lab.processes("router-1")
        lab.wait_for(lambda: arrivals(pid) > 20)
        os.kill(pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=BOUND_S)
        assert process.returncode == 3

    error, folder = json.loads(out)["error"], tmp_path / "run"
    first, left = error["message"].split("\n")
    assert (error["kind"], first) == ("process_died", "router-1 died with exit code -9")
    sent = [row for row in jobs(folder) if row["sent_units"]]
    open_ = [int(row["job"]) for row in sent if row["reason"] == "no_end"]
    assert left.startswith(f"{len(sent)} jobs were sent by then: ") and 20 < len(sent) < len(jobs(folder))

    code, said = herdless("audit", folder)
    assert code in (3, 4)  # 4: all that had been sent had come to its end, or is lost
    assert "not checked: the run broke off, and nothing is known of what came after: router-1 died" in said
    if open_:
        assert f"sent, but without an end at the generator: job {open_[0]}" in said and f"job {open_[0]}" in left
    assert code == (3 if open_ else 4)
    last = int(sent[-1]["job"])
    code, said = herdless("story", folder, last)
    assert code == 0 and "sent to router-" in said
    code, said = herdless("story", folder, last + 1)
    assert code == 0 and "it was never sent" in said


def arrivals(pid):
    """How many jobs a running router has on record."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    records = read_log(Path(arguments[arguments.index(b"--events") + 1].decode()).read_bytes()).records
    return int((records["code"] & 255 == Kind.ARRIVED).sum())


@pytest.mark.parametrize("taken", ["jobs.csv", "ledger.json", "generation.npz", "events/router-1.events.gz"])
def test_a_run_that_cannot_be_written_down_says_so_in_one_sentence(tmp_path, taken) -> None:
    """A folder is where a file shall be: what a full disk does, too."""
    with laboratory(tmp_path) as lab:
        (tmp_path / "run" / taken).mkdir(parents=True)
        short = ("--set", "run.warmup=1", "--set", "run.duration=5", "--replications", "2")
        code, out, err = lab.run("run", "small.toml", *short, "--out", "run", "--json")

    said = json.loads(out)["error"]["message"]
    assert (code, err) == (3, "") and f"run/{taken}: cannot be written: Is a directory: make room" in said
    assert "\n" not in said and "Traceback" not in said


def test_a_folder_of_another_kind_is_a_mistake_of_the_user(tmp_path, run, herdless) -> None:
    code, said = herdless("audit", tmp_path, "--json")
    assert code == 2 and "no folder of a live run" in json.loads(said)["error"]["message"]
    code, said = herdless("story", run[0], 999999, "--json")
    assert code == 2 and "job 999999" in json.loads(said)["error"]["message"]
