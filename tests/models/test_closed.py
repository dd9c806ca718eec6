import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad

from services.models import closed

INF = math.inf


def test_mm1_has_the_textbook_values() -> None:
    # Golden row G1, and N geometric: mean ρ/(1-ρ) = 9, variance ρ/(1-ρ)² = 90, P(N >= k) = ρ^k.
    queue = closed.mm1(0.9)
    assert queue.sojourn_mean == pytest.approx(10, rel=1e-12)
    assert queue.waiting_mean == pytest.approx(9, rel=1e-12)
    assert queue.wait_probability == pytest.approx(0.9, rel=1e-12)
    assert queue.jobs_in_system_mean == pytest.approx(9, rel=1e-12)
    assert queue.jobs_in_system_variance == pytest.approx(90, rel=1e-12)
    assert queue.block_probability == 0
    assert [queue.queue_tail(k) for k in (0, 1, 2, 30)] == pytest.approx([1, 0.9, 0.81, 0.9**30], rel=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_mm1_sojourn_is_exponential(share: float) -> None:
    # Rate 2, arrivals 1.5: sojourn ~ Exp(0.5), quantile -ln(1-p)/0.5.
    assert closed.mm1(1.5, 2.0).sojourn_quantile(share) == pytest.approx(-math.log(1 - share) / 0.5, rel=1e-9)


def test_mm1k_golden_row_g2() -> None:
    queue = closed.mm1k(0.9, 1.0, 5)
    assert queue.block_probability == pytest.approx(0.12602255, abs=5e-9)
    assert queue.sojourn_mean == pytest.approx(2.79028595, abs=5e-9)


def test_mm1k_at_load_one_is_uniform() -> None:
    # All K+1 = 5 states weigh 1/5; a job waits when it sees 1, 2 or 3.
    queue = closed.mm1k(1.0, 1.0, 4)
    assert queue.block_probability == pytest.approx(0.2, rel=1e-12)
    assert queue.wait_probability == pytest.approx(0.6, rel=1e-12)
    assert queue.jobs_in_system_mean == pytest.approx(2, rel=1e-12)
    assert queue.jobs_in_system_variance == pytest.approx(2, rel=1e-12)
    assert queue.sojourn_mean == pytest.approx(2.5, rel=1e-12)  # admitted sees 0..3 evenly
    assert [queue.queue_tail(k) for k in (4, 5, 6000)] == pytest.approx([0.2, 0, 0])


def test_mm1k_of_capacity_one_is_a_single_erlang_server() -> None:
    queue = closed.mm1k(3.0, 2.0, 1)
    assert queue.block_probability == pytest.approx(0.6, rel=1e-12)  # a/(1+a), a = 1.5
    assert queue.wait_probability == 0
    assert queue.waiting_mean == 0
    assert queue.sojourn_quantile(0.5) == pytest.approx(math.log(2) / 2, rel=1e-9)


def test_overloaded_finite_queue_stays_finite() -> None:
    # Load 50 and capacity 3000: nearly always full, blocked 1 - 1/50.
    queue = closed.mm1k(50.0, 1.0, 3000)
    assert queue.block_probability == pytest.approx(0.98, rel=1e-12)
    assert queue.queue_tail(5000) == 0


@pytest.mark.parametrize(("servers", "sojourn"), [(2, 5.263158), (10, 1.668732), (100, 1.021694)])
def test_mmn_golden_rows_g3(servers: int, sojourn: float) -> None:
    queue = closed.mmn(0.9 * servers, 1.0, servers)
    assert queue.sojourn_mean == pytest.approx(sojourn, abs=5e-7)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.3), (7, 0.95), (100, 0.9), (10_000, 0.99)])
def test_mmn_agrees_with_the_erlang_recursion(servers: int, load: float) -> None:
    offered = load * servers
    queue = closed.mmn(3 * offered, 3.0, servers)
    chance = closed.erlang_c(servers, offered)
    assert queue.wait_probability == pytest.approx(chance, rel=1e-9)
    assert queue.waiting_mean == pytest.approx(chance / (3 * servers - 3 * offered), rel=1e-9)
    assert queue.jobs_in_system_mean == pytest.approx(3 * offered * queue.sojourn_mean, rel=1e-9)
    assert queue.utilisation == pytest.approx(load, rel=1e-12)


@pytest.mark.parametrize(
    ("servers", "offered", "blocking"),
    [(5, 4, 0.19906687), (10, 8, 0.12166106), (20, 18, 0.10921285), (100, 90, 0.02695738)],
)
def test_erlang_b_golden_rows_g5(servers: int, offered: float, blocking: float) -> None:
    assert closed.erlang_b(servers, offered) == pytest.approx(blocking, abs=5e-9)
    assert closed.mmck(offered, 1.0, servers, servers).block_probability == pytest.approx(blocking, abs=5e-9)


def test_erlang_b_of_many_servers() -> None:
    # At offered = n the blocking tends to sqrt(2/(πn)) (Jagerman 1974), up to a relative 1/sqrt(n).
    n = 40_000
    assert closed.erlang_b(n, n) == pytest.approx(math.sqrt(2 / (math.pi * n)), rel=5e-3)
    assert closed.mmck(n, 1.0, n, n).block_probability == pytest.approx(closed.erlang_b(n, n), rel=1e-9)


def test_erlang_b_edges() -> None:
    assert closed.erlang_b(0, 3.0) == 1
    assert closed.erlang_b(4, 0.0) == 0


@pytest.mark.parametrize(("slots", "capacity"), [(1, INF), (1, 6), (3, INF), (3, 3), (3, 9), (2, 500)])
@pytest.mark.parametrize("load", [0.4, 0.9, 2 / 3])
def test_sojourn_survival_integrates_to_the_mean(slots: int, capacity: float, load: float) -> None:
    # E[X] = ∫ P(X > t) dt: ties the distribution to Little's law. Load 2/3 with three slots makes both rates
    # of the hypoexponential equal.
    queue = closed.mmck(load * slots * 1.7, 1.7, slots, capacity)
    area, _ = quad(queue.sojourn_survival, 0, 40 * queue.sojourn_mean, epsabs=1e-10, limit=200)
    assert area == pytest.approx(queue.sojourn_mean, rel=1e-7)


def test_mmck_balances_state_by_state() -> None:
    # Flow up = flow down between all neighbours: λ p_k = min(k+1, c) μ p_{k+1}.
    queue = closed.mmck(5.0, 2.0, 3, 12)
    p = -np.diff([queue.queue_tail(k) for k in range(14)])
    assert p.sum() == pytest.approx(1, rel=1e-12)
    assert 5.0 * p[:-1] == pytest.approx(2.0 * np.minimum(np.arange(1, 13), 3) * p[1:], rel=1e-9)
    assert queue.wait_probability == pytest.approx(p[3:12].sum(), rel=1e-9)
    counts = np.arange(13)
    assert queue.jobs_in_system_variance == pytest.approx(counts**2 @ p - (counts @ p) ** 2, rel=1e-9)


def test_infinite_capacity_is_the_limit_of_finite() -> None:
    near, limit = closed.mmck(3.4, 1.0, 4, 700), closed.mmck(3.4, 1.0, 4)
    for name in ("sojourn_mean", "wait_probability", "jobs_in_system_mean", "jobs_in_system_variance"):
        assert getattr(near, name) == pytest.approx(getattr(limit, name), rel=1e-9)
    assert near.sojourn_quantile(0.99) == pytest.approx(limit.sojourn_quantile(0.99), rel=1e-8)


@pytest.mark.parametrize("capacity", [INF, 5])
def test_lightest_traffic(capacity: float) -> None:
    empty, light = closed.mmck(0.0, 2.0, 1, capacity), closed.mmck(1e-9, 2.0, 1, capacity)
    for queue in (empty, light):
        assert queue.sojourn_mean == pytest.approx(0.5, rel=1e-8)
        assert queue.wait_probability == pytest.approx(0, abs=1e-8)
        assert queue.sojourn_quantile(0.5) == pytest.approx(math.log(2) / 2, rel=1e-6)


def test_mg1_between_deterministic_and_exponential() -> None:
    # M/M/1 at .8 waits 4; deterministic services halve it.
    assert closed.mg1_waiting_mean(0.8, 1.0, 2.0) == pytest.approx(closed.mm1(0.8).waiting_mean, rel=1e-12)
    assert closed.mg1_waiting_mean(0.8, 1.0, 1.0) == pytest.approx(2, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: closed.mm1(1.0), "load = 1, but a station of infinite capacity needs a load below 1"),
        (lambda: closed.mm1(-0.1), "arrival_rate = -0.1, but a station needs a finite arrival rate >= 0"),
        (lambda: closed.mm1(0.1, 0.0), "rate = 0.0, but a station needs a finite rate > 0"),
        (lambda: closed.mmck(1, 1, 0), "slots = 0, but a station needs slots >= 1"),
        (lambda: closed.mmck(1, 1, 3, 2), "capacity = 2, but it is infinite or a whole number >= slots = 3"),
        (lambda: closed.mmck(1, 1, 3, math.nan), "capacity = nan, but it is infinite or a whole number"),
        (lambda: closed.erlang_b(-1, 1.0), "servers = -1, but Erlang B needs servers >= 0"),
        (lambda: closed.erlang_b(1, -1.0), "offered = -1.0, but Erlang B needs a finite offered load >= 0"),
        (lambda: closed.erlang_c(0, 0.1), "servers = 0, but Erlang C needs servers >= 1"),
        (lambda: closed.erlang_c(2, 2.0), "offered = 2.0, but Erlang C with 2 servers needs offered < 2"),
        (lambda: closed.mg1_waiting_mean(1.0, 1.0, 2.0), "load = 1, but M/G/1 needs a load below 1"),
        (
            lambda: closed.mg1_waiting_mean(0.5, 0.0, 2.0),
            "but M/G/1 needs arrival_rate >= 0 and service_mean > 0",
        ),
        (
            lambda: closed.mg1_waiting_mean(0.5, 1.0, 0.9),
            "service_second_moment = 0.9 is below service_mean²",
        ),
        (lambda: closed.mm1(0.5).sojourn_quantile(1.0), "share = 1.0, but a quantile needs 0 <= share < 1"),
        (lambda: closed.mm1(0.5).queue_tail(-1), "k = -1, but a queue tail needs k >= 0"),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
