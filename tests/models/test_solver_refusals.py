"""What the solver refuses, and in which words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from router.protocol.errors import SettingsError
from services.scenario import Scenario
from services.solver import METHODS, predict, solve
from tests.models.scenarios import answers, scenario

TWENTY = "servers = 20"
HALF = "load = 0.5"


def refusal(experiment: Scenario, method: str = "all") -> str:
    with pytest.raises(SettingsError) as caught:
        solve(experiment, method)
    return str(caught.value)


def test_every_reason_is_told() -> None:
    assert refusal(scenario('name = "jsq"', TWENTY, arrivals="load = 0.9")) == (
        "no model applies to scenario x: "
        "closed: policy jsq has no closed form for 20 servers; "
        "meanfield: policy jsq has no mean field for 20 servers; "
        "exact: 20 servers make more than 10^8 states, at most 25000 are solved; "
        "limit: policy jsq has no limit law without patience for 20 servers"
    )


def test_a_method_that_does_not_apply_is_refused_even_if_others_do() -> None:
    experiment = scenario('name = "random"', TWENTY, arrivals=HALF)
    assert solve(experiment).methods == ("closed",)
    assert refusal(experiment, "limit") == (
        "method limit does not apply to scenario x: policy random has no limit law without patience for 20 servers"
    )


def test_an_unknown_method_lists_the_known_ones() -> None:
    experiment = scenario('name = "random"', TWENTY, arrivals=HALF)
    assert refusal(experiment, "fluid") == 'method = "fluid": expected one of exact, closed, meanfield, limit, all'


def test_more_work_than_can_be_done() -> None:
    expected = "load = 1.2, and servers have unlimited room: queues grow for ever, there is no steady state"
    for policy in ("random", "jsq", "pull"):
        experiment = scenario(f'name = "{policy}"', TWENTY, arrivals="load = 1.2")
        assert refusal(experiment) == f"no model applies to scenario x: closed, meanfield, exact, limit: {expected}"
    finite = scenario('name = "random"', "servers = 20; capacity = 3", arrivals="load = 1.2")
    assert solve(finite).methods == ("exact", "closed")


def test_one_pool_that_gets_too_much() -> None:
    pools = ("servers = 1; rate = 1.0", "servers = 1; rate = 4.0")
    # A load of 0.8, but half of the jobs go to the slow server: 2 a time unit.
    message = refusal(scenario('name = "random"', *pools, arrivals="load = 0.8"), "closed")
    assert message.endswith('scenario x: pool "a" has unlimited room and would have load 2: it has no steady state')


@pytest.mark.parametrize(
    ("arrivals", "law"),
    [
        ('law = "deterministic"; load = 0.5', "deterministic"),
        ('law = "trace"; path = "t.csv"; time_column = "t"; speedup = 2.0', "trace"),
    ],
)
def test_arrivals_that_are_not_poisson_leave_identities_alone(arrivals: str, law: str) -> None:
    experiment = scenario('name = "power_of_d"; d = 3', TWENTY, arrivals=arrivals)
    assert refusal(experiment).endswith(
        f'exact, limit: arrivals.law = "{law}", and every model needs Poisson arrivals: only identities hold'
    )
    solution = predict(experiment)
    assert solution.methods == ()
    assert solution.values()["messages.total"] == 6.0
    assert {prediction["closed"].kind for prediction in solution.quantities.values()} == {"identity"}


def test_no_model_knows_of_failures() -> None:
    experiment = scenario(
        'name = "random"', TWENTY, arrivals=HALF, more='[[faults]]; at = 1; kind = "kill"; target = "router-1"'
    )
    assert refusal(experiment).endswith("limit: [[faults]]: no model knows of failures: simulate them")
    # What cannot happen does not: nobody is impatient, and nobody is turned away for want of room.
    assert predict(experiment).values() == {
        "abandon_probability": 0.0, "block_probability": 0.0, "job_share.a": 1.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        (
            'law = "pareto"; shape = 1.5',
            'scenario x: service.law = "pareto" has no second moment: the mean waiting time is infinite',
        ),
        ('law = "deterministic"', None),
    ],
)
def test_sizes_that_are_not_exponential(law: str, reason: str | None) -> None:
    experiment = scenario('name = "random"', TWENTY, arrivals=HALF, more=f"[service]; {law}")
    if reason is None:
        assert solve(experiment).methods == ("closed",)
    else:
        assert refusal(experiment, "closed").endswith(reason)


def test_sizes_of_another_law_have_no_chain() -> None:
    experiment = scenario('name = "jsq"', "servers = 2", arrivals=HALF, more='[service]; law = "deterministic"')
    assert refusal(experiment, "exact").endswith(
        'scenario x: service.law = "deterministic", and the model needs exponential sizes'
    )


def test_best_weights_are_known_for_loss_systems_and_single_slots_alone() -> None:
    some_room = scenario('name = "weighted_random"; weights = "optimal"', "servers = 20; capacity = 3", arrivals=HALF)
    assert refusal(some_room, "closed").endswith(
        'scenario x: policy.weights = "optimal" is known for servers with capacity = slots and one rate, and for '
        'exponential sizes, one slot a server, unlimited room and a load below 1: choose "rate", "capacity" or a list'
    )


def test_two_choices_are_not_enough_for_slow_servers() -> None:
    pools = ("servers = 50; rate = 1.0", "servers = 50; rate = 9.0")
    # 450 jobs a time unit, a quarter of which meet two slow servers: more than their 50.
    message = refusal(scenario('name = "power_of_d"', *pools, arrivals="load = 0.9"), "meanfield")
    assert message.startswith("method meanfield does not apply to scenario x: the 1 slowest of 2 pools are unstable")


def test_patience_and_many_servers() -> None:
    experiment = scenario('name = "jsq"', TWENTY, arrivals=HALF, more="[patience]; rate = 0.01")
    message = refusal(experiment)
    assert "exact: 20 servers, and the chain of jobs with patience is solved for at most 3;" in message
    assert message.endswith("limit: load = 0.5, and the law of the underloaded regime is one for loads near 1")


def test_a_solution_is_ready_for_json() -> None:
    solution = solve(scenario('name = "jsq"', "servers = 2", arrivals="load = 0.8"))
    table: dict[str, Any] = json.loads(json.dumps(solution.to_json(), allow_nan=False))
    assert table["methods"] == ["exact"]
    assert table["left_out"]["closed"] == "policy jsq has no closed form for 2 servers"
    sojourn = table["quantities"]["sojourn_mean"]["models"]["exact"]
    assert table["values"]["sojourn_mean"] == sojourn["value"] == pytest.approx(2.95573662)  # G11
    assert set(sojourn) == {"value", "kind", "source", "assumes", "exact"}
    assert re.fullmatch(r"Poisson arrivals, .*; \d+ states, .* steps a job cut off", sojourn["assumes"])


def test_methods_come_in_order_of_preference() -> None:
    solution = solve(scenario('name = "max_vacancy"', "servers = 4; slots = 2; capacity = 2", arrivals="load = 0.8"))
    blocking = solution.quantities["block_probability"]
    assert list(blocking) == ["exact", "meanfield"]
    assert solution.values()["block_probability"] == blocking["exact"].value
    assert set(METHODS) == set(solution.methods) | set(solution.left_out)


def test_scipy_is_imported_when_something_is_solved() -> None:
    code = "import sys; import services.solver; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("policy", "more", "expected"),
    [
        ('name = "jsq"', "[routers]; count = 4", 8.0),
        ('name = "sed"', "", 2.0),
        ('name = "jsq"', "[patience]; rate = 0.1", 2.0),
        ('name = "jsq"; every = 2.0', "[routers]; count = 4", 20 * 4 / (2.0 * 10)),  # 10 jobs a time unit
        ('name = "power_of_d"; d = 3', "", 6.0),
        ('name = "power_of_d"; d = 2; replacement = true', "", 2 * 20 * (1 - (19 / 20) ** 2)),
        ('name = "max_vacancy"; d = "all"', "", 40.0),
        ('name = "least_requests"', "[routers]; count = 4", 0.0),
        ('name = "round_robin"', "", 0.0),
    ],
)
def test_messages_by_counting(policy: str, more: str, expected: float) -> None:
    values = predict(scenario(policy, TWENTY, arrivals=HALF, more=more), "closed").values()
    assert values["messages.total"] == pytest.approx(expected)


def test_reports_are_not_counted_where_jobs_are_turned_away_or_pile_up() -> None:
    for pool, arrivals in (("servers = 20; capacity = 3", HALF), (TWENTY, "load = 1.5")):
        assert "messages.report" not in predict(scenario('name = "jsq"', pool, arrivals=arrivals)).values()


def test_what_cannot_happen() -> None:
    values = answers(scenario('name = "random"', TWENTY, arrivals=HALF))
    assert (values["block_probability"], values["abandon_probability"], values["failed_probability"]) == (0, 0, 0)
    assert values["job_share.a"] == 1
