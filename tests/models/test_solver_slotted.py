"""The solver in slotted time, and what LSQ sends in either."""

from __future__ import annotations

import math

import pytest

from services.measure.quantities import Window, measure
from services.scenario import Scenario
from services.simulator.run import simulate
from services.solver import predict, solve
from tests.models.scenarios import answers, scenario

SLOTS = '[run]\nwarmup = 0\nduration = 300\ntime = "slotted"\n[routers]\nsplit = [0.6, 0.3, 0.1]'
UNITS = SLOTS.replace("slotted", "continuous")
POOLS = ("servers = 4; rate = 1.0", "servers = 4; rate = 0.5")


def test_weighted_random_of_row_g53() -> None:
    one = scenario('name = "weighted_random"', "servers = 50; rate = 1.0", "servers = 50; rate = 0.1",
                   arrivals="load = 0.9", more='[run]\ntime = "slotted"')  # fmt: skip
    values = answers(one, "closed")
    assert values["sojourn_mean"] == pytest.approx(23.681818, abs=6e-7)
    assert values["waiting_mean"] == values["sojourn_mean"] - 1
    assert values["jobs_in_system_mean"] == pytest.approx(1122.75)
    assert values["utilisation.a"] == values["utilisation.b"] == pytest.approx(0.9)
    assert (values["messages.total"], values["block_probability"]) == (0.0, 0.0)
    # a = 0.9 and 0.09: E q = a(2 + a)/(2(μ − a)) is 13.05 and 9.405.
    assert (values["queue_length_mean.a"], values["queue_length_mean.b"]) == pytest.approx((13.05, 9.405))
    # Var q = e + e² + (a² + a³/3)/(μ − a), e being that mean.
    first, second = 13.05 + 13.05**2 + (0.81 + 0.243) / 0.1, 9.405 + 9.405**2 + (0.0081 + 0.000243) / 0.01
    assert values["jobs_in_system_variance"] == pytest.approx(50 * (first + second))
    mean = (13.05 + 9.405) / 2
    squares = (first + 13.05**2 + second + 9.405**2) / 2
    assert values["queue_length_variance"] == pytest.approx(squares - mean**2)


def test_of_other_policies_only_messages_are_known_in_slots() -> None:
    one = scenario('name = "jsq"', *POOLS, arrivals="load = 0.8", more=SLOTS)
    assert predict(one).methods == ()
    with pytest.raises(Exception, match=r"^no model applies to scenario x: .*policy jsq has no closed form"):
        solve(one)


def counted(one: Scenario) -> dict[str, float]:
    """Messages per job of a simulation."""
    found = measure(simulate(one), Window(one.run.warmup, one.horizon, 10))
    return {name: float(quantity.value) for name, quantity in found.items() if name.startswith("messages.")}


@pytest.mark.parametrize(
    "policy",
    [
        'name = "jsq"',
        'name = "sed"',
        'name = "power_of_d"; d = 3',
        'name = "power_of_d"; replacement = true',
        'name = "max_vacancy"',
        'name = "lsq"; refresh = "sample"; d = 3',
        'name = "lsq"; refresh = "piggyback"',
        'name = "lsq"; every = 3.0',
        'name = "jsq"; every = 0.5',
        'name = "random"',
    ],
)
def test_message_budgets_in_slots_are_met(policy: str) -> None:
    one = scenario(policy, *POOLS, arrivals="load = 0.8", more=SLOTS)
    predicted, found = predict(one).values(), counted(one)
    for kind in ("probe", "report", "total"):
        # 1440 jobs: the budgets are per job on average, and their number varies by 1/√1440 = 2.6%.
        assert found[f"messages.{kind}"] == pytest.approx(predicted[f"messages.{kind}"], rel=0.1)


def test_jsq_in_slots_costs_forty_messages_a_job_at_ten_routers() -> None:
    # Row G59: each router gets 4.95 jobs a slot and asks 100 servers if it gets any: 2 · 100 (1 − e^−4.95) / 4.95.
    one = scenario('name = "sed"', "servers = 50", "servers = 50; rate = 0.1", arrivals="load = 0.9",
                   more='[run]\ntime = "slotted"\n[routers]\ncount = 10')  # fmt: skip
    assert predict(one).values()["messages.total"] == pytest.approx(200 * (1 - math.exp(-4.95)) / 4.95)


@pytest.mark.parametrize(
    ("policy", "probes", "reports"),
    [
        ('name = "lsq"', 0.0, 1.0),
        ('name = "lsq"; refresh = "smart"', 0.0, 1.0),
        ('name = "lsq"; refresh_on_send = true', 1.0, 2.0),
        ('name = "lsq"; refresh = "piggyback"', 0.0, 0.0),
        ('name = "lsq"; refresh = "piggyback"; refresh_on_send = true', 1.0, 1.0),
        ('name = "lsq"; refresh = "sample"; d = 3', 3.0, 3.0),
        ('name = "lsq"; every = 10.0', 0.0, 8 * 3 / (10.0 * 4.8)),  # 8 servers, 3 routers, 4.8 jobs a time unit
    ],
)
def test_message_budgets_of_lsq_in_continuous_time(policy: str, probes: float, reports: float) -> None:
    one = scenario(policy, *POOLS, arrivals="load = 0.8", more=UNITS)
    predicted, found = predict(one).values(), counted(one)
    assert predicted["messages.probe"] == probes
    assert predicted["messages.report"] == pytest.approx(reports)
    assert found["messages.probe"] == pytest.approx(probes)
    assert found["messages.report"] == pytest.approx(reports, rel=0.1)


@pytest.mark.parametrize("policy", ['name = "lsq"; p = 0.5', 'name = "lsq"; refresh = "idle"'])
def test_reports_that_depend_on_idleness_are_not_predicted(policy: str) -> None:
    for more in (SLOTS, UNITS):
        one = scenario(policy, *POOLS, arrivals="load = 0.8", more=more)
        assert "messages.total" not in predict(one).values()
