import re
from collections.abc import Callable
from typing import Literal

import pytest

from services.models import closed
from services.models.chains.pull import solve_pull
from services.models.chains.queues import solve_jiq

Stale = Literal["withdraw", "keep", "duplicate"]


@pytest.mark.parametrize(("routers", "sojourn"), [(1, 2.36111), (2, 2.64706), (4, 2.90123)])
def test_withdraw_golden_rows_g28(routers: int, sojourn: float) -> None:
    result = solve_pull([1, 1], 1.4, routers=routers, tolerance=1e-10)
    assert result.sojourn_mean == pytest.approx(sojourn, abs=6e-6)


@pytest.mark.parametrize(("routers", "sojourn"), [(2, 2.63666), (4, 2.87864)])
def test_keep_golden_rows_g29(routers: int, sojourn: float) -> None:
    result = solve_pull([1, 1], 1.4, routers=routers, stale="keep", tolerance=1e-8)
    assert result.sojourn_mean == pytest.approx(sojourn, abs=6e-6)


def test_withdraw_golden_row_g30() -> None:
    result = solve_pull([1, 1], 1.4, routers=2)
    assert result.wait_probability == pytest.approx(0.61053601, abs=5e-9)
    assert result.random_probability == pytest.approx(0.73026800, abs=5e-9)
    assert result.pull_messages == pytest.approx(0.38946399, abs=5e-9)
    assert result.withdrawals == pytest.approx(0.11973200, abs=5e-9)
    assert result.stale_probability == 0


@pytest.mark.parametrize(
    ("routers", "stale", "blocking"),
    [
        (1, "withdraw", 0.14672741),
        (1, "keep", 0.14672741),
        (2, "withdraw", 0.18155247),
        (2, "keep", 0.18665724),
        (3, "withdraw", 0.20078172),
        (3, "keep", 0.20831850),
    ],
)
def test_finite_buffers_golden_rows_g32(routers: int, stale: Stale, blocking: float) -> None:
    result = solve_pull([1] * 3, 2.4, [2] * 3, routers=routers, stale=stale)
    assert result.block_probability == pytest.approx(blocking, abs=5e-9)
    assert result.truncation_error == 0


@pytest.mark.parametrize("stale", ["withdraw", "keep", "duplicate"])
def test_message_identities(stale: Stale) -> None:
    # Unequal speeds, finite buffers, two routers: the identities hold at any size.
    result = solve_pull([1, 3], 2.5, [2, 2], routers=2, stale=stale, tolerance=3e-3)
    late = result.wait_probability + result.block_probability
    slack = max(1e-11, 3 * result.truncation_error)
    if stale == "keep":
        assert result.pull_messages == pytest.approx(1 - result.random_probability, abs=slack)
        assert result.stale_probability > 0.001
    elif stale == "withdraw":
        assert result.pull_messages == pytest.approx(1 - late, abs=slack)
        assert result.random_probability == pytest.approx(late + result.withdrawals, abs=slack)
    else:
        # The messages that were cut off with the heaps are missing, and would have saved random draws.
        assert result.pull_messages + result.truncation_error == pytest.approx(1 - late, abs=1e-11)
        assert result.random_probability - result.truncation_error == pytest.approx(late, abs=1e-11)
    assert (result.withdrawals > 0.001) == (stale == "withdraw")


def test_one_router_is_jiq_under_every_rule() -> None:
    arguments = ([1, 2, 2], 4.0, [3, 2, 2])
    expected = solve_jiq(*arguments)
    for stale in ("withdraw", "keep", "duplicate"):
        result = solve_pull(*arguments, stale=stale)
        assert result.block_probability == pytest.approx(expected.block_probability, rel=1e-10)
        assert result.sojourn_mean == pytest.approx(expected.sojourn_mean, rel=1e-10)
        assert result.utilisation == pytest.approx(expected.utilisation, rel=1e-10)


def test_one_router_and_capacity_one_is_erlangs_loss_system() -> None:
    result = solve_pull([1] * 5, 4.0, [1] * 5)
    assert result.block_probability == pytest.approx(closed.erlang_b(5, 4.0), rel=1e-11)
    assert result.random_probability == pytest.approx(result.block_probability, rel=1e-11)


@pytest.mark.parametrize("stale", ["withdraw", "keep"])
def test_one_server_is_mm1_however_many_routers(stale: Stale) -> None:
    # Every job ends at the one server. Withdraw: the message is at the right one of R routers with chance 1/R.
    result = solve_pull([2.0], 1.0, routers=3, stale=stale, tolerance=1e-10)
    assert result.sojourn_mean == pytest.approx(1, rel=1e-8)
    if stale == "withdraw":
        assert result.withdrawals == pytest.approx(0.5 * 2 / 3, rel=1e-8)


def test_given_equal_shares_are_equal_shares() -> None:
    # Given shares switch off the merging of exchangeable routers: the law must not change.
    merged = solve_pull([1, 2], 2.0, [2, 2], routers=3, stale="keep")
    plain = solve_pull([1, 2], 2.0, [2, 2], routers=3, stale="keep", shares=[1 / 3] * 3)
    assert merged.states < plain.states
    assert merged.block_probability == pytest.approx(plain.block_probability, rel=1e-10)
    assert merged.stale_probability == pytest.approx(plain.stale_probability, rel=1e-10)


def test_a_router_with_all_the_jobs_wastes_the_messages_of_the_others() -> None:
    skewed = solve_pull([1, 1], 1.0, [3, 3], routers=2, shares=[0.999, 0.001])
    even = solve_pull([1, 1], 1.0, [3, 3], routers=2)
    assert skewed.random_probability > even.random_probability
    assert skewed.wait_probability > even.wait_probability


def test_fastest_first_uses_the_fast_server_more() -> None:
    plain = solve_pull([1, 2], 1.5, [3, 3], routers=2)
    first = solve_pull([1, 2], 1.5, [3, 3], routers=2, order="fastest", weights=[1, 2])
    assert first.utilisation[1] > plain.utilisation[1]
    assert first.sojourn_mean < plain.sojourn_mean


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_pull([1], 0.5, routers=0), "routers = 0, but PULL needs at least one"),
        (lambda: solve_pull([1], 0.5, routers=2, shares=[1]), "1 shares for 2 routers: give one a router"),
        (lambda: solve_pull([1], 0.5, routers=2, shares=[0.5, 0.6]), "but shares are above 0 and add up to 1"),
        (lambda: solve_pull([1], 0.5, stale="drop"), "stale = 'drop', but it is one of withdraw, keep"),  # type: ignore[arg-type]
        (lambda: solve_pull([1], 0.5, order="last"), "order = 'last', but it is one of random, fastest"),  # type: ignore[arg-type]
        (lambda: solve_pull([1], 0.5, weights=[1, 1]), "2 weights for 1 servers: give one a server"),
        (lambda: solve_pull([1], 0.5, weights=[-1]), "weights = [-1], but weights are finite"),
        (lambda: solve_pull([1, 4], 4.0, max_states=900), "900 states are not enough for 2 servers"),
    ],
)
def test_arguments_out_of_range_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
