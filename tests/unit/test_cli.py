"""The command line: exit codes, JSON, messages; live runs are in tests/live."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli import run_command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where commands leave what they found

    def run(*arguments):
        code = run_command(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def run_json(run):
    def run_json(*arguments):
        code, out, err = run(*arguments, "--json")
        assert err == "" and out.count("\n") == 1
        return code, json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return run_json


def test_solve_gives_values_and_where_they_come_from(run_json):
    code, found = run_json("solve", "mm1")
    assert (code, found["scenario"], found["policy"], found["valid"]) == (0, "mm1", "random", True)
    assert found["values"]["sojourn_mean"] == pytest.approx(2.0)  # 1 / (1 − 0.5)
    assert found["values"]["queue_tail"][:3] == pytest.approx([1.0, 0.5, 0.25])
    closed = found["quantities"]["sojourn_mean"]["models"]["closed"]
    assert closed["value"] == pytest.approx(2.0)
    assert closed["kind"] and closed["source"] and closed["assumes"]
    assert found["quantities"]["sojourn_mean"]["verdict"] == "not_compared"
    assert "live" not in found["quantities"]["sojourn_mean"]


def test_set_changes_the_scenario(run_json):
    _, found = run_json("solve", "mm1", "--set", "arrivals.load=0.9", "--set", "pools.0.servers=7")
    assert found["values"]["sojourn_mean"] == pytest.approx(10.0)  # G1
    assert found["values"]["jobs_in_system_mean"] == pytest.approx(63.0)  # 7·0.9·10


def test_simulate_is_compared_with_what_is_exact(run_json):
    # G5: Erlang B(10, 8); 20 servers with 8 jobs per time unit each, 100 time units.
    code, found = run_json(
        "simulate", "loss", "--set", "run.duration=100", "--replications", "2", "--false-alarms", "1e-6"
    )
    assert code == 0 and found["verdict"] in ("agree", "not_enough_data")
    blocked = found["quantities"]["block_probability"]
    assert blocked["models"]["closed"]["value"] == pytest.approx(0.12166106)
    low, high = blocked["simulated"]["ci95"]
    assert low < blocked["simulated"]["value"] < high
    assert found["values"]["block_probability"] == blocked["simulated"]["value"]
    assert "live" not in blocked and "simulated_without_delay" not in blocked


def test_simulate_says_how_much_longer_to_run(run_json):
    code, found = run_json("simulate", "mm1", "--set", "run.duration=20", "--replications", "2")
    assert code == 0 and found["verdict"] == "not_enough_data"
    assert found["longer"] > 1 and "--set run.duration=" in found["hints"][0]


def test_an_unstable_scenario_is_called_so(run_json):
    arguments = ("--set", "run.duration=10", "--set", "arrivals.load=1.5", "--replications", "1")
    code, found = run_json("simulate", "mm1", *arguments)
    assert code == 0 and found["hints"][0].startswith("unstable: load 1.5 >= 1")


def test_a_table_fits_eighty_columns_without_colour(run):
    code, out, err = run("simulate", "pull", "--set", "run.duration=20", "--replications", "1")
    assert (code, err) == (0, "")
    assert "\x1b" not in out and "sojourn_mean" in out and "verdict: " in out
    assert "block_probability" not in out  # 0 everywhere
    rows = [line for line in out.splitlines() if line.startswith(("quantity", "sojourn", "utilisation", "queue"))]
    assert len(rows) > 5 and max(map(len, rows)) <= 80


def test_policies_and_scenarios_are_listed(run, run_json):
    _, found = run_json("policies")
    by_name = {entry["name"]: entry for entry in found["policies"]}
    assert by_name["pull"]["parameters"]["stale"] == {
        "default": "withdraw", "enum": ["withdraw", "keep", "duplicate"], "type": "string"
    }  # fmt: skip
    assert by_name["power_of_d"]["parameters"]["d"]["default"] == 2
    assert all(entry["summary"].endswith(".") for entry in found["policies"])
    _, found = run_json("scenarios")
    assert {"pull", "mm1", "loss", "supermarket", "jsq"} <= {entry["name"] for entry in found["scenarios"]}
    assert all(entry["title"] and entry["source"] for entry in found["scenarios"])
    shown = run("policies")[1]
    assert "announce_at = 0  one of a whole number, vacancy\n" in shown
    assert "weights = 'rate'  one of rate, capacity, optimal, a list\n" in shown
    assert "max_vacancy" in shown and "Stolyar 2017" in run("scenarios")[1]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("run", "nowhere"), "settings", 'no scenario "nowhere": expected a TOML file, or one of '),
        (("run", "mm1", "--set", "policy.d=3"), "settings", "policy.d: no such key; known keys: none (policy random)"),
        (("run", "mm1", "--set", "policy.name=fastest"), "settings", "known are jsq, least_requests, "),
        (("run", "mm1", "--set", "load"), "settings", "expected KEY=VALUE"),
        (("run", "mm1", "--set", 'run.time="slotted"'), "settings", 'run.time = "slotted"'),
        (("run", "mm1", "--put-policy"), "settings", "they belong to --attach"),
        (("run", "mm1", "--false-alarms", "2"), "settings", "expected a number between 0 and 1"),
        (("run", "mm1", "--set", "run.duration=1e-9", "--set", "run.warmup=0"), "settings", "no job arrives"),
        (("solve", "mm1", "--method", "luck"), "settings", "expected one of exact, closed, meanfield, limit"),
        (("solve", "mm1", "--set", "arrivals.load=1.2"), "settings", "no model applies"),
        (("policy", "fastest", "--routers", "127.0.0.1:1"), "settings", "known are jsq, least_requests, "),
        (("policy", "jsq", "--routers", "ftp://x"), "settings", "expected http://host:port, host:port or a name"),
        (("server", "--pool", "a", "--servers", "0", "--routers", "x:1"), "settings", "server.servers = 0, expected "),
        (("router", "--policy", "{"), "settings", "expected a policy's name, or a [policy] table as JSON"),
        (("router", "--memory", "[3]"), "settings", "--memory [3]: expected a table as JSON"),
        (("router", "--memory", '{"failures": 0}'), "settings", "router.memory.failures = 0, expected a whole number"),
        (("router", "--stale", "never"), "settings", 'router.stale = "never", expected "ignore", "average" or "full"'),
        (("router", "--policy", "[1]"), "settings", 'policy.name = "[1]": no such policy'),
        (("sweep", "mm1", "--over", "a=" + 5000 * "["), "settings", "a: no such key"),
        (("deploy", "router", "nowhere"), "settings", 'no scenario "nowhere"'),
        (("router", "--time-unit-s", "inf"), "settings", "router.time_unit_s = inf, expected a finite number above 0"),
        (("router", "--set", "ceiling=0"), "settings", "router.ceiling = 0, expected a whole number above 0"),
        (("load", "pull", "--routers", "127.0.0.1:1"), "settings", "routers.count = 4, but --routers leads to 1"),
        (("run",), "usage", "Missing argument 'SCENARIO'"),
        (("run", "mm1", "--colour"), "usage", "No such option: --colour"),
        (("walk",), "usage", "No such command 'walk'"),
    ],
)
def test_a_mistake_gets_one_exact_message_and_exit_2(run, run_json, arguments, kind, message):
    code, found = run_json(*arguments)
    assert code == 2 and list(found) == ["error"] and list(found["error"]) == ["kind", "message"]
    assert found["error"]["kind"] == kind and message in found["error"]["message"]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and err == f"herdless: {found['error']['message']}\n"


def test_nobody_there_is_no_mistake_but_exit_3(run_json):
    code, found = run_json("policy", "jsq", "--routers", "127.0.0.1:1")
    assert code == 3 and found["error"]["kind"] == "unreachable"
    assert found["error"]["message"].startswith("http://127.0.0.1:1/v1/policy: no answer")


def test_a_broken_trace_is_the_users_mistake(run_json, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("when\n1\n1\n")
    arguments = ["--set", 'arrivals.law="trace"', "--set", f'arrivals.path="{trace}"']
    arguments += ["--set", 'arrivals.time_column="when"', "--set", 'arrivals.time_unit="s"']
    code, found = run_json("simulate", "mm1", *arguments)
    assert code == 2 and found["error"]["kind"] == "trace" and "usable rows" in found["error"]["message"]
    code, found = run_json("simulate", "mm1", *arguments, "--set", "arrivals.path=nowhere.csv")
    assert code == 2 and 'arrivals.path = "nowhere.csv": no such file' in found["error"]["message"]


def test_a_trace_is_described_beside_the_result(run_json, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("when,work\n" + "".join(f"{n * 0.01:.2f},{1 + n % 3}\n" for n in range(2000)))
    (tmp_path / "replay.toml").write_text(
        'name = "replay"\n[policy]\nname = "jsq"\n[[pools]]\nname = "a"\nservers = 4\n'
        "[run]\nwarmup = 1\nduration = 90\n"
        '[arrivals]\nlaw = "trace"\npath = "trace.csv"\ntime_column = "when"\ntime_unit = "s"\n'
        'size_column = "work"\nload = 0.5\n'
    )
    code, found = run_json("simulate", str(tmp_path / "replay.toml"), "--replications", "1")
    assert code == 0
    assert "2000" in found["trace"][0] and any("dispersion of counts" in line for line in found["trace"])


def test_an_interrupt_is_exit_130(run_json, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("services.lab.experiment.read_experiment", interrupted)
    assert run_json("solve", "mm1") == (130, {"error": {"kind": "interrupted", "message": "interrupted"}})


def test_no_command_shows_the_help(run):
    code, out, _ = run()
    assert code == 0 and "simulate" in out and "Exit codes" in out


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from services.cli import run_command; run_command(['--help'])\n"
        "sys.exit(', '.join({'numpy', 'scipy', 'matplotlib', 'aiohttp', 'pydantic'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
