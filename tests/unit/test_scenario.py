"""Scenarios: what they mean, what overrides replace, and which are shipped."""

from __future__ import annotations

import math

import pytest

from router.memory import MemoryRule
from router.protocol.errors import SettingsError
from services.lab.cluster import router_commands
from services.scenario import Scenario, parse_scenario, scenario_toml
from services.scenario_parts import TraceArrivals
from tests.unit.scenario_texts import BASE, TRACE


def scenario(*overrides: str, text: str = BASE) -> Scenario:
    return parse_scenario(text, "x.toml", overrides)


# -- meaning ---------------------------------------------------------------------------------------


def test_what_is_left_out_has_the_documented_default() -> None:
    found = scenario()
    assert (found.title, found.source, found.seed, found.time_unit_s) == ("", "", 1, 0.1)
    assert (found.routers.count, found.routers.shares) == (1, [1.0])
    assert (found.pools[0].rate, found.pools[0].slots, found.pools[0].capacity) == (1.0, 1, math.inf)
    assert found.arrivals.law == "poisson"
    assert found.service is not None and found.service.law == found.law().name == "exponential"
    assert found.patience is None
    assert (found.run.warmup, found.run.duration, found.run.time) == (50.0, 400.0, "continuous")
    assert found.policy == {"name": "pull", "stale": "keep"} and found.policy_name == "pull"


@pytest.mark.parametrize(
    ("rate", "total", "load"),
    [
        # Σ servers·slots·rate = 2·1·1 + 3·4·2 = 26, five servers.
        ("load=0.5", 13.0, 0.5),
        ("rate_per_server=2.6", 13.0, 0.5),
        ("rate_total=39", 39.0, 1.5),  # overload is allowed
    ],
)
def test_three_ways_to_state_the_arrival_rate(rate: str, total: float, load: float) -> None:
    found = scenario(f"arrivals.{rate}")
    assert found.rate_total == pytest.approx(total)
    assert found.load == pytest.approx(load)


def test_a_rate_that_the_trace_decides_is_not_made_up() -> None:
    found = scenario(text=TRACE)
    with pytest.raises(SettingsError, match=r"^arrivals\.speedup: the trace decides"):
        _ = found.rate_total
    assert scenario("arrivals.load=0.5", text=TRACE).rate_total == 1.0  # two servers of rate 1


def test_servers_are_listed_pool_after_pool() -> None:
    found = scenario("routers.count=2")
    names = ["slow-1", "slow-2", "fast-1", "fast-2", "fast-3"]
    assert [spec.id for spec in found.server_specs()] == found.fleet().servers == names
    assert found.server_specs()[0] == ("slow-1", "slow", 1.0, 1, math.inf, 0)
    assert found.server_specs()[4] == ("fast-3", "fast", 2.0, 4, 10.0, 1)
    fleet = found.fleet()
    assert fleet.pool_of.tolist() == [0, 0, 1, 1, 1] and fleet.pools == ["slow", "fast"]
    assert (fleet.rates.tolist(), fleet.slots.tolist(), fleet.capacities.tolist()) == (
        [1.0, 2.0],
        [1, 4],
        [math.inf, 10.0],
    )
    assert fleet.routers == ["router-1", "router-2"]
    assert found.policy_fleet() == (["slow", "fast"], [2, 3], [1.0, 2.0], [1, 4], [math.inf, 10.0])


def test_shares_are_normalised_and_count_the_routers() -> None:
    assert scenario("routers.split=[1, 3, 0]").routers.shares == [0.25, 0.75, 0.0]
    assert scenario("routers.split=[1, 3, 0]").routers.count == 3
    assert scenario("routers.count=4").routers.shares == [0.25] * 4


@pytest.mark.parametrize("value", ["inf", '"inf"'])
def test_infinite_capacity_is_written_in_two_ways(value: str) -> None:
    assert scenario(f"pools.1.capacity={value}").pools[1].capacity == math.inf


def test_patience_of_rate_0_means_for_ever() -> None:
    assert scenario("patience.rate=0").patience is None
    patience = scenario("patience.rate=0.1").patience
    assert patience is not None and (patience.rate, patience.in_service) == (0.1, False)


def test_a_trace_with_size_columns_leaves_no_law_of_service() -> None:
    found = scenario("arrivals.size_column=tokens", text=TRACE)
    assert isinstance(found.arrivals, TraceArrivals)
    assert found.arrivals.size_weights == {"tokens": 1.0}
    assert found.service is None
    with pytest.raises(SettingsError, match=r"^service: the sizes come from the trace"):
        found.law()
    assert scenario(text=TRACE).law().name == "exponential"


def test_with_another_policy_everything_else_stays() -> None:
    found = scenario()
    other = found.with_policy({"name": "power_of_d", "d": 3})
    assert other.policy == {"name": "power_of_d", "d": 3} and found.policy_name == "pull"
    assert other.model_copy(update={"policy": found.policy}) == found
    with pytest.raises(SettingsError, match=r"^policy\.d = 6, but "):
        found.with_policy({"name": "power_of_d", "d": 6})


def test_slotted_time_is_read() -> None:
    assert scenario("run.time=slotted", "pools.1.slots=1", "pools.1.capacity=inf").run.time == "slotted"


# -- overrides -------------------------------------------------------------------------------------


def test_overrides_are_values_of_toml_or_text() -> None:
    found = scenario(
        "title=two words",
        'source="1"',
        "seed = 7",
        "pools.0.servers=10",
        "policy.k=3",
        "policy.placement=shortest_of",
        "patience={rate = 0.5, in_service = true}",
    )
    assert (found.title, found.source, found.seed, found.pools[0].servers) == ("two words", "1", 7, 10)
    assert found.policy == {"name": "pull", "stale": "keep", "k": 3, "placement": "shortest_of"}
    assert found.patience is not None and found.patience.in_service


def test_another_policy_drops_what_the_file_says_for_the_former_one() -> None:
    assert scenario("policy.name=random").policy == {"name": "random"}
    # What overrides say stays, whatever their order; and the same name is no other policy.
    assert scenario("policy.d=3", "policy.name=power_of_d").policy == {"name": "power_of_d", "d": 3}
    assert scenario("policy.name=pull").policy == {"name": "pull", "stale": "keep"}


def test_another_law_drops_what_the_file_says_for_the_former_one() -> None:
    text = BASE + '[service]\nlaw = "pareto"\nshape = 3\n'
    service = scenario("service.law=hyperexponential", "service.scv=4", text=text).service
    assert service is not None and service.parameters == {"scv": 4}
    drawn = scenario("arrivals.law=poisson", "arrivals.load=0.5", text=TRACE)
    assert drawn.arrivals.model_dump(exclude_none=True) == {"law": "poisson", "load": 0.5}


@pytest.mark.parametrize("key", ["load", "rate_per_server", "rate_total"])
def test_one_rate_replaces_another(key: str) -> None:
    for text in (BASE, BASE.replace("load = 0.5", "rate_total = 3"), TRACE):
        given = scenario(f"arrivals.{key}=0.25", text=text).arrivals.model_dump(exclude_none=True)
        assert {
            name: given[name] for name in ("load", "rate_per_server", "rate_total", "speedup") if name in given
        } == {key: 0.25}


def test_shares_and_the_count_of_routers_replace_each_other() -> None:
    four = BASE + "[routers]\ncount = 4\n"
    assert scenario("routers.split=[1, 3]", text=four).routers.shares == [0.25, 0.75]
    assert scenario("routers.split=equal", text=four).routers.shares == [0.25] * 4
    assert scenario("routers.count=2", text=BASE + "[routers]\nsplit = [1, 2, 3]\n").routers.shares == [0.5, 0.5]


def test_any_scenario_can_replay_a_trace_with_its_sizes() -> None:
    found = scenario(
        "arrivals.law=trace",
        "arrivals.path=jobs.csv",
        "arrivals.time_column=at",
        "arrivals.size_columns={a = 1, b = 20.5}",
        text=BASE + '[service]\nlaw = "deterministic"\n',
    )
    assert isinstance(found.arrivals, TraceArrivals)
    assert found.service is None and found.arrivals.load == 0.5
    assert found.arrivals.size_weights == {"a": 1.0, "b": 20.5}
    one = scenario("arrivals.size_column=c", text=scenario_toml(found)).arrivals
    assert isinstance(one, TraceArrivals) and one.size_weights == {"c": 1.0}


def test_what_routers_do_about_bad_servers_survives_being_written_down() -> None:
    overrides = ["routers.retries=2", "routers.memory.hang=5", "routers.stale_after=3", "routers.stale=full"]
    scenario = parse_scenario(BASE, "x.toml", overrides)
    assert scenario.routers.upkeep == {
        "retries": 2, "memory": MemoryRule(hang=5.0), "stale_after": 3.0, "stale": "full",
    }  # fmt: skip
    assert parse_scenario(scenario_toml(scenario), "y.toml") == scenario
    assert next(iter(router_commands(scenario)))[1][-8:] == [
        "--retries", "2", "--memory", '{"failures":3,"forgive":20.0,"longest":320.0,"hang":5.0}',
        "--stale-after", "3.0", "--stale", "full",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("routers.memory.failures=0", "routers.memory.failures = 0, expected a whole number >= 1"),
        ("routers.memory.forget=1", 'routers.memory.forget: no such key; did you mean "forgive"?'),
        ("routers.memory=3", "routers.memory = 3, expected a table"),
        ("routers.stale=never", 'routers.stale = "never", expected "ignore", "average" or "full"'),
        ("routers.retries=-1", "routers.retries = -1, expected a whole number from 0 to 1000"),
    ],
)
def test_what_routers_do_about_bad_servers(override: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_scenario(BASE, "x.toml", [override])
    assert str(caught.value) == f"{says} (x.toml)"


@pytest.mark.parametrize("override", ["routers.retries=1", "routers.memory.hang=5", "routers.stale_after=2"])
def test_in_slots_no_server_fails(override: str) -> None:
    text = BASE.replace("slots = 4\ncapacity = 10\n", "")
    with pytest.raises(SettingsError, match="no server fails"):
        parse_scenario(text, "x.toml", [override, "run.time=slotted"])
