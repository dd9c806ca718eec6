"""Scenarios are written so that they are read back the same, and no text breaks the reader."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.protocol.errors import SettingsError
from router.registry import policy_names
from server.laws import LAWS
from services.scenario import Scenario, parse_scenario, scenario_toml
from services.scenario_text import read_table, write_table
from services.scenarios import shipped

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
positive = st.floats(min_value=1e-9, max_value=1e9)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,9}", fullmatch=True).filter(lambda name: name != "router")


def optional(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


@st.composite
def pools(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        slots = draw(st.integers(1, 5))
        capacity = draw(st.integers(slots, 10) | st.sampled_from(["inf", math.inf]))
        rest = draw(optional(rate=positive))
        found.append({"name": name, "servers": draw(st.integers(2, 9)), "slots": slots, "capacity": capacity, **rest})
    return found


drawn_arrivals = st.builds(
    lambda law, key, rate: {"law": law, key: rate},
    st.sampled_from(["poisson", "deterministic"]),
    st.sampled_from(["load", "rate_per_server", "rate_total"]),
    positive,
)
trace_arrivals = st.builds(
    lambda key, rate, path, sizes, rest: {
        "law": "trace",
        "path": path,
        key: rate,
        "time_column": path,
        **sizes,
        **rest,
    },
    st.sampled_from(["load", "rate_per_server", "rate_total", "speedup"]),
    positive,
    texts.filter(bool),
    st.just({})
    | st.builds(lambda column: {"size_column": column}, texts)
    | st.builds(lambda weights: {"size_columns": weights}, st.dictionaries(texts, positive, min_size=1, max_size=3)),
    optional(
        time_unit=st.sampled_from(["auto", "ms", "datetime"]), repeat=st.booleans(), limit_rows=st.integers(1, 99)
    ),
)
policies = (
    st.sampled_from(policy_names()).map(lambda name: {"name": name})
    | st.builds(lambda stale, k: {"name": "pull", "stale": stale, "k": k}, st.sampled_from(["keep"]), st.integers(1, 9))
    | st.builds(lambda flag: {"name": "power_of_d", "d": 2, "replacement": flag}, st.booleans())
)
services = st.sampled_from([{"law": law, **dict.fromkeys(kind.limits, 1.5)} for law, kind in LAWS.items()])


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    arrivals = draw(drawn_arrivals | trace_arrivals)
    rooms = {
        "title": texts,
        "source": texts,
        "seed": st.integers(0, 2**63 - 1),
        "time_unit_s": st.floats(1e-6, 1e6),
        "routers": optional(count=st.integers(1, 64))
        | st.builds(lambda split: {"split": split}, st.lists(positive, min_size=1, max_size=5)),
        "patience": optional(in_service=st.booleans()).flatmap(
            lambda t: st.builds(lambda r: {"rate": r, **t}, positive)
        ),
        "run": optional(warmup=st.floats(0, 1e9), duration=positive),
    }
    if "size_column" not in arrivals and "size_columns" not in arrivals:
        rooms["service"] = services
    rest = draw(optional(**rooms))
    return {"name": draw(names), "policy": draw(policies), "pools": draw(pools()), "arrivals": arrivals, **rest}


@given(tables())
@settings(max_examples=150)
def test_what_is_written_is_read_as_the_same_scenario(table: dict[str, Any]) -> None:
    found = parse_scenario(write_table(table), "x.toml")
    assert found == Scenario.model_validate(table)
    assert parse_scenario(scenario_toml(found), "x.toml") == found


values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=5))
@settings(max_examples=150)
def test_any_table_is_read_back_as_written(table: dict[str, Any]) -> None:
    assert read_table(write_table(table)) == table


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=2))
def test_whatever_is_typed_gets_a_scenario_or_a_message(text: str, overrides: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"(?s).+ \(x\.toml\)$"):
        parse_scenario(text, "x.toml", overrides)


@given(st.sampled_from(["policy", "routers", "pools.0", "arrivals", "service", "patience", "run"]), texts, values)
def test_whatever_a_key_is_set_to_nothing_but_a_message_comes_of_it(room: str, key: str, value: Any) -> None:
    written = write_table({key: value}).partition(" = ")
    text = f"{room}.{written[0]}={written[2]}"
    try:
        message = parse_scenario(shipped()["pull"], "x.toml", [text]).name
    except SettingsError as error:
        message = str(error)
    assert message == "pull" or message.endswith(" (x.toml)")
