"""Where two methods know a quantity, or a policy comes to the same as another, they agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from services.scenario import Scenario
from services.solver import solve
from services.solver.names import moments
from tests.models.scenarios import answers, scenario

ONE, TWO = "servers = 1; rate = 1.0; capacity = 4", "servers = 2; rate = 3.0; capacity = 2"


@pytest.mark.parametrize(
    "experiment",
    [
        scenario('name = "random"', "servers = 1", arrivals="load = 0.7"),
        scenario('name = "random"', "servers = 2", arrivals="load = 0.6"),
        scenario('name = "random"', ONE, TWO, arrivals="load = 0.9"),
        scenario('name = "random"', ONE, TWO, arrivals="load = 1.7"),
        scenario('name = "weighted_random"', ONE, TWO, arrivals="load = 0.9"),
        scenario('name = "weighted_random"; weights = [1.0, 5.0]', ONE, TWO, arrivals="load = 0.9"),
        scenario('name = "power_of_d"; d = 1', ONE, TWO, arrivals="load = 0.9"),
        scenario('name = "random"', "servers = 3; slots = 2; capacity = 2", arrivals="load = 0.8"),
        scenario('name = "pull"', "servers = 1", arrivals="load = 0.6", more="[routers]; count = 2"),
        scenario('name = "jsq"', "servers = 1", arrivals="load = 1.0", more="[patience]; rate = 0.1"),
    ],
)
def test_the_exact_chain_agrees_with_the_closed_form(experiment: Scenario) -> None:
    both = [
        (name, by["exact"].value, by["closed"].value)
        for name, by in solve(experiment).quantities.items()
        if "exact" in by and "closed" in by
    ]
    assert len(both) >= 12
    for name, exact, closed in both:
        if isinstance(exact, list):
            # Both lists end where shares fall below 1e-9, which rounding may put one place earlier.
            assert isinstance(closed, list) and abs(len(exact) - len(closed)) <= 1, name
            length = min(len(exact), len(closed))
            assert exact[:length] == pytest.approx(closed[:length], abs=1e-8), name
        else:
            assert exact == pytest.approx(closed, rel=1e-8, abs=1e-8), name


def test_quantities_of_one_solution_fit_together() -> None:
    experiment = scenario('name = "sed"', ONE, TWO, arrivals="load = 0.9")
    values = answers(experiment)
    admitted = experiment.rate_total * (1 - values["block_probability"])
    # Little's law, for all and for those that wait.
    assert values["jobs_in_system_mean"] == pytest.approx(admitted * values["sojourn_mean"])
    busy = values["utilisation.a"] + 2 * values["utilisation.b"]
    assert values["jobs_in_system_mean"] - busy == pytest.approx(admitted * values["waiting_mean"])
    assert values["job_share.a"] + values["job_share.b"] == pytest.approx(1)
    assert values["job_share.b"] * admitted == pytest.approx(2 * 3 * values["utilisation.b"])
    assert values["queue_length_mean"] * 3 == pytest.approx(values["jobs_in_system_mean"])
    mean, variance = moments(np.array(values["queue_tail"]))
    assert (mean, variance) == pytest.approx((values["queue_length_mean"], values["queue_length_variance"]))
    # E Σ (q_i − q̄)² = Σ E q_i² − E (Σ q_i)² / n
    squares = 3 * (variance + mean**2)
    total = values["jobs_in_system_variance"] + values["jobs_in_system_mean"] ** 2
    assert values["perpendicular_second_moment"] == pytest.approx(squares - total / 3)


def test_closed_forms_of_two_pools_fit_together() -> None:
    experiment = scenario(
        'name = "random"', "servers = 4; rate = 1.0", "servers = 6; rate = 3.0", arrivals="load = 0.3"
    )
    values = answers(experiment)
    # 22 · 0.3 = 6.6 jobs a time unit, 0.66 a server: T = 1 / (rate − 0.66), pools mixed 2 to 3.
    slow, fast = 1 / 0.34, 1 / 2.34
    assert values["sojourn_mean"] == pytest.approx(0.4 * slow + 0.6 * fast)
    assert values["jobs_in_system_mean"] == pytest.approx(6.6 * values["sojourn_mean"])
    assert (values["job_share.a"], values["job_share.b"]) == pytest.approx((0.4, 0.6))
    assert values["utilisation.b"] == pytest.approx(0.22)
    mean, variance = moments(np.array(values["queue_tail"]))
    assert mean == pytest.approx(values["queue_length_mean"], abs=1e-7)
    assert variance == pytest.approx(values["queue_length_variance"], abs=1e-5)
    median = values["sojourn_p50"]
    assert 0.4 * math.exp(-median / slow) + 0.6 * math.exp(-median / fast) == pytest.approx(0.5)


def test_exponential_sizes_are_a_case_of_any_sizes() -> None:
    pools = ("servers = 4; rate = 1.0", "servers = 6; rate = 3.0")
    exponential = answers(scenario('name = "random"', *pools, arrivals="load = 0.3"))
    law = '[service]; law = "hyperexponential"; scv = 1.0000000001'
    nearly = answers(scenario('name = "random"', *pools, arrivals="load = 0.3", more=law))
    shared = [name for name in nearly if not name.startswith(("messages", "dispatch"))]
    assert len(shared) >= 13
    for name in shared:
        assert nearly[name] == pytest.approx(exponential[name], abs=1e-8), name


def test_policies_that_come_to_the_same() -> None:
    def sojourn(policy: str) -> float:
        return float(answers(scenario(policy, "servers = 3; capacity = 3", arrivals="load = 0.9"))["sojourn_mean"])

    shortest = sojourn('name = "jsq"')
    for policy in ('name = "power_of_d"; d = 3', 'name = "max_vacancy"; d = "all"', 'name = "least_requests"'):
        assert sojourn(policy) == pytest.approx(shortest), policy
    two = sojourn('name = "power_of_d"')
    for policy in ('name = "max_vacancy"', 'name = "least_requests"; d = 2'):
        assert sojourn(policy) == pytest.approx(two), policy
    assert two > shortest * 1.001


def test_own_counts_are_exact_for_one_router_alone() -> None:
    policy = 'name = "least_requests"'
    assert "exact" in solve(scenario(policy, "servers = 2", arrivals="load = 0.5")).methods
    two = scenario(policy, "servers = 2", arrivals="load = 0.5", more="[routers]; count = 2")
    with pytest.raises(Exception, match="policy least_requests has no chain for 2 servers"):
        solve(two)


def test_unlimited_vacancies_are_equal() -> None:
    values = answers(scenario('name = "max_vacancy"; d = 2', "servers = 5", arrivals="load = 0.5"))
    assert values["sojourn_mean"] == pytest.approx(2)
    assert values["messages.probe"] == 2


def test_many_patient_queues_are_single_ones() -> None:
    more = "[patience]; rate = 0.1; in_service = true"
    five = answers(scenario('name = "random"', "servers = 5", arrivals="load = 1.1", more=more))
    one = answers(scenario('name = "random"', "servers = 1", arrivals="load = 1.1", more=more), "closed")
    for name in (
        "abandon_probability",
        "wait_probability",
        "waiting_mean",
        "sojourn_mean",
        "utilisation.a",
        "queue_tail",
    ):
        assert five[name] == pytest.approx(one[name]), name
    assert five["jobs_in_system_mean"] == pytest.approx(5 * one["jobs_in_system_mean"])
    # Jobs in service abandon too: all jobs do at rate 0.1.
    assert five["abandon_probability"] == pytest.approx(0.1 * five["jobs_in_system_mean"] / 5.5)
