"""The pages of comparisons and sweeps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from services.report.contest_figures import contest_figures
from services.report.contest_page import contest_page
from services.report.sweep_figures import series, sweep_figures, swept_key
from services.report.sweep_page import sweep_page
from tests.unit.report_parts import Page, quantity
from tests.unit.test_report_page import EVIL, SUBJECT

STEADY = {"state": "steady", "growth": 1.0, "difference": 0.0, "noise": 1.0, "why": ""}
UNSTABLE = {"state": "unstable", "growth": 2.0, "difference": 9.0, "noise": 1.0, "why": "unstable: jobs grow"}


def policy(mean, messages):
    columns = {"columns": ("simulated",)}
    quantities = {
        "sojourn_mean": quantity(mean, **columns), "sojourn_p95": quantity(3 * mean, **columns),
        "sojourn_p99": quantity(5 * mean, **columns), "block_probability": quantity(0.0, **columns),
        "messages.total": quantity(messages, **columns), "queue_tail": quantity([1.0, 0.5, 0.25], **columns),
    }  # fmt: skip
    return {"policy": {}, "jobs": 100, "runs": 2, "stationarity": STEADY, "values": {}, "quantities": quantities}


def contest(*, second="jsq", **more):
    apart = {"difference": -1.0, "interval": [-1.25, -0.75], "word": "less", "longer": 1.0}
    lost = {"policy": {}, "jobs": 100, "runs": 2, "stationarity": UNSTABLE, "values": {}, "quantities": {}}
    return {
        "scenario": "small", "valid": True, "verdict": "not_compared", "column": "simulated",
        "criterion": "sojourn_mean", "baseline": "random", "false_alarms": 0.05, "family": 4,
        "policies": {"random": policy(2.0, 0.0), second: policy(1.0, 2.0), "worst": lost},
        "differences": {second: {"sojourn_mean": apart}}, "ranking": [second, "random"], "leaders": [second],
        "statements": ["worst is unstable", f"best by mean sojourn time: {second}"], "violated": [], "invalid": [],
    } | more  # fmt: skip


def page_of_contest(found):
    return Page(contest_page(SUBJECT, found, contest_figures(found)))


def test_a_comparison_says_who_is_best_and_by_how_much() -> None:
    text = page_of_contest(contest()).text
    assert text.index("Best by mean sojourn: jsq") < text.index("best by mean sojourn time: jsq.")
    assert "▼ −1.000 ± 0.250" in re.sub(r"[\u00a0\u2009]", " ", text).replace("±  ", "± ")
    assert "with probability 0.95" in text
    assert "unstable: jobs grow" in text and "no steady state" in text


def test_a_comparison_without_steady_states_is_a_page_too() -> None:
    found = contest(ranking=[], leaders=[], differences={}, baseline=None)
    found["policies"] = {"worst": found["policies"]["worst"]}
    page = page_of_contest(found)
    assert "No policy has a steady state here" in page.text
    assert page.named("svg") == []


@pytest.mark.parametrize(("key", "word"), [("invalid", "✗ Invalid"), ("violated", "✗ Jobs or messages are missing")])
def test_what_is_wrong_with_a_comparison_comes_first(key, word) -> None:
    assert word in page_of_contest(contest(**{key: ["jsq: something"]})).text


def test_figures_of_a_comparison_are_the_same_each_time() -> None:
    first, second = contest_figures(contest()), contest_figures(contest())
    assert [drawing.name for drawing in first] == ["sojourns", "cost", "queue-tails"]
    assert [(one.svg, one.pdf) for one in first] == [(two.svg, two.pdf) for two in second]


def test_labels_of_policies_are_escaped() -> None:
    page = page_of_contest(contest(second=EVIL))
    assert page.named("script") == []
    assert page.text.count(EVIL) >= 5


def row(load, label, mean, model=None, **more):
    found = quantity(mean, columns=("simulated",), model=model)
    return {
        "point": {"arrivals.load": load, "routers.count": 2}, "policy": label, "jobs": 9, "stationarity": STEADY,
        "values": {"sojourn_mean": mean}, "quantities": {"sojourn_mean": found}, "refused": "",
    } | more  # fmt: skip


def sweep(*, label="jsq", **more):
    rows = [row(load, name, 1.0 + load, 1.5) for load in (0.5, 0.75, 0.9) for name in ("random", label)]
    return {
        "scenario": "small", "valid": True, "verdict": "not_compared", "columns": ["simulated", "models"],
        "over": {"routers.count": [2], "arrivals.load": [0.5, 0.75, 0.9]}, "policies": ["random", label],
        "replications": 2, "points": rows,
    } | more  # fmt: skip


def test_the_key_with_the_most_values_is_swept_and_the_others_part_the_lines() -> None:
    found = sweep()
    assert swept_key(found) == "arrivals.load"
    assert list(series(found)) == ["random, count 2", "jsq, count 2"]
    assert swept_key(sweep(over={"service.law": ["a", "b", "c"], "routers.count": [1, 2]})) == "routers.count"


def test_a_sweep_is_drawn_and_tabled() -> None:
    found = sweep()
    drawings = sweep_figures(found)
    assert [drawing.name for drawing in drawings] == ["sojourn-mean"]
    assert "jsq, count 2</text>" in drawings[0].svg and "mean sojourn (time units)" in drawings[0].svg
    text = Page(sweep_page(SUBJECT, found, drawings)).text
    assert "6 points over routers.count, arrivals.load, 2 policies" in text
    assert "1.500 closed form" in text
    assert [(one.svg, one.pdf) for one in drawings] == [(two.svg, two.pdf) for two in sweep_figures(found)]


def test_points_without_a_steady_state_are_not_drawn() -> None:
    rows = [row(0.5, "jsq", 1.0), row(1.5, "jsq", 9.0, values={}, stationarity=UNSTABLE)]
    found = sweep(policies=["jsq"], points=rows, over={"arrivals.load": [0.5, 1.5]})
    text = Page(sweep_page(SUBJECT, found, sweep_figures(found))).text
    assert "1 of them have no steady state" in text
    assert "9.000" not in text


def test_a_sweep_where_no_model_applies_says_why() -> None:
    empty = row(0.5, "jsq", 1.0) | {"values": {}, "quantities": {}, "refused": "no model", "stationarity": None}
    found = sweep(points=[empty], over={"arrivals.load": [0.5]})
    page = Page(sweep_page(replace(SUBJECT, title=EVIL), found, sweep_figures(found)))
    assert "at the first: no model" in page.text
    assert page.named("script") == []


def test_words_may_be_swept() -> None:
    rows = [row(0.5, "jsq", 1.0) | {"point": {"service.law": law}} for law in ("exponential", "pareto")]
    found = sweep(points=rows, over={"service.law": ["exponential", "pareto"]}, policies=["jsq"])
    assert ">pareto</text>" in sweep_figures(found)[0].svg
