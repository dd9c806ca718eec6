"""docs/metrics.md lists exactly the metrics that the processes show, in the words of the code."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import yaml

from router.app.keys import Keys
from router.app.main import RouterApp
from router.app.metrics import router_metrics
from router.app.settings import RouterSettings
from router.process.access import Access
from router.process.limits import Connections
from router.process.metrics import TASKS, Metric
from router.registry import make_policy, policy_names
from server.app.driver import ServerDriver
from server.app.links import Links
from server.app.metrics import make_metrics
from server.app.settings import ServerSettings
from services.console.web import console_metrics
from services.lab.exporter import exporter_metrics
from services.lab.watch import Watch
from services.loadgen.client.book import RunningBook
from services.loadgen.client.endless import Endless, Schedule
from services.loadgen.client.endless_process import load_metrics
from services.scenario import parse_scenario
from services.scenarios import shipped
from tests.tidy.tree import ROOT

ROW = re.compile(r"\| `([a-z0-9_]+)` \| (\w+) \| ([^|]*) \| (.*) \|")
RULE = re.compile(r"\| `(herdless:[A-Za-z0-9_:]+)` \|")


async def catalogue() -> list[Metric]:
    """All metrics of all processes."""
    router = RouterApp(RouterSettings(), make_policy({"name": "pull"}, Random(1)), Random(1))
    settings = ServerSettings(
        id="servers-slow", pool="slow", servers=1, routers=("127.0.0.1:1",), metrics_per_server=True
    )
    driver = ServerDriver(settings)
    server = make_metrics(settings, driver, Links(settings, driver))
    driver.close()
    scenario = parse_scenario(shipped()["pull"], "pull")
    endless = Endless(Schedule(scenario), RunningBook(policy_names(), 0.1), [], 0.1)
    endless.stop()
    load = load_metrics(endless, 1.0, Access(None))
    exporter = exporter_metrics(Watch(scenario, "127.0.0.1:1"), Access(None), Connections())
    of_router = router_metrics(router.driver, policy_names(), Access(None), Connections(), Keys(1, 1.0))
    all_of = (of_router, server, load, console_metrics(Access(None), Connections()), exporter)
    return [metric for metrics in all_of for metric in metrics.catalogue]


def row(metric: Metric) -> tuple[str, str, str, str]:
    return metric.name, metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help


async def test_every_metric_is_described_as_it_is_and_no_other() -> None:
    described = ROW.findall((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"))
    assert described == [row(metric) for metric in [TASKS, *await catalogue()]]


def test_every_recording_rule_is_described_and_no_other() -> None:
    described = RULE.findall((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"))
    assert described == list(dict.fromkeys(recorded(ROOT / "services" / "prometheus" / "rules.yml")))


def recorded(path: Path) -> list[str]:
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule]
