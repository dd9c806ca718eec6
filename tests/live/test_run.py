"""`herdless run` on a local cluster: what it reports, how it fails, and that it leaves no process behind."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.live.lab import BOUND_S

# Servers without a queue: how often they are full says at once how fast they are.
BUSY = """
name = "busy"
time_unit_s = 0.1

[policy]
name = "random"

[[pools]]
name = "trunk"
servers = 10
slots = 10
capacity = 10

[arrivals]
rate_per_server = 8.0

[run]
warmup = 10
duration = 60
"""


def test_a_run_measures_simulates_and_leaves_a_folder(lab):
    code, report = lab.run_valid("run", "small.toml", "--json", "--false-alarms", "1e-6")
    assert code == 0 and report["valid"] and report["verdict"] in ("agree", "not_enough_data")
    assert report["scenario"] == "small" and report["policy"] == "pull"
    assert {check["name"]: check["holds"] for check in report["identities"]} == dict.fromkeys(
        (
            "conservation.generator", "conservation.sent", "conservation.routers", "conservation.dispatches",
            "conservation.servers", "identity.pull_used", "identity.pull",
        ),
        True,
    )  # fmt: skip
    sojourn = report["quantities"]["sojourn_mean"]
    for column in ("live", "simulated"):
        low, high = sojourn[column]["ci95"]
        assert low < sojourn[column]["value"] < high
    assert report["values"]["sojourn_mean"] == sojourn["live"]["value"]
    assert report["values"]["queue_tail"][0] == pytest.approx(1.0)

    folder = lab.folder / report["run_folder"]
    assert folder.parent == lab.folder / "runs" and folder.name.endswith("Z-small")
    assert json.loads((folder / "summary.json").read_text()) == report
    names = ["router-1", "router-2", "servers-fast", "servers-slow"]
    assert sorted(path.stem for path in (folder / "metrics").iterdir()) == names
    assert sorted(path.stem for path in (folder / "logs").iterdir()) == ["generator", *names]
    with (folder / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == report["jobs"]
    assert {row["pool"] for row in rows} == {"slow", "fast"} and {row["outcome"] for row in rows} == {"served"}
    sizes = [float(row["size"]) / (1.0 if row["pool"] == "slow" else 2.0) for row in rows]
    assert [float(row["service_units"]) for row in rows] == pytest.approx(sizes, abs=3e-6)
    code, out, _ = lab.run("solve", str(folder / "scenario.toml"), "--json")
    assert code in (0, 2) and json.loads(out)


def test_a_server_that_is_ten_percent_slow_differs(lab):
    with ExitStack() as stack:

        def start(*arguments):
            process = lab.start(*arguments)
            stack.callback(process.communicate, timeout=BOUND_S)
            stack.callback(process.terminate)
            return json.loads(process.stdout.readline())["url"]

        router = start("router", "--policy", "random", "--port", "0", "--time-unit-s", "0.1")
        # Its time unit is 10% longer than anybody believes, so it serves at 0.91 of the rate that it announces.
        server = start(
            "server", "--pool", "trunk", "--servers", "10", "--slots", "10", "--capacity", "10", "--routers", router,
            "--time-unit-s", "0.11",
        )  # fmt: skip
        lab.wait_for(lambda: lab.run("policy", "random", "--routers", router)[0] == 0)
        (lab.folder / "busy.toml").write_text(BUSY)
        attached = ("--attach", router, "--servers", server, "--json")
        code, out, _ = lab.run("run", "busy.toml", "--set", "pools.0.rate=2.0", *attached)
        assert code == 2
        assert "10 servers of rate 1, slots 10, capacity 10, the scenario 10 servers of rate 2" in out
        code, out, _ = lab.run("run", "busy.toml", "--set", "policy.name=jsq", *attached)
        assert code == 2 and 'the policy in force is {\\"name\\": \\"random\\"}' in out
        code, report = lab.run_valid("run", "busy.toml", "--false-alarms", "1e-6", *attached)
    assert code == 1 and report["verdict"] == "differ"
    # Of 4,000 jobs of the same sizes each takes 10% longer; of blocking, 0.16 for 0.12, so few jobs tell less surely.
    assert report["quantities"]["sojourn_mean"]["verdict"] == "differ"
    assert all(check["holds"] for check in report["identities"])


def test_a_port_in_use_is_named(lab):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # One router, for a second one would listen on the next port, which may be in use as well.
        code, out, err = lab.run("run", "small.toml", "--set", "routers.count=1", "--port", str(port))
    assert (code, out) == (3, "")
    assert f"router-1: cannot listen on 127.0.0.1:{port}: the port is in use" in err and "Traceback" not in err


@pytest.mark.parametrize(("word", "name"), [("router-2", "router-2"), ("servers-slow", "servers-slow")])
def test_a_process_that_is_killed_is_named(lab, word, name):
    process = lab.start("run", "small.toml", "--json")
    lab.wait_for(lambda: lab.processes("load"))
    (pid,) = lab.processes(word)
    os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=BOUND_S)
    assert (process.returncode, err) == (3, "")
    error = json.loads(out)["error"]
    assert error["kind"] == "process_died" and error["message"].startswith(f"{name} died with exit code -9")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_processes(lab, number):
    process = lab.start("run", "small.toml", "--json")
    lab.wait_for(lambda: lab.processes("load"))
    process.send_signal(number)
    out, err = process.communicate(timeout=BOUND_S)
    assert (process.returncode, err) == (130, "")
    assert json.loads(out) == {"error": {"kind": "interrupted", "message": "interrupted"}}
    assert lab.processes() == []


def test_a_cluster_that_is_up_serves_jobs_until_ctrl_c(lab):
    process = lab.start("up", "small.toml", "--json")
    routers = json.loads(process.stdout.readline())["routers"]
    with closing(HTTPConnection(urlsplit(routers[1]).netloc, timeout=BOUND_S)) as connection:
        connection.request("POST", "/v1/jobs")
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["outcome"] == "served"
    code, out, _ = lab.run("policy", "power_of_d", "--set", "d=3", "--routers", ",".join(routers), "--json")
    assert code == 0 and [table["d"] for table in json.loads(out)["routers"].values()] == [3, 3]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=BOUND_S) == ("", "") and process.returncode == 130


def test_processes_end_with_a_lab_that_is_killed(lab):
    process = lab.start("up", "small.toml", "--json")
    up = json.loads(process.stdout.readline())
    assert len(up["routers"]) == 2 and len(up["servers"]) == 2
    assert len(lab.processes("--end-with-parent")) == 5  # the load, too
    process.kill()
    process.communicate(timeout=BOUND_S)
    lab.wait_for(lambda: not lab.processes())
