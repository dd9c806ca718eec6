"""The dashboards as Grafana reads them, and the PromQL in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.deploy.engine import ROOT

PROVISIONING = ROOT / "services" / "grafana" / "provisioning"
FILES = sorted((PROVISIONING / "dashboards").glob("*.json"))

# What Grafana fills in: everything is chosen, over five minutes.
FILLED_IN = {"$policy": ".*", "$pool": ".*", "$router": ".*", "$__range": "5m"}

METRIC = re.compile(r"\b(?:herdless[a-z0-9_:]*|process_[a-z_]+|up|ALERTS)\b(?=[^\"']*(?:[\"'][^\"']*[\"'][^\"']*)*$)")


class Expression(NamedTuple):
    """A PromQL expression, and where it stands."""

    where: str
    promql: str


def board(path: Path) -> dict[str, Any]:
    """One dashboard."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def panels(of: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels of a dashboard, those in rows too; rows themselves are none."""
    for panel in of["panels"]:
        yield from panel.get("panels") or []
        if panel["type"] != "row":
            yield panel


def expressions(of: dict[str, Any]) -> list[Expression]:
    """What the panels of a dashboard ask, with the variables filled in."""
    return [
        Expression(f"{of['title']}: {panel['title']}", filled_in(target["expr"]))
        for panel in panels(of)
        for target in panel["targets"]
    ]


def marks(of: dict[str, Any]) -> list[Expression]:
    """What the annotations of a dashboard ask."""
    return [Expression(f"{of['title']}: {mark['name']}", mark["expr"]) for mark in of["annotations"]["list"]]


def filled_in(promql: str) -> str:
    """An expression as Grafana sends it."""
    for variable, value in FILLED_IN.items():
        promql = promql.replace(variable, value)
    return promql


def metrics_in(promql: str) -> set[str]:
    """The names of metrics in an expression."""
    return set(METRIC.findall(promql))
