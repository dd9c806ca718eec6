"""The parts of the lab that need no process: reading counters, checking identities, reports and folders."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from router.protocol.errors import SettingsError
from router.registry import make_policy
from services.lab.checks import conservation, identities, totals
from services.lab.compare import compare
from services.lab.errors import RunInvalid
from services.lab.experiment import read_experiment
from services.lab.folder import make_folder, write_jobs, write_metrics, write_summary
from services.lab.page import write_text
from services.lab.readings import Reading, between, cpu_shares, measured_delays, message_log, share_asked
from services.lab.report import Report, plain
from services.lab.scrape import Samples
from services.lab.simulate import Task, mean_of, place, pooled, run_task, run_tasks
from services.measure.quantities import ABANDONED, SERVED, Quantity
from services.measure.records import Records
from services.measure.validity import invalidities
from services.scenario import parse_scenario
from services.simulator.network import Delays
from services.simulator.run import simulate
from services.solver import Prediction

ROUTER = """
herdless_router_jobs_total{policy="pull"} %(jobs)s
herdless_router_jobs_total{policy="random"} 0.0
herdless_router_ends_total{policy="pull",outcome="served",reason=""} %(jobs)s
herdless_router_dispatches_total{policy="pull"} %(jobs)s
herdless_router_fallback_dispatches_total{policy="pull"} %(fallbacks)s
herdless_router_unheld_withdrawals_total 0.0
herdless_router_pull_messages_held 2.0
herdless_router_in_flight 0.0
herdless_router_probing 0.0
herdless_router_messages_sent_total{kind="probe"} 0.0
herdless_router_messages_received_total{kind="pull"} %(pulls)s
herdless_router_messages_received_total{kind="withdraw"} 1.0
herdless_router_messages_received_total{kind="report"} 0.0
"""


def rows(outcome, waiting, back=0.3):
    count = len(outcome)
    intended = np.arange(count, dtype=float)
    waiting = np.array(waiting)
    return Records(
        intended=intended, sent=intended + 0.1, arrived=intended + 0.4, ended=intended + 1.4 + waiting + back,
        waiting=waiting, service=np.ones(count), size=np.ones(count), patience=np.full(count, np.nan),
        router=np.zeros(count, int), server=np.zeros(count, int), outcome=np.array(outcome),
        faulted=np.zeros(count, bool), fallback=np.zeros(count, bool), stale=np.zeros(count, bool),
    )  # fmt: skip


def reading(instant_s, jobs=0, pull=0, delay_s=0.0, delayed=0, cpu=0.0):
    sent = {"pull": pull, "withdraw": 0, "probe": 0, "report": 0}
    hop = "generator_router"
    return Reading(instant_s, jobs, sent, {hop: delay_s}, {hop: delayed}, {"http://a": cpu})


def test_samples_are_added_up_by_name_and_label():
    samples = Samples(
        'a_total{x="1",y="2"} 3\na_total{x="2",y="2"} 4\nb 5\nh_bucket{le="0.1"} 1\nh_bucket{le="+Inf"} 2\n'
    )
    assert samples.total("a_total") == 7 and samples.total("a_total", x="2") == 4 and samples.total("c") == 0
    assert samples.by("a_total", "x") == {"1": 3, "2": 4}
    assert samples.buckets("h") == [(0.1, 1), (math.inf, 2)]


def test_readings_become_a_log_in_time_units():
    log = message_log([reading(10.0), reading(12.0, jobs=5, pull=4)], start_s=11.0, time_unit_s=0.5)
    assert log.instants.tolist() == [-2.0, 2.0] and log.jobs.tolist() == [0, 5]
    assert log.counts["pull"].tolist() == [0, 4]


def test_delays_are_those_of_the_jobs_divided_as_the_stamps_say():
    # To the server 0.3 of 0.5 s a unit, of which messages say that 0.05 s were to the router; back 0.3, of which 0.1.
    first, last = reading(0.0), reading(10.0, delay_s=0.5, delayed=10)
    found = measured_delays(first, last, rows([SERVED] * 4, [0.0, 1.0, 0.0, 2.0]), 0.1, 0.5)
    assert found.generator_router == pytest.approx(0.1) and found.router_server == pytest.approx(0.2)
    assert found.server_router == pytest.approx(0.2) and found.router_generator == pytest.approx(0.1)
    unknown = measured_delays(first, first, rows([SERVED] * 4, [0.0] * 4), math.nan, 0.5)
    assert unknown.generator_router == pytest.approx(0.15) and unknown.router_generator == pytest.approx(0.15)
    assert measured_delays(first, last, rows([ABANDONED], [0.0]), 0.1, 0.5) == Delays()


def test_the_median_does_not_see_a_job_that_a_fault_has_held_up():
    first, last = reading(0.0), reading(10.0, delay_s=0.5, delayed=10)
    jobs = rows([SERVED] * 5, [0.0] * 5)
    longer = np.array([0.0, 0.0, 7.5, 0.0, 0.0])
    held = replace(jobs, arrived=jobs.arrived + longer, ended=jobs.ended + 1.2 * longer)
    found = measured_delays(first, last, held, 0.1, 0.5, 0.0, np.median)
    assert found.by_kind() == pytest.approx(measured_delays(first, last, jobs, 0.1, 0.5).by_kind())
    assert measured_delays(first, last, held, 0.1, 0.5).router_server == pytest.approx(0.2 + 7.5 / 5)


def test_jobs_that_wait_for_answers_go_three_times_between_router_and_server():
    # To the server 0.3, of which 0.1 to the router; back 0.15, of which 0.1 to the generator: an answer takes 0.05, so
    # that a probe and the dispatch share 0.15; if half of the jobs are asked for, 0.2 = 1.5·d + 0.5·0.05.
    first, last = reading(0.0), reading(10.0, delay_s=0.5, delayed=10)
    jobs = rows([SERVED] * 4, [0.0, 1.0, 0.0, 2.0], back=0.15)
    for asked, expected in ((0.0, 0.2), (0.5, 0.175 / 1.5), (1.0, 0.075)):
        found = measured_delays(first, last, jobs, 0.1, 0.5, asked)
        assert found.router_server == pytest.approx(expected) and found.server_router == pytest.approx(0.05)
    slow = measured_delays(first, last, rows([SERVED], [0.0], back=0.9), 0.1, 0.5, 1.0)
    # Ends that a timer keeps take 0.8, answers do not: the 0.2 to the server are three equal ways.
    assert (slow.router_server, slow.server_router) == pytest.approx((0.2 / 3, 0.2 / 3))
    assert slow.server_router + slow.router_generator == pytest.approx(0.9)


def test_which_policies_wait_for_answers():
    jobs = rows([SERVED] * 4, [0.0] * 4)
    jobs.fallback[:] = [True, False, False, False]

    def share(name: str, **parameters: str) -> float:
        return share_asked(make_policy({"name": name, **parameters}, Random(1)), jobs)

    assert share("max_vacancy") == share("power_of_d") == 1.0
    assert share("pull", fallback="power_of_d") == 0.25
    assert share("pull") == share("pull", fallback="view") == share("lsq", refresh="sample") == share("jsq") == 0.0


def test_a_window_is_between_readings_and_gives_cores_used():
    readings = [reading(float(n), cpu=0.5 * n) for n in range(10)]
    first, last = between(readings, 2.5, 7.5)
    assert (first.instant_s, last.instant_s) == (3.0, 7.0)
    assert cpu_shares(first, last) == {"http://a": pytest.approx(0.5)}
    assert between(readings, 20.0, 30.0) == (readings[0], readings[-1])


def counted(jobs=10, pulls=7, fallbacks=2):
    def samples(**numbers):
        return {"http://r": Samples(ROUTER % numbers)}

    return totals(
        samples(jobs=0, fallbacks=0, pulls=0), samples(jobs=jobs, fallbacks=fallbacks, pulls=pulls), ["http://r"], []
    )


def test_identities_hold_exactly_or_not_at_all():
    scenario = read_experiment("pull").scenario
    records = rows([SERVED] * 10, [0.0] * 8 + [1.0] * 2)
    # 10 dispatches, 2 at random: 8 by a message, and the one withdrawal was before the first reading too.
    good = {check.name: check for check in identities(scenario, records, counted(pulls=8))}
    assert good["identity.pull_used"].holds and good["identity.pull"].holds
    bad = {check.name: check for check in identities(scenario, records, counted(pulls=7))}
    assert not bad["identity.pull_used"].holds and not bad["identity.pull"].holds
    assert identities(read_experiment("mm1").scenario, records, counted()) == []
    keeps = read_experiment("pull", ["policy.stale=keep"]).scenario
    assert [check.name for check in identities(keeps, records, counted())] == ["identity.pull_used"]


def test_a_job_that_is_missing_anywhere_violates_conservation():
    records = rows([SERVED] * 10, [0.0] * 10)
    assert all(check.holds for check in conservation(records, counted()))
    assert not all(check.holds for check in conservation(records, counted(jobs=9)))
    # The router was drained, and read for the last time before its tenth job.
    assert all(check.holds for check in conservation(records, counted(jobs=9), router_drained=True))
    lost = replace(records, outcome=np.array([SERVED] * 9 + [-1]))
    assert [check.name for check in conservation(lost, counted()) if not check.holds] == ["conservation.generator"]


def test_a_run_is_invalid_for_reasons_that_say_what_to_do():
    assert invalidities(0.1, 0.5, {"router-1": 0.9}, 0) == []
    late, held_up, busy, unanswered = invalidities(0.11, 0.6, {"router-1": 0.91}, 3)
    assert late.startswith("the generator was late: p99 0.11 time units, allowed 0.1: choose a larger")
    assert held_up.startswith("messages were held up: p99 0.6 time units, allowed 0.5")
    assert busy.startswith("router-1 used 91% of a core") and unanswered.startswith("3 jobs got no answer")
    assert invalidities(math.nan, 0.0, {}, 0) != []


def test_lists_of_different_lengths_are_tails():
    one = Quantity(np.array([1.0, 0.5]), np.array([[1.0, 0.4], [1.0, 0.6]]))
    two = Quantity(np.array([1.0, 0.3, 0.1]), np.array([[1.0, 0.2, 0.1], [1.0, 0.4, 0.1]]))
    assert mean_of([one, two]).value == pytest.approx([1.0, 0.4, 0.05])
    assert pooled([one, two]).batches.shape == (4, 3)
    assert place(one, 5).value == 0.0 and place(two, 1).batches == pytest.approx([0.2, 0.4])


def small():
    return parse_scenario(
        'name = "s"\n[policy]\nname = "random"\n[[pools]]\nname = "a"\nservers = 5\n[arrivals]\nload = 0.5\n'
        "[run]\nwarmup = 5\nduration = 60\n",
        "s",
    )


def test_simulations_are_the_same_one_by_one_and_in_processes(monkeypatch):
    tasks = [Task(small(), 30_000, replication=number) for number in range(2)]
    apart = run_tasks(tasks, lambda share: None)  # 60,000 jobs are announced, so it takes processes
    for task, found in zip(tasks, apart, strict=True):
        alone = run_task(task).quantities
        assert {name: plain(quantity.value) for name, quantity in alone.items()} == {
            name: plain(quantity.value) for name, quantity in found.quantities.items()
        }


def a_table(live_value, model_value, exact=True):
    def constant(value):
        return Quantity(np.asarray(value), np.full(40, value))

    simulated = {"sojourn_mean": constant(2.0)}
    predictions = {"sojourn_mean": {"closed": Prediction(model_value, "closed form", "somebody", "much", exact)}}
    return compare({"sojourn_mean": constant(live_value)}, [simulated] * 2, simulated, predictions, 1e-3)


@pytest.mark.parametrize(
    ("live", "model", "exact", "word", "code"),
    [
        (2.01, 2.0, True, "agree", 0),
        (2.3, 2.0, True, "differ", 1),
        (2.0, 2.5, True, "differ", 1),
        (2.0, 2.5, False, "agree", 0),  # a limit that is not met never changes the exit code
    ],
)
def test_what_differs_decides_the_exit_code(live, model, exact, word, code):
    report = Report(small(), a_table(live, model, exact), "live")
    assert (report.verdict, report.exit_code) == (word, code)
    assert Report(small(), a_table(live, model, exact), "live", invalid=["late"]).exit_code == 3
    tested = report.json()["quantities"]["sojourn_mean"]["models"]["closed"]["test"]
    assert tested["verdict"] == ("limit" if not exact else "differ" if model == 2.5 else "agree")
    assert report.table.tests == (2 if exact else 1)


def test_a_violated_identity_differs():
    checks = identities(read_experiment("pull").scenario, rows([SERVED], [0.0]), counted())
    report = Report(small(), a_table(2.0, 2.0), "live", checks)
    assert report.verdict == "differ" and report.exit_code == 1


def test_json_has_no_bare_nan():
    value = plain({"a": math.nan, "b": np.array([1.0, math.inf]), "c": np.float64(2.0), "d": "text", "e": True})
    assert value == {"a": None, "b": [1.0, None], "c": 2.0, "d": "text", "e": True}
    assert json.loads(json.dumps(value, allow_nan=False)) == value


def test_a_folder_holds_one_run(tmp_path):
    scenario = small()
    folder = make_folder(scenario, tmp_path / "run")
    assert parse_scenario((folder / "scenario.toml").read_text(), "again") == scenario
    run = simulate(scenario)
    assert write_metrics(folder, {"router 1/x": "a 1\n"}) == ["router-1-x"]
    write_jobs(folder, run.records, run.fleet)
    write_summary(folder, {"verdict": "agree"})
    assert (folder / "metrics" / "router-1-x.txt").read_text() == "a 1\n"
    with (folder / "jobs.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(run.records.intended)
    assert table[0]["router"] == "router-1" and table[0]["server"].startswith("a-") and table[0]["patience_units"] == ""
    assert float(table[5]["intended_units"]) == pytest.approx(run.records.intended[5], abs=1e-6)
    with pytest.raises(SettingsError, match="holds a run already"):
        make_folder(scenario, folder)


@pytest.mark.parametrize("name", ["jobs.csv", "metrics/router-1.txt", "summary.json", "report.html"])
def test_a_file_that_cannot_be_written_is_named(tmp_path, name):
    run = simulate(small())
    writers = {
        "jobs.csv": lambda: write_jobs(tmp_path, run.records, run.fleet),
        "metrics/router-1.txt": lambda: write_metrics(tmp_path, {"router-1": "a 1\n"}),
        "summary.json": lambda: write_summary(tmp_path, {}),
        "report.html": lambda: write_text(tmp_path, ""),
    }
    (tmp_path / name).mkdir(parents=True)  # where a file shall be
    with pytest.raises(RunInvalid, match=r"cannot be written: Is a directory: make room") as caught:
        writers[name]()
    assert caught.value.kind == "not_written" and str(caught.value).startswith(str(tmp_path / name))


def test_folders_of_the_same_second_are_different(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len({make_folder(small()) for _ in range(3)}) == 3


def test_a_scenario_is_a_file_or_a_shipped_name(tmp_path):
    (tmp_path / "mine.toml").write_text("name = 1")
    with pytest.raises(SettingsError, match=r"mine\.toml"):
        read_experiment(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="expected TOML in UTF-8"):
        read_experiment(str(tmp_path / "mine.toml"))
    with pytest.raises(SettingsError, match="cannot be read"):
        read_experiment(str(tmp_path))
    assert read_experiment("pull", ["policy.stale=keep"]).scenario.policy["stale"] == "keep"
