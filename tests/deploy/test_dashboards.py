"""The dashboards, without a Grafana: what it would refuse, or show as empty panels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from services.grafana.dashboards import BOARDS, written
from tests.deploy.boards import FILES, PROVISIONING, board, expressions, marks, metrics_in, panels
from tests.deploy.engine import ROOT, compose_file

SOURCE = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yml").read_text(encoding="utf-8"))["datasources"][0]
of_each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_what_is_committed_is_what_the_code_writes() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in FILES} == written(), "run: make dashboards"
    assert set(BOARDS) == {path.name for path in FILES}


@of_each_file
def test_nothing_is_lost_on_the_way_through_grafanas_own_types(path: Path) -> None:
    register_default_plugins()
    text = path.read_text(encoding="utf-8")
    again = JSONEncoder(sort_keys=True, indent=1).encode(Dashboard.from_json(json.loads(text)))
    assert json.loads(again) == json.loads(text)


@of_each_file
def test_the_data_source_is_the_provisioned_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "__inputs" not in text
    assert "${DS_" not in text
    found = re.findall(r'"datasource": \{[^}]*\}', text)
    assert found
    used = {tuple(json.loads("{" + entry + "}")["datasource"].items()) for entry in found}
    assert used == {(("type", SOURCE["type"]), ("uid", SOURCE["uid"]))}
    assert all(panel["datasource"] and target["datasource"] for panel in panels(board(path))
               for target in panel["targets"])  # fmt: skip


@of_each_file
def test_a_dashboard_is_provisioned_by_its_uid(path: Path) -> None:
    assert board(path).get("id") is None
    assert re.fullmatch(r"herdless-[a-z]+", board(path)["uid"])


def test_no_two_dashboards_or_panels_are_the_same() -> None:
    boards = [board(path) for path in FILES]
    assert len({each["uid"] for each in boards}) == len({each["title"] for each in boards}) == len(boards) == 4
    for each in boards:
        ids = [panel["id"] for panel in each["panels"]]
        assert len(set(ids)) == len(ids)


@of_each_file
def test_every_panel_says_what_it_shows_and_shows_it_where_there_is_room(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(board(path)):
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


@of_each_file
def test_every_variable_that_is_used_is_there_and_every_one_there_is_used(path: Path) -> None:
    of = board(path)
    asked = " ".join(target["expr"] for panel in panels(of) for target in panel["targets"])
    used = set(re.findall(r"\$(\w+)", asked)) - {"__range"}
    assert used == {variable["name"] for variable in of["templating"]["list"]}


@of_each_file
def test_every_metric_that_is_asked_for_is_shown_by_some_process(path: Path) -> None:
    listed = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `([a-zA-Z0-9_:]+)` \|", listed, re.MULTILINE))
    known |= {"up", "ALERTS", "process_resident_memory_bytes"}
    asked = {name for _, promql in [*expressions(board(path)), *marks(board(path))] for name in metrics_in(promql)}
    assert asked
    assert {name for name in asked if re.sub(r"_(bucket|sum|count)$", "", name) not in known} == set()


def test_the_names_of_metrics_are_found_in_promql() -> None:
    # So that the test before does not pass for want of names.
    promql = 'max by (up_to) (herdless_model_value{quantity="up", job="herdless_no"}) / scalar(sum(up)) > ALERTS'
    assert metrics_in(promql) == {"herdless_model_value", "up", "ALERTS"}


def test_files_are_provisioned_from_where_compose_mounts_them() -> None:
    provider = yaml.safe_load((PROVISIONING / "dashboards" / "herdless.yml").read_text(encoding="utf-8"))["providers"][
        0
    ]
    grafana = compose_file()["services"]["grafana"]
    (mounted,) = [volume.split(":") for volume in grafana["volumes"]]
    assert mounted == ["./services/grafana/provisioning", "/etc/grafana/provisioning", "ro"]
    assert provider["options"]["path"] == "/etc/grafana/provisioning/dashboards"
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert PROVISIONING / home.relative_to("/etc/grafana/provisioning") in FILES
    assert SOURCE["url"] == "http://prometheus:9090"


def test_grafana_is_of_the_version_that_the_dashboards_are_written_for() -> None:
    image = compose_file()["services"]["grafana"]["image"]
    pinned = re.search(r"^grafana-foundation-sdk==\d+!(\S+)", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert image == f"grafana/grafana:{pinned[1]}"
