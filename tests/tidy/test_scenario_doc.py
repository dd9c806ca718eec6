"""docs/scenario.md names every key of a scenario, and its example is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from services.scenario import Scenario, parse_scenario
from services.scenario_faults import Fault
from services.scenario_parts import Arrivals, BurstyArrivals, Patience, Pool, Routers, RunPlan, TraceArrivals

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scenario.md").read_text(encoding="utf-8")


def test_the_example_is_a_scenario() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)

    scenario = parse_scenario(example, "scenario.md")

    assert scenario.rate_total == 16.0  # load 0.8 of twenty servers of rate 1


@pytest.mark.parametrize("part", [Scenario, Routers, Pool, Arrivals, TraceArrivals, Patience, RunPlan, Fault])
def test_every_key_is_explained(part: type[BaseModel]) -> None:
    missing = [key for key in part.model_fields if f"`{key}`" not in PAGE and f"[{key}]" not in PAGE]

    assert missing == []


def test_keys_of_bursts_stand_on_the_page_about_bursts() -> None:
    page = (DOCS / "papers" / "workloads.md").read_text(encoding="utf-8")

    assert [
        key for key in BurstyArrivals.model_fields if key not in Arrivals.model_fields and f"`{key}`" not in page
    ] == []
