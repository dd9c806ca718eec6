"""The solver against the golden rows: the right model is chosen, with the right arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest

from services.solver import solve
from tests.models.scenarios import answers, scenario

RANDOM = 'name = "random"'
JSQ = 'name = "jsq"'
PULL = 'name = "pull"'
TWO_SPEEDS = ("servers = 1; rate = 1.0", "servers = 1; rate = 4.0")


def close(value: float, digits: int = 8) -> Any:
    """What a golden row with so many digits after the point stands for."""
    return pytest.approx(value, abs=0.51 * 10**-digits)


def test_mm1() -> None:
    solution = solve(scenario(RANDOM, "servers = 50", arrivals="load = 0.9"), "closed")
    values: dict[str, Any] = dict(solution.values())
    assert values["sojourn_mean"] == pytest.approx(10)  # G1
    assert values["waiting_mean"] == pytest.approx(9)
    assert values["wait_probability"] == pytest.approx(0.9)
    assert values["utilisation.a"] == pytest.approx(0.9)
    assert values["sojourn_p95"] == pytest.approx(10 * math.log(20))  # the sojourn time of M/M/1 is exponential
    assert values["queue_tail"][:4] == pytest.approx([1, 0.9, 0.81, 0.729])
    # Geometric: mean ρ/(1−ρ) = 9 and variance ρ/(1−ρ)² = 90 a server; they are independent.
    assert values["jobs_in_system_mean"] == pytest.approx(450)
    assert values["jobs_in_system_variance"] == pytest.approx(50 * 90)
    assert values["queue_length_variance"] == pytest.approx(90)
    assert values["perpendicular_second_moment"] == pytest.approx(49 * 90)
    assert {values[f"messages.{kind}"] for kind in ("pull", "withdraw", "probe", "report", "total")} == {0.0}
    assert all(prediction["closed"].exact for prediction in solution.quantities.values())


def test_mm1k() -> None:
    values = answers(scenario(RANDOM, "servers = 3; capacity = 5", arrivals="load = 0.9"))
    assert (values["block_probability"], values["sojourn_mean"]) == (close(0.12602255), close(2.79028595))  # G2


@pytest.mark.parametrize(("slots", "sojourn"), [(2, 5.263158), (10, 1.668732), (100, 1.021694)])  # G3
@pytest.mark.parametrize("policy", ["random", "jsq", "pull", "round_robin", "power_of_d; d = 1"])
def test_one_server_with_several_slots_is_mmn_under_any_policy(policy: str, slots: int, sojourn: float) -> None:
    name, _, rest = policy.partition("; ")
    one = scenario(f'name = "{name}"; {rest}', f"servers = 1; slots = {slots}", arrivals="load = 0.9")
    assert answers(one, "closed")["sojourn_mean"] == close(sojourn, 6)


@pytest.mark.parametrize(
    ("slots", "offered", "blocking"),
    [(5, 4, 0.19906687), (10, 8, 0.12166106), (20, 18, 0.10921285), (100, 90, 0.02695738)],  # G5
)
@pytest.mark.parametrize("law", ["exponential", "deterministic", "pareto; shape = 1.5"])
def test_erlang_b_whatever_the_law_of_sizes(law: str, slots: int, offered: float, blocking: float) -> None:
    name, _, rest = law.partition("; ")
    loss = scenario(
        RANDOM,
        f"servers = 20; slots = {slots}; capacity = {slots}",
        arrivals=f"rate_per_server = {offered}",
        more=f'[service]; law = "{name}"; {rest}',
    )
    values = answers(loss, "closed")
    assert values["block_probability"] == close(blocking)
    assert values["utilisation.a"] == pytest.approx(offered * (1 - values["block_probability"]) / slots)
    assert values["sojourn_mean"] == pytest.approx(1)
    assert ("sojourn_p50" in values) == (name == "exponential")


def test_mg1_by_pollaczek_and_khinchine() -> None:
    law = '[service]; law = "hyperexponential"; scv = 4.0'
    values = answers(scenario(RANDOM, "servers = 2; rate = 2.0", arrivals="load = 0.5", more=law))
    # λ = 1, E S = 1/2, E S² = (1 + 4)/4: E W = 1 · 1.25 / (2 · 0.5) = 1.25
    assert values["waiting_mean"] == pytest.approx(1.25)
    assert values["sojourn_mean"] == pytest.approx(1.75)
    assert values["utilisation.a"] == pytest.approx(0.5)
    assert "queue_tail" not in values and "sojourn_p99" not in values


@pytest.mark.parametrize(("load", "sojourn"), [(0.5, 1.42632075), (0.8, 2.95573662), (0.9, 5.47491282)])  # G11
@pytest.mark.parametrize("policy", ["jsq", "sed", "least_requests", "power_of_d", "max_vacancy; d = 'all'"])
def test_the_shortest_of_two(policy: str, load: float, sojourn: float) -> None:
    name, _, rest = policy.partition("; ")
    # Largest vacancy is the shortest queue where there is a capacity; of 120 nobody notices: 0.9^240 = 1e-11.
    capacity = "; capacity = 120" if name == "max_vacancy" else ""
    two = scenario(f'name = "{name}"; {rest}', f"servers = 2{capacity}", arrivals=f"load = {load}")
    assert answers(two, "exact")["sojourn_mean"] == close(sojourn)


@pytest.mark.parametrize(
    ("replacement", "load", "sojourn"),
    [("false", 0.7, 1.88479236), ("true", 0.7, 2.08318883), ("false", 0.9, 4.27408704)],
)  # G13, G14
def test_two_choices_of_three_servers(replacement: str, load: float, sojourn: float) -> None:
    three = scenario(f'name = "power_of_d"; replacement = {replacement}', "servers = 3", arrivals=f"load = {load}")
    assert answers(three, "exact")["sojourn_mean"] == close(sojourn)


@pytest.mark.parametrize(
    ("load", "sojourn"), [(0.5, 1.265686), (0.7, 1.614454), (0.9, 2.614057), (0.95, 3.383046), (0.99, 5.431997)]
)
def test_the_supermarket_model(load: float, sojourn: float) -> None:  # G8
    solution = solve(scenario('name = "power_of_d"', "servers = 100; rate = 2.0", arrivals=f"load = {load}"))
    assert solution.methods == ("meanfield",)
    values: dict[str, Any] = dict(solution.values())
    assert 2 * values["sojourn_mean"] == close(sojourn, 6)
    assert not solution.quantities["sojourn_mean"]["meanfield"].exact
    assert values["wait_probability"] == pytest.approx(load**2)  # both of two servers are busy
    assert values["waiting_mean"] == pytest.approx(values["sojourn_mean"] - 0.5)
    assert values["jobs_in_system_mean"] == pytest.approx(200 * load * values["sojourn_mean"])
    names = ("messages.probe", "messages.report", "messages.total")
    assert [values[name] for name in names] == [2, 2, 4]
    assert all(solution.quantities[name]["closed"].exact for name in names)


def test_the_queue_tail_of_the_supermarket_model() -> None:  # G10
    values = answers(scenario('name = "power_of_d"', "servers = 100", arrivals="load = 0.9"))
    assert values["queue_tail"][:6] == pytest.approx([1, 0.9, 0.729, 0.478297, 0.205891, 0.038152], abs=6e-7)


def test_two_choices_with_two_speeds() -> None:
    pools = ("servers = 50; rate = 1.5", "servers = 50; rate = 0.75")
    values = answers(scenario('name = "power_of_d"', *pools, arrivals="load = 0.8"))
    # What comes is served: 90 jobs a time unit.
    assert 75 * values["utilisation.a"] + 37.5 * values["utilisation.b"] == pytest.approx(90)
    assert values["job_share.a"] == pytest.approx(75 * values["utilisation.a"] / 90)
    assert values["jobs_in_system_mean"] == pytest.approx(90 * values["sojourn_mean"])


@pytest.mark.parametrize(("policy", "blocking"), [("random", 0.29889299), ("pull", 0.22765898), ("jsq", 0.19468265)])
def test_two_servers_with_room_for_two(policy: str, blocking: float) -> None:  # G17
    two = scenario(f'name = "{policy}"', "servers = 2; capacity = 2", arrivals="load = 0.9")
    assert answers(two, "exact")["block_probability"] == close(blocking)


@pytest.mark.parametrize(
    ("policy", "sojourn"),
    [
        ('name = "jsq"', 1.47379490),
        ('name = "jsq"; ties = "fastest"', 1.35329681),
        ('name = "sed"; ties = "fastest"', 1.25731755),
        ('name = "weighted_random"', 2.0),
    ],
)
def test_two_speeds(policy: str, sojourn: float) -> None:  # G19
    assert answers(scenario(policy, *TWO_SPEEDS, arrivals="rate_total = 4.0"))["sojourn_mean"] == close(sojourn)


def test_utilisation_of_two_speeds() -> None:  # G20
    values = answers(scenario('name = "sed"; ties = "fastest"', *TWO_SPEEDS, arrivals="rate_total = 4.0"))
    assert (values["utilisation.a"], values["utilisation.b"]) == (close(0.51452671), close(0.87136832))
    assert values["job_share.b"] == pytest.approx(4 * values["utilisation.b"] / 4)


@pytest.mark.parametrize(
    ("policy", "blocking"),
    [
        ('name = "jsq"; full = "ignore"', 0.15141871),
        ('name = "jsq"', 0.12663678),
        ('name = "pull"', 0.19209607),
        ('name = "weighted_random"', 0.19121240),
        ('name = "sed"; ties = "fastest"', 0.11592987),
        ('name = "sed"; ties = "fastest"; full = "ignore"', 0.25),  # G23
    ],
)
def test_two_speeds_with_little_room(policy: str, blocking: float) -> None:  # G22
    pools = [f"{pool}; capacity = {room}" for pool, room in zip(TWO_SPEEDS, (2, 3), strict=True)]
    values = answers(scenario(policy, *pools, arrivals="rate_total = 4.0"))
    assert values["block_probability"] == close(blocking)


@pytest.mark.parametrize(
    ("stale", "routers", "sojourn"),
    [
        ("withdraw", 1, 2.36111),
        ("withdraw", 2, 2.64706),
        ("withdraw", 4, 2.90123),
        ("keep", 2, 2.63666),
        pytest.param("keep", 4, 2.87864, marks=pytest.mark.long),
    ],
)
def test_pull_of_two_servers(stale: str, routers: int, sojourn: float) -> None:  # G28, G29
    two = scenario(f'{PULL}; stale = "{stale}"', "servers = 2", arrivals="load = 0.7", more=_routers(routers))
    assert answers(two, "exact")["sojourn_mean"] == close(sojourn, 5)


def test_messages_of_pull() -> None:  # G30
    values = answers(scenario(PULL, "servers = 2", arrivals="load = 0.7", more=_routers(2)), "exact")
    names = ("wait_probability", "dispatch.random", "messages.pull", "messages.withdraw")
    assert [values[name] for name in names] == [
        close(0.61053601),
        close(0.73026800),
        close(0.38946399),
        close(0.11973200),
    ]
    assert values["messages.total"] == values["messages.pull"] + values["messages.withdraw"]


@pytest.mark.parametrize(
    ("stale", "routers", "blocking"),
    [
        ("withdraw", 1, 0.14672741),
        ("withdraw", 2, 0.18155247),
        ("keep", 2, 0.18665724),
        ("withdraw", 3, 0.20078172),
        ("keep", 3, 0.20831850),
    ],
)
def test_pull_with_little_room(stale: str, routers: int, blocking: float) -> None:  # G32
    policy = f'{PULL}; stale = "{stale}"'
    three = scenario(policy, "servers = 3; capacity = 2", arrivals="rate_total = 2.4", more=_routers(routers))
    assert answers(three, "exact")["block_probability"] == close(blocking)


@pytest.mark.parametrize(
    ("load", "jobs", "variance", "abandon"),
    [(1.0, 8.13399405, 41.97213492, 0.07206055), (1.5, 51.00020630, 149.98947875, 0.33333472)],  # G62, G64
)
def test_one_server_with_patience(load: float, jobs: float, variance: float, abandon: float) -> None:
    one = scenario(RANDOM, "servers = 1", arrivals=f"rate_total = {load}", more="[patience]; rate = 0.01")
    values = answers(one, "closed")
    assert values["jobs_in_system_mean"] == close(jobs)
    assert values["jobs_in_system_variance"] == close(variance)
    assert values["abandon_probability"] == close(abandon)
    assert values["utilisation.a"] == pytest.approx(load * (1 - abandon), abs=1e-8)


def test_the_shortest_queue_with_patience() -> None:
    light = answers(scenario(JSQ, "servers = 2", arrivals="rate_total = 1.8", more="[patience]; rate = 0.01"))
    assert light["jobs_in_system_mean"] == close(6.78053255)  # G66
    assert light["jobs_in_system_variance"] == close(32.82312725)
    assert light["abandon_probability"] == close(0.02794912)
    critical = solve(scenario(JSQ, "servers = 2", arrivals="rate_total = 2.0", more="[patience]; rate = 0.01"))
    values = critical.values()
    assert values["jobs_in_system_mean"] == close(12.39432005)  # G67
    assert values["jobs_in_system_variance"] == close(81.33859183)
    assert values["abandon_probability"] == close(0.05249657)
    assert values["perpendicular_second_moment"] == close(0.87605713)
    limit = critical.quantities["jobs_in_system_mean"]["limit"]
    assert isinstance(limit.value, float)
    assert 0.1 * limit.value == pytest.approx(1.128379, abs=1e-6)  # G74: the mean of √γ Q at C = 0, nμ = 2
    assert limit.kind == "limit law, critical regime" and not limit.exact


def test_the_queue_tail_with_patience_has_the_moments_that_are_given() -> None:
    values = answers(scenario(JSQ, "servers = 2", arrivals="rate_total = 2.0", more="[patience]; rate = 0.1"))
    tail = values["queue_tail"]
    assert math.fsum(tail[1:]) == pytest.approx(values["queue_length_mean"], abs=1e-6)
    square = math.fsum((2 * k - 1) * share for k, share in enumerate(tail) if k)
    assert square - values["queue_length_mean"] ** 2 == pytest.approx(values["queue_length_variance"], abs=1e-6)


MAX_VACANCY = 'name = "max_vacancy"'


def test_two_slots() -> None:  # G76, G77
    pool, arrivals = "servers = 4; slots = 2; capacity = 2", "rate_per_server = 1.6"
    two = solve(scenario(MAX_VACANCY, pool, arrivals=arrivals)).quantities["block_probability"]
    assert (two["exact"].value, two["exact"].exact) == (close(0.20567596), True)
    assert (two["meanfield"].value, two["meanfield"].exact) == (close(0.19068898), False)
    one = solve(scenario(f"{MAX_VACANCY}; d = 1", pool, arrivals=arrivals)).quantities["block_probability"]
    assert [one[method].value for method in ("exact", "closed", "meanfield")] == [close(0.32989691)] * 3
    replacement = solve(scenario(f"{MAX_VACANCY}; replacement = true", pool, arrivals=arrivals), "exact")
    assert replacement.values()["block_probability"] == close(0.23354702)
    assert answers(scenario(JSQ, pool, arrivals=arrivals), "exact")["block_probability"] == close(0.14439389)


@pytest.mark.parametrize(
    ("pools", "rate", "d", "blocking"),
    [
        ((5,), 4, 1, 0.19906687),  # G79
        ((5,), 4, 2, 0.06790114),
        ((5,), 4, 3, 0.02140074),
        ((5, 10), 6, 1, 0.20177114),  # G83
        ((5, 10), 6, 2, 0.04403572),
        ((5, 10), 6, 3, 0.00452225),
        ((1, 2), 1.2, 2, 0.24819494),  # G89
    ],
)
def test_the_mean_field_of_loss_systems(pools: tuple[int, ...], rate: float, d: int, blocking: float) -> None:
    many = [f"servers = 50; slots = {slots}; capacity = {slots}" for slots in pools]
    solution = solve(scenario(f"{MAX_VACANCY}; d = {d}", *many, arrivals=f"rate_per_server = {rate}"), "meanfield")
    assert solution.values()["block_probability"] == close(blocking)


def test_occupancy_of_loss_systems() -> None:
    one = scenario(MAX_VACANCY, "servers = 100; slots = 5; capacity = 5", arrivals="rate_per_server = 4.0")
    tail = answers(one)["queue_tail"]
    assert tail == pytest.approx([1, 0.99683497, 0.97155482, 0.87203242, 0.62739479, 0.26057846], abs=6e-9)  # G80
    pools = [f"servers = 50; slots = {slots}; capacity = {slots}" for slots in (5, 10)]
    values = answers(scenario(MAX_VACANCY, *pools, arrivals="rate_per_server = 6.0"))
    assert (values["queue_tail.a"][5], values["queue_tail.b"][10]) == (close(0.33073189), close(0.08896192))  # G86
    assert (values["queue_length_mean.a"], values["queue_length_mean.b"]) == (close(3.955312, 6), close(7.516259, 6))
    assert values["messages.probe"] == values["messages.report"] == 2.0


@pytest.mark.parametrize(
    ("weights", "blocking"), [('"optimal"', 0.14667002), ('"capacity"', 0.14746300), ("[1.0, 1.0]", 0.20177114)]
)
def test_static_splits_of_loss_systems(weights: str, blocking: float) -> None:  # G84
    pools = [f"servers = 10; slots = {slots}; capacity = {slots}" for slots in (5, 10)]
    policy = f'name = "weighted_random"; weights = {weights}'
    values = answers(scenario(policy, *pools, arrivals="rate_per_server = 6.0"), "closed")
    assert values["block_probability"] == close(blocking)


@pytest.mark.parametrize(
    ("servers", "more", "blocking"), [(2, "", 0.25485382), (3, "", 0.25210753), (2, "; replacement = true", 0.28636782)]
)
def test_exact_loss_systems_of_two_types(servers: int, more: str, blocking: float) -> None:  # G89
    pools = [f"servers = {servers}; slots = {slots}; capacity = {slots}" for slots in (1, 2)]
    solution = solve(scenario(MAX_VACANCY + more, *pools, arrivals="rate_per_server = 1.2"), "exact")
    assert solution.values()["block_probability"] == close(blocking)


def _routers(count: int) -> str:
    return f"[routers]; count = {count}"
