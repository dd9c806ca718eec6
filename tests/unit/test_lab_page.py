"""What a command leaves in its folder for people to read."""

from __future__ import annotations

import json

import pytest

from services.lab.experiment import read_experiment
from services.lab.page import Asked, keep_simulation, write_page, write_sweep_page
from services.lab.run import simulate
from tests.unit.report_parts import Page
from tests.unit.test_report_many import sweep


@pytest.fixture(scope="module")
def report():
    sets = ["run.warmup=2", "run.duration=20", 'title="A <b>small</b> one"']
    return simulate(read_experiment("mm1", sets), 2, 1e-3, lambda stage, share: None)


def test_a_simulation_leaves_a_page_figures_and_what_it_ran(report, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = keep_simulation(report, None, ["--replications=2"])
    (folder,) = (tmp_path / "runs").iterdir()
    found = kept.json()
    assert (tmp_path / found["report"]).samefile(folder / "report.html")
    assert json.loads((folder / "summary.json").read_text()) == found
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert "A <b>small</b> one" in page.text
    assert "herdless simulate scenario.toml --replications=2" in page.text
    links = [link for link in page.links if not link.startswith("#")]
    assert len(links) > 5
    assert [link for link in links if not (folder / link).exists()] == []


def test_where_nothing_can_be_written_a_simulation_says_so_and_goes_on(report, tmp_path, monkeypatch) -> None:
    (tmp_path / "runs").write_text("a file")
    monkeypatch.chdir(tmp_path)
    found = keep_simulation(report, None, []).json()
    assert "report" not in found
    assert any("no page was written" in hint for hint in found["hints"])


def test_a_page_names_no_place_on_this_machine(tmp_path) -> None:
    (tmp_path / "trace.csv").write_text("when\n" + "".join(f"{second}.5\n" for second in range(20)))
    (tmp_path / "replay.toml").write_text(
        'name = "replay"\n[policy]\nname = "random"\n[[pools]]\nname = "one"\nservers = 9\n'
        '[arrivals]\nlaw = "trace"\npath = "trace.csv"\ntime_column = "when"\ntime_unit = "s"\nspeedup = 1.0\n'
        "[run]\nwarmup = 1\nduration = 20\n"
    )
    report = simulate(read_experiment(str(tmp_path / "replay.toml")), 1, 1e-3, lambda stage, share: None)
    folder = tmp_path / "kept"
    folder.mkdir()
    write_page(folder, report, Asked("simulate", "simulation"))
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "trace.csv" in page
    assert str(tmp_path) not in page


def test_a_sweep_leaves_a_page(report, tmp_path) -> None:
    path = write_sweep_page(tmp_path, report.scenario, sweep(), Asked("sweep", "sweep", ["--over=a=1,2"]))
    page = Page(path.read_text(encoding="utf-8"))
    assert "herdless sweep scenario.toml --over=a=1,2" in page.text
    assert (tmp_path / "figures" / "sojourn-mean.pdf").exists()
