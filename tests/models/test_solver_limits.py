"""The solver's limits of PULL, and slotted time, against the golden rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from router.protocol.errors import SettingsError
from services.scenario import Scenario
from services.solver import solve
from tests.models.scenarios import answers, scenario

PULL = 'name = "pull"'
TWO_POOLS = ("servers = 50; rate = 1.0", "servers = 50; rate = 2.0")
TEN_ROUTERS = "[routers]; count = 10"


def refusal(experiment: Scenario, method: str) -> str:
    with pytest.raises(SettingsError) as caught:
        solve(experiment, method)
    return str(caught.value)


@pytest.mark.parametrize("room", ["", "; capacity = 2"])
@pytest.mark.parametrize("policy", [PULL, f'{PULL}; stale = "keep"', f'{PULL}; fallback = "view"'])
def test_the_fluid_equilibrium(policy: str, room: str) -> None:  # G24
    pools = [pool + room for pool in TWO_POOLS]
    solution = solve(scenario(policy, *pools, arrivals="load = 0.8", more="[routers]; count = 4"), "closed")
    values: dict[str, Any] = dict(solution.values())
    assert (values["utilisation.a"], values["utilisation.b"]) == pytest.approx((0.867619, 0.766190), abs=6e-7)
    assert values["sojourn_mean"] == pytest.approx(0.680754, abs=6e-7)
    assert values["jobs_in_system_mean"] == pytest.approx(120 * values["sojourn_mean"])
    # β μ ρ / Λ
    assert values["job_share.b"] == pytest.approx(0.5 * 2 * 0.766190 / 1.2, abs=1e-6)
    assert values["wait_probability"] == values["waiting_mean"] == values["dispatch.random"] == 0
    assert values["messages.pull"] == values["messages.total"] == 1
    slow, fast = values["job_share.a"], values["job_share.b"]
    median = values["sojourn_p50"]
    assert slow * math.exp(-median) + fast * math.exp(-2 * median) == pytest.approx(0.5)
    prediction = solution.quantities["sojourn_mean"]["closed"]
    assert (prediction.kind, prediction.exact) == ("fluid limit", False)


@pytest.mark.parametrize(
    ("routers", "load", "sojourn"),
    [
        (10, 0.5, 1.070953),
        (10, 0.8, 1.322092),
        (10, 0.9, 1.765375),
        (10, 0.95, 2.667280),
        (10, 0.99, 9.933082),
        (20, 0.9, 2.420567),
        (5, 0.9, 1.397871),
    ],
)
def test_the_mean_field_of_many_routers(routers: int, load: float, sojourn: float) -> None:  # G41, G46
    hundred = scenario(PULL, "servers = 100", arrivals=f"load = {load}", more=f"[routers]; count = {routers}")
    solution = solve(hundred, "meanfield")
    assert solution.values()["sojourn_mean"] == pytest.approx(sojourn, abs=6e-7)
    assert not solution.quantities["sojourn_mean"]["meanfield"].exact


def test_messages_of_many_routers() -> None:  # G44
    values = answers(scenario(PULL, "servers = 100; rate = 4.0", arrivals="load = 0.9", more=TEN_ROUTERS), "meanfield")
    names = ("dispatch.random", "messages.withdraw", "messages.pull")
    assert [values[name] for name in names] == pytest.approx([0.481720, 0.048172, 0.566452], abs=6e-7)
    assert values["wait_probability"] == pytest.approx(1 - values["messages.pull"])
    assert 4 * values["sojourn_mean"] == pytest.approx(1.765375, abs=6e-7)
    assert values["jobs_in_system_mean"] == pytest.approx(360 * values["sojourn_mean"])
    assert values["sojourn_p50"] == pytest.approx(math.log(2) * values["sojourn_mean"])


def test_kept_messages_cost_sojourn() -> None:
    arguments: dict[str, str] = {"arrivals": "load = 0.9", "more": TEN_ROUTERS}
    keep = answers(scenario(f'{PULL}; stale = "keep"', "servers = 100", **arguments), "meanfield")
    assert keep["sojourn_mean"] > 1.78  # G41 has 1.765375 for messages that are withdrawn
    assert keep["messages.withdraw"] == 0
    assert keep["messages.pull"] == pytest.approx(1 - keep["dispatch.random"])  # each is used once
    assert "sojourn_p50" not in keep


def test_the_shortest_of_several_lists() -> None:
    arguments: dict[str, str] = {"arrivals": "load = 0.9", "more": TEN_ROUTERS}
    experiment = scenario(f'{PULL}; placement = "shortest_of"', "servers = 100", **arguments)
    prediction = solve(experiment, "meanfield").quantities["sojourn_mean"]["meanfield"]
    # T = 1 / (1 − 0.9 (1 − ρ)), where Σ ρ^(2^i − 1) = r (1 − λ) = 1.
    assert isinstance(prediction.value, float)
    root = 1 - (1 - 1 / prediction.value) / 0.9
    assert root + root**3 + root**7 + root**15 + root**31 == pytest.approx(1)
    assert prediction.kind == "mean-field approximation"


def test_two_unequal_routers() -> None:  # G48
    more = "[routers]; split = [0.25, 0.75]"
    values = answers(scenario(PULL, "servers = 100", arrivals="load = 0.8", more=more), "closed")
    names = ("sojourn_mean", "wait_probability", "dispatch.random")
    assert [values[name] for name in names] == pytest.approx([1.5, 1 / 3, 5 / 12])
    keep = answers(scenario(f'{PULL}; stale = "keep"', "servers = 100", arrivals="load = 0.8", more=more), "closed")
    assert keep["dispatch.random"] == pytest.approx(0.5)
    assert "sojourn_mean" not in keep


@pytest.mark.parametrize(
    ("policy", "pools", "more", "method", "reason"),
    [
        (
            f'{PULL}; order = "fastest"',
            TWO_POOLS,
            "",
            "closed",
            'policy.order = "fastest", and the limits of PULL need "random"',
        ),
        (PULL, TWO_POOLS, TEN_ROUTERS, "meanfield", "the mean field of PULL needs servers that are alike"),
        (
            PULL,
            ("servers = 100",),
            "",
            "meanfield",
            "1 router, and the mean field of PULL is one of many routers",
        ),
        (
            PULL,
            TWO_POOLS,
            "[routers]; split = [1.0, 3.0]",
            "closed",
            "routers.split is unequal, and the fluid limit without waiting needs equal routers; "
            "routers.split is unequal, and that limit is known for servers that are alike",
        ),
        (
            f'{PULL}; stale = "duplicate"',
            ("servers = 100",),
            TEN_ROUTERS,
            "meanfield",
            'the mean field of PULL is known for policy.stale = "withdraw" and "keep"',
        ),
        (
            f'{PULL}; fallback = "view"',
            ("servers = 100",),
            TEN_ROUTERS,
            "meanfield",
            'policy.fallback = "view", and where jobs wait the limits of PULL need "random"',
        ),
        (
            f'{PULL}; fallback = "view"',
            ("servers = 2",),
            "",
            "exact",
            'there is no chain of pull with policy.fallback = "view"',
        ),
    ],
)
def test_limits_that_are_not_those_of_the_scenario(
    policy: str, pools: tuple[str, ...], more: str, method: str, reason: str
) -> None:
    experiment = scenario(policy, *pools, arrivals="load = 0.8", more=more)
    assert refusal(experiment, method) == f"method {method} does not apply to scenario x: {reason}"


SLOTTED = '[run]; time = "slotted"'


@pytest.mark.parametrize(
    ("pools", "jobs", "completion"),
    [
        (("servers = 1; rate = 10.0",), 49.5, 6.5),  # G51
        (("servers = 50; rate = 1.0", "servers = 50; rate = 0.1"), 1122.75, 23.681818),  # G53
        (("servers = 100; rate = 0.2",), 54.5 * 18, 55.5),  # G57, WR; Little: jobs = (55.5 − 1) · 0.9 · 100 · 0.2
    ],
)
def test_slotted_time(pools: tuple[str, ...], jobs: float, completion: float) -> None:
    experiment = scenario('name = "weighted_random"', *pools, arrivals="load = 0.9", more=f"{TEN_ROUTERS}; {SLOTTED}")
    solution = solve(experiment)
    assert solution.methods == ("closed",)
    values: dict[str, Any] = dict(solution.values())
    assert values["jobs_in_system_mean"] == pytest.approx(jobs)
    assert values["sojourn_mean"] == pytest.approx(completion, abs=6e-7)
    assert values["messages.total"] == 0


def test_slotted_time_of_other_policies() -> None:
    experiment = scenario('name = "jsq"', "servers = 100; rate = 0.2", arrivals="load = 0.9", more=SLOTTED)
    assert refusal(experiment, "closed").endswith("policy jsq has no closed form for 100 servers in slotted time")
