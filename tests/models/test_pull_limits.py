import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from services.models import jiq_meanfield as jiq
from services.models import pull


def test_fluid_equilibrium_golden_row_g24() -> None:
    result = pull.fluid_equilibrium([0.5, 0.5], [1, 2], 1.2)
    assert result.pull_rate == pytest.approx(6.553968, abs=6e-7)
    assert result.busy_shares == pytest.approx((0.867619, 0.766190), abs=6e-7)
    assert result.sojourn_mean == pytest.approx(0.680754, abs=6e-7)


def test_fluid_equilibrium_balances_every_pool() -> None:
    servers, rates, total = [30, 50, 20], [0.5, 1.0, 7.0], 160.0
    result = pull.fluid_equilibrium(servers, rates, total)
    pulled = np.array(servers) * np.array(result.idle_shares) * result.pull_rate
    served = np.array(servers) * np.array(rates) * np.array(result.busy_shares)
    assert pulled == pytest.approx(served, rel=1e-10)
    assert served.sum() == pytest.approx(total, rel=1e-10)
    assert result.job_shares == pytest.approx(served / total, rel=1e-10)
    assert sum(result.job_shares) == pytest.approx(1, rel=1e-10)
    assert result.busy_shares[0] > result.busy_shares[1] > result.busy_shares[2]


@pytest.mark.parametrize("load", [1e-9, 0.5, 0.999999])
def test_fluid_equilibrium_of_one_pool(load: float) -> None:
    result = pull.fluid_equilibrium([10], [4.0], 40 * load)
    assert result.busy_shares[0] == pytest.approx(load, rel=1e-9)
    assert result.sojourn_mean == pytest.approx(0.25, rel=1e-9)
    # Close to full and close to empty the root must be bracketed for unequal pools too.
    assert pull.fluid_equilibrium([1, 1], [1, 100], 101 * load).pull_rate > 0


def test_message_identities_on_golden_row_g30() -> None:
    row = {"wait_probability": 0.61053601, "block_probability": 0.0, "random_probability": 0.73026800}
    assert pull.expected_pull_messages("withdraw", **row) == pytest.approx(0.38946399, abs=1e-8)
    assert pull.expected_withdrawals("withdraw", **row) == pytest.approx(0.11973200, abs=1.1e-8)
    assert pull.expected_pull_messages("keep", **row) == pytest.approx(0.269732, abs=1e-8)
    assert pull.expected_pull_messages("duplicate", **row) == pytest.approx(0.38946399, abs=1e-8)
    assert pull.expected_withdrawals("keep", **row) == 0


def test_skewed_routers_golden_row_g48() -> None:
    result = pull.skewed_routers([0.25, 0.75], 0.8)
    assert result.sojourn_mean == pytest.approx(1.5, rel=1e-12)
    assert result.wait_probability == pytest.approx(1 / 3, rel=1e-12)
    assert result.random_probability == pytest.approx(5 / 12, rel=1e-12)
    assert result.starved == (False, True)


@pytest.mark.parametrize(
    "shares", [[0.3, 0.7], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4], [0.2, 0.22, 0.28, 0.3], [0.02, 0.32, 0.33, 0.33]]
)
def test_skewed_routers_balance(shares: list[float]) -> None:
    load = 0.7
    result = pull.skewed_routers(shares, load, rate=1.0)
    random_rate = result.random_probability * load
    # Idle servers hold exactly one message, all in the stocks; each router is fed alike, and starved ones use it up.
    assert sum(result.stocks) == pytest.approx(1 - load, rel=1e-9)
    feed = load * result.pull_messages / len(shares)
    assert random_rate > 0
    for share, stock, starved in zip(shares, result.stocks, result.starved, strict=True):
        if starved:
            assert stock == 0
            assert share * load >= feed - 1e-12
        else:
            assert stock > 0
            assert share * load + random_rate * stock == pytest.approx(feed, rel=1e-9)
    sent_at_random = sum(share * load - feed for share, out in zip(shares, result.starved, strict=True) if out)
    assert sent_at_random == pytest.approx(random_rate, rel=1e-9)
    late = (result.wait_probability, 0.0, result.random_probability)
    assert result.withdrawals == pytest.approx(pull.expected_withdrawals("withdraw", *late), rel=1e-9)


def test_equal_routers_do_not_make_jobs_wait() -> None:
    result = pull.skewed_routers([0.25] * 4, 1.8, rate=2.0)
    assert result.wait_probability == pytest.approx(0, abs=1e-12)
    assert result.sojourn_mean == pytest.approx(0.5, rel=1e-12)
    assert result.stocks == pytest.approx([0.025] * 4, rel=1e-9)
    assert pull.skewed_random_probability([0.25] * 4) == 0


def test_stale_messages_that_stay_under_skew() -> None:
    assert pull.skewed_random_probability([0.25, 0.75]) == pytest.approx(0.5, rel=1e-12)  # 1 - 2α


@pytest.mark.parametrize(
    ("load", "sojourn"), [(0.5, 1.070953), (0.8, 1.322092), (0.9, 1.765375), (0.95, 2.667280), (0.99, 9.933082)]
)
def test_withdraw_mean_field_golden_rows_g41(load: float, sojourn: float) -> None:
    result = jiq.jiq_withdraw(load, 10)
    assert result.sojourn_mean == pytest.approx(sojourn, abs=6e-7)
    # Each idle server has one message out: r (1 - λ) a router.
    assert result.list_lengths.sum() == pytest.approx(1, rel=1e-10)
    lengths = np.arange(len(result.list_lengths))
    assert result.list_lengths @ lengths == pytest.approx(10 * (1 - load), rel=1e-9)


def test_withdraw_mean_field_golden_rows_g44_g46() -> None:
    result = jiq.jiq_withdraw(0.9, 10)
    assert result.random_probability == pytest.approx(0.481720, abs=6e-7)
    assert result.withdrawals == pytest.approx(0.048172, abs=6e-7)
    assert result.pull_messages == pytest.approx(0.566452, abs=6e-7)
    for servers, sojourn in ((5, 2.420567), (20, 1.397871), (40, 1.202924)):
        assert jiq.jiq_withdraw(0.9, servers).sojourn_mean == pytest.approx(sojourn, abs=6e-7)


@pytest.mark.parametrize("solve", [jiq.jiq_withdraw, jiq.jiq_keep])
def test_mean_field_obeys_the_message_identities(solve: Callable[..., jiq.JiqMeanField]) -> None:
    stale = "keep" if solve is jiq.jiq_keep else "withdraw"
    result = solve(1.7, 7.0, rate=2.0)
    late = (result.wait_probability, 0.0, result.random_probability)
    assert result.pull_messages == pytest.approx(pull.expected_pull_messages(stale, *late), abs=1e-9)  # type: ignore[arg-type]
    assert result.withdrawals == pytest.approx(pull.expected_withdrawals(stale, *late), abs=1e-9)  # type: ignore[arg-type]
    assert result.queue_tail[1] == pytest.approx(0.85, rel=1e-9)
    assert result.queue_tail[1:].sum() == pytest.approx(1.7 * result.sojourn_mean, rel=1e-9)  # Little


def test_withdraw_mean_field_is_where_the_flow_ends() -> None:
    # The equations of the mean field, integrated from empty queues and full lists.
    load, r, lists, queues = 0.8, 4, 60, 40
    i = np.arange(lists + 1)

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        p, y = state[: lists + 1], state[lists + 1 :]
        hit = load * p[0]
        sent = y[1]
        up = np.append(r * sent * p[:-1], 0.0)
        down = np.append(0.0, (load * r + i[1:] * hit) * p[1:])
        dp = -up - down + np.append(0.0, up[:-1]) + np.append(down[1:], 0.0)
        join = np.append(hit * y[:-1], 0.0)
        join[0] = load * (1 - p[0]) + hit * y[0]
        leave = np.append(0.0, y[1:])
        dy = -join - leave + np.append(0.0, join[:-1]) + np.append(leave[1:], 0.0)
        return np.concatenate([dp, dy])

    start = np.zeros(lists + queues + 2)
    start[r] = start[lists + 1] = 1.0
    end = solve_ivp(slope, (0, 400), start, "LSODA", rtol=1e-9, atol=1e-12).y[:, -1]
    result = jiq.jiq_withdraw(load, r)
    assert end[0] == pytest.approx(result.random_probability, abs=1e-7)
    jobs = end[lists + 1 :] @ np.arange(queues + 1)
    assert jobs / load == pytest.approx(result.sojourn_mean, abs=1e-6)


def test_keep_mean_field_is_where_the_flow_ends() -> None:
    # v[i, k]: share of servers with k jobs whose message lies in a list of i; w[k]: without a message. The lists
    # are read off v itself (r Σ_k v[i, k] / i of the routers have i), not assumed geometric.
    load, r, lists, queues = 0.7, 3, 40, 30
    i = np.arange(1, lists + 1)[:, np.newaxis]
    shape = (lists, queues + 1)

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        v, w = state[: lists * (queues + 1)].reshape(shape), state[lists * (queues + 1) :]
        p = r * v.sum(axis=1) / i.ravel()
        empty = 1 - p.sum()
        hit, sent = load * empty, w[1]
        dv, dw = np.zeros(shape), np.zeros(queues + 1)
        for array, change in ((v, dv), (w[np.newaxis, :], dw[np.newaxis, :])):
            change[:, 1:] += hit * array[:, :-1]
            change[:, :-1] -= hit * array[:, :-1]
        dv[:, :-1] += v[:, 1:]
        dv[:, 1:] -= v[:, 1:]
        dw[1:-1] += w[2:]
        dw[1:] -= w[1:]
        fresh = np.append(empty, p[:-1])
        dv[:, 0] += sent * fresh / fresh.sum()
        fill = r * sent * v[:-1]
        dv[1:] += fill
        dv[:-1] -= fill
        use = load * r * v / i
        shrink = use * (i - 1)
        dv -= use + shrink
        dv[:-1] += shrink[1:]
        dw[1:] += use[:, :-1].sum(axis=0)
        return np.concatenate([dv.ravel(), dw])

    start = np.zeros(lists * (queues + 1) + queues + 1)
    start[(r - 1) * (queues + 1)] = 1.0
    end = solve_ivp(slope, (0, 150), start, "RK45", rtol=1e-7, atol=1e-10).y[:, -1]
    v, w = end[: lists * (queues + 1)].reshape(shape), end[lists * (queues + 1) :]
    jobs = (v.sum(axis=0) + w) @ np.arange(queues + 1)
    result = jiq.jiq_keep(load, r)
    assert jobs / load == pytest.approx(result.sojourn_mean, rel=1e-5)
    p = r * v.sum(axis=1) / i.ravel()
    assert 1 - p.sum() == pytest.approx(result.random_probability, rel=1e-5)
    assert p[:8] == pytest.approx(result.list_lengths[1:9], rel=1e-3)
    assert (load * r * v / i)[:, 1:].sum() / load == pytest.approx(result.stale_probability, rel=1e-4)


def test_published_formula() -> None:
    # JIQ-Random: ρ/(1-ρ) = r(1-λ) = 1 at λ = .9, r = 10: ρ = 1/2, s = .45, T = 1/.55.
    result = jiq.jiq_published(0.9, 10)
    assert result.nonempty_share == pytest.approx(0.5, rel=1e-12)
    assert result.sojourn_mean == pytest.approx(1 / 0.55, rel=1e-12)
    # JIQ-SQ(2): the root of ρ + ρ³ + ρ⁷ + ρ¹⁵ + … = 1.
    rho = jiq.jiq_published(0.9, 10, d=2).nonempty_share
    assert sum(rho ** (2.0**k - 1) for k in range(1, 60)) == pytest.approx(1, rel=1e-12)
    # At high load it forgets how many messages are withdrawn or stale.
    assert jiq.jiq_published(0.95, 10).sojourn_mean > jiq.jiq_withdraw(0.95, 10).sojourn_mean


@pytest.mark.parametrize("r", [0.01, 1, 300])
@pytest.mark.parametrize("load", [1e-6, 0.5, 0.99])
def test_corners_of_the_mean_field(r: float, load: float) -> None:
    result = jiq.jiq_withdraw(load, r)
    # Between a random server (M/M/1) and one that is always idle.
    assert 1 <= result.sojourn_mean <= 1 / (1 - load) + 1e-9
    if r == 0.01:  # hardly any server per router: a list is nearly always empty
        assert result.sojourn_mean == pytest.approx(1 / (1 - load), rel=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pull.fluid_equilibrium([1], [1, 2], 0.5), "1 pools and 2 rates: give one of each a pool"),
        (lambda: pull.fluid_equilibrium([1], [0], 0.5), "servers = [1], rates = [0], but both are finite and above 0"),
        (lambda: pull.fluid_equilibrium([1], [1], 1.0), "load = 1, but the fluid equilibrium needs a load above 0"),
        (lambda: pull.expected_pull_messages("drop", 0, 0, 0), "stale = 'drop', but it is one of withdraw, keep"),  # type: ignore[arg-type]
        (lambda: pull.expected_pull_messages("keep", 0, 0, 1.2), "probabilities (0, 0, 1.2) are not all in [0, 1]"),
        (lambda: pull.skewed_routers([0.4, 0.4], 0.5), "shares = [0.4, 0.4], but shares are above 0 and add up to 1"),
        (lambda: pull.skewed_routers([0.4, 0.6], 1.5), "load = 1.5, but skewed routers need a load above 0"),
        (lambda: pull.skewed_random_probability([]), "shares = [], but shares are above 0 and add up to 1"),
        (lambda: jiq.jiq_withdraw(0.5, 0), "servers_per_router = 0, but it is finite and above 0"),
        (lambda: jiq.jiq_keep(1.0, 4), "load = 1, but JIQ's mean field needs a load above 0 and below 1"),
        (lambda: jiq.jiq_published(0.5, 4, d=0), "d = 0, but an idle server looks at d >= 1 lists"),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
