"""`herdless sweep`: grids, what is kept, and what a sweep that goes on does."""

from __future__ import annotations

import csv
import json
import os

import pytest

from router.protocol.errors import SettingsError
from services.cli.main import run_command
from services.lab.grid import points_of, read_axes
from services.lab.sweep import Sweep, run_sweep
from services.lab.sweep_folder import ROWS, key_of, open_sweep_folder

SMALL = """
name = "small"
policy = {name = "random"}
pools = [{name = "a", servers = 3}]
arrivals = {load = 0.5}
run = {warmup = 20, duration = 200}
"""
ASKED = {"scenario": "one", "over": {"a": ["1"]}}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    return str(tmp_path / "small.toml")


def row(load, label="random"):
    return {"point": {"arrivals.load": load}, "policy": label, "value": 1.0}


# -- grids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("arrivals.load=0.5,0.7,0.9", [0.5, 0.7, 0.9]),
        ("arrivals.load=0.5:0.95:0.15", [0.5, 0.65, 0.8, 0.95]),
        ("arrivals.load=0.1:0.3:0.1", [0.1, 0.2, 0.3]),  # 0.1 + 2·0.1 is more than 0.3 in floating point
        ("pools.0.servers=10:40:10", [10, 20, 30, 40]),
        ("pools.0.servers=3:1:-1", [3, 2, 1]),
        ("policy.name=jsq, pull", ["jsq", "pull"]),
        ("routers.split=[1,3],[2,2]", [[1, 3], [2, 2]]),
        ('pools.0.capacity=5,"inf"', [5, "inf"]),
    ],
)
def test_lists_and_ranges(text, values):
    (axis,) = read_axes([text])
    assert axis.values == values and [type(value) for value in axis.values] == [type(value) for value in values]


def test_a_grid_is_every_combination():
    points = points_of(read_axes(["arrivals.load=0.5,0.9", "policy.d=1:3:1"]))
    assert [tuple(point.values.values()) for point in points] == [
        (0.5, 1), (0.5, 2), (0.5, 3), (0.9, 1), (0.9, 2), (0.9, 3),
    ]  # fmt: skip
    assert points[-1].overrides == ("arrivals.load=0.9", "policy.d=3")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "expected KEY=SPEC"),
        (["load"], "--over load: expected KEY=SPEC"),
        (["load="], "expected KEY=SPEC with a list or a range"),
        (["load=1,,2"], "expected KEY=SPEC with a list or a range"),
        (["load=1,1"], "a value stands there twice"),
        (["load=1:2:0"], "with a step that leads from first to last"),
        (["load=1:2:-1"], "with a step that leads from first to last"),
        (["load=0:1:0.00001"], "100001 values, expected at most 10000"),
        (["load=1", "load=2"], "the key stands there twice"),
        (["a=1:200:1", "b=1:200:1"], "40000 points, expected at most 10000"),
    ],
)
def test_mistakes_in_grids(texts, message):
    with pytest.raises(SettingsError) as caught:
        read_axes(texts)
    assert message in str(caught.value)


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_rows_outlive_the_sweep(tmp_path):
    with open_sweep_folder(tmp_path, ASKED) as folder:
        folder.add(row(0.5))
        folder.add(row(0.7))
    with open_sweep_folder(tmp_path, ASKED) as folder:
        assert list(folder.rows.values()) == [row(0.5), row(0.7)]


def test_a_row_that_is_being_written_when_the_sweep_is_interrupted_counts_as_kept(tmp_path, monkeypatch):
    def interrupt(file):
        raise KeyboardInterrupt

    with open_sweep_folder(tmp_path, ASKED) as folder:
        folder.add(row(0.5))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupt)  # a slow disk
            with pytest.raises(KeyboardInterrupt):
                folder.add(row(0.7))
        assert folder.kept() == 2
    with open_sweep_folder(tmp_path, ASKED) as folder:
        assert list(folder.rows.values()) == [row(0.5), row(0.7)]


@pytest.mark.parametrize("cut", [1, 10])
def test_a_line_that_was_cut_off_is_dropped(tmp_path, cut):
    with open_sweep_folder(tmp_path, ASKED) as folder:
        folder.add(row(0.5))
        folder.add(row(0.7))
    whole = (tmp_path / ROWS).read_bytes()
    (tmp_path / ROWS).write_bytes(whole[:-cut])
    with open_sweep_folder(tmp_path, ASKED) as folder:
        assert list(folder.rows) == [key_of({"arrivals.load": 0.5}, "random")]
        folder.add(row(0.7))
    assert (tmp_path / ROWS).read_bytes() == whole


def test_another_sweep_in_the_folder_is_refused(tmp_path):
    with open_sweep_folder(tmp_path, ASKED):
        pass
    with (
        pytest.raises(SettingsError, match="holds a sweep of another over"),
        open_sweep_folder(tmp_path, {**ASKED, "over": {"a": ["2"]}}),
    ):
        pass


def test_two_sweeps_do_not_write_to_one_folder(tmp_path):
    with (
        open_sweep_folder(tmp_path, ASKED),
        pytest.raises(SettingsError, match="another sweep is at work there"),
        open_sweep_folder(tmp_path, ASKED),
    ):
        pass


def test_what_is_done_is_not_done_again(file, tmp_path):
    sweep = Sweep(file, [], read_axes(["arrivals.load=0.4,0.5"]), ["random", "jsq"], ["simulated"], 1)
    first = {**row(0.5, "jsq"), "refused": ""}
    with open_sweep_folder(tmp_path, sweep.described()) as folder:
        folder.add(first)
        rows = run_sweep(sweep, folder, lambda stage, share: None)
    assert [(each["point"]["arrivals.load"], each["policy"]) for each in rows] == [
        (0.4, "random"), (0.4, "jsq"), (0.5, "random"), (0.5, "jsq"),
    ]  # fmt: skip
    assert rows[3] == first and "quantities" in rows[0]
    assert len((tmp_path / ROWS).read_text().splitlines()) == 4


# -- the command ------------------------------------------------------------------------------------------------------


def test_simulated_and_solved(file, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["sweep", file, "--over", "arrivals.load=0.2:0.6:0.2", "--simulate", "--solve", "--json",
                 "--replications", "2", "--out", str(out)]  # fmt: skip
    assert run_command(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["over"] == {"arrivals.load": [0.2, 0.4, 0.6]} and found["columns"] == ["simulated", "models"]
    for point in found["points"]:
        # M/M/1 at each server: 1 / (1 − load).
        expected = 1.0 / (1.0 - point["point"]["arrivals.load"])
        sojourn = point["quantities"]["sojourn_mean"]
        assert sojourn["models"]["closed"]["value"] == pytest.approx(expected)
        assert sojourn["simulated"]["value"] == point["values"]["sojourn_mean"] == pytest.approx(expected, rel=0.4)
        assert point["stationarity"]["state"] == "steady" and point["refused"] == ""
    with (out / "results.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [float(line["sojourn_mean"]) for line in rows] == [p["values"]["sojourn_mean"] for p in found["points"]]
    for line in rows:
        assert float(line["sojourn_mean.low"]) < float(line["sojourn_mean"]) < float(line["sojourn_mean.high"])
        assert float(line["sojourn_mean.model"]) == pytest.approx(1.0 / (1.0 - float(line["arrivals.load"])))
    # Once more it does nothing and says the same.
    before = (out / ROWS).read_bytes()
    assert run_command(arguments) == 0
    assert json.loads(capsys.readouterr().out) == found and (out / ROWS).read_bytes() == before


def test_an_unstable_point_has_no_mean_and_the_others_have(file, tmp_path, capsys):
    arguments = ["sweep", file, "--over", "arrivals.load=0.5,1.2", "--out", str(tmp_path / "out"), "--json"]
    assert run_command(arguments) == 0
    stable, unstable = json.loads(capsys.readouterr().out)["points"]
    assert "sojourn_mean" in stable["values"]
    assert unstable["stationarity"]["state"] == "unstable" and "sojourn_mean" not in unstable["values"]
    assert "sojourn_mean" not in unstable["quantities"] and "wait_probability" in unstable["values"]


def test_a_point_that_no_model_knows_says_why(file, tmp_path, capsys):
    arguments = ["sweep", file, "--over", "arrivals.load=0.5,1.2", "--solve", "--out", str(tmp_path / "out"), "--json"]
    assert run_command(arguments) == 0
    stable, refused = json.loads(capsys.readouterr().out)["points"]
    assert stable["values"]["sojourn_mean"] == pytest.approx(2.0)
    assert refused["refused"] and refused["values"] == {}
    arguments = ["sweep", file, "--over", "arrivals.load=1.2,1.3", "--solve", "--out", str(tmp_path / "no"), "--json"]
    assert run_command(arguments) == 2
    assert "no model applies at any point" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_wrong_point_is_found_before_anything_is_run(file, tmp_path, capsys):
    arguments = ["sweep", file, "--over", "policy.d=2,9", "--policies", "random", "--set", "policy.name=power_of_d",
                 "--out", str(tmp_path / "out"), "--json"]  # fmt: skip
    assert run_command(arguments) == 2
    assert "policy.d = 9" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert (tmp_path / "out" / ROWS).read_bytes() == b""


def test_another_scenario_in_the_same_folder_is_refused(file, tmp_path, capsys):
    arguments = ["sweep", file, "--over", "arrivals.load=0.5", "--out", str(tmp_path / "out"), "--json"]
    assert run_command(arguments) == 0
    capsys.readouterr()
    assert run_command([*arguments, "--set", "pools.0.servers=4"]) == 2
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert "holds a sweep of another scenario" in message


def test_the_command_prints_a_table(file, tmp_path, capsys):
    arguments = ["sweep", file, "--over", "arrivals.load=0.5,1.2", "--policies", "random,jsq"]
    assert run_command([*arguments, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "arrivals.load" in out and "jsq" in out and "unstable" in out


def test_a_heading_of_the_grid_is_not_broken_where_the_table_is_wide(file, tmp_path, capsys):
    arguments = ["sweep", file, "--over", "pools.0.servers=2,3", "--policies", "random,jsq", "--simulate", "--solve",
                 "--set", "run.duration=20"]  # fmt: skip
    assert run_command([*arguments, "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("pools.0.servers ") for line in lines)
    # A value and its interval stand on one line.
    assert not any(line.strip().startswith("±") for line in lines)
