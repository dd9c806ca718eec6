"""PULL and its three rules for stale messages against exact chains, other simulations, limits and identities."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from router.core import RouterCore
from router.protocol.messages import Pull, Withdraw
from server.core import ServerCore
from services.simulator.run import simulate
from tests.simulation.golden import Case, check, compare, rows, scenario_of, simulated

A, B, C = (f'name = "pull", stale = "{stale}"' for stale in ("withdraw", "keep", "duplicate"))
TWO = '{name = "a", servers = 2}'
THREE_OF_TWO = '{name = "a", servers = 3, capacity = 2}'
HUNDRED = '{name = "a", servers = 100}'
WAIT = "wait_probability"


def routers(count: int) -> str:
    """So many, with equal shares."""
    return f"routers = {{count = {count}}}"


def two_servers(row: str, policy: str, count: int, sojourn: float) -> Case:
    """Two servers at load 0.7; rules A and B differ by less than the noise here, the numbers of routers by 10%."""
    return Case(row, policy, TWO, "load = 0.7", {"sojourn_mean": sojourn}, 60_000, more=routers(count))


def three_servers(policy: str, count: int, blocking: float) -> Case:
    """Three servers of two places each."""
    expected = {"block_probability": blocking}
    return Case("G32", policy, THREE_OF_TWO, "rate_total = 2.4", expected, 40_000, more=routers(count))


def two_pools(servers: int, jobs: int, **more: Any) -> Case:
    """Half of rate 1, half of rate 2, at load 0.8 = 1.2 jobs per server and time unit, four routers."""
    half = servers // 2
    pools = f'{{name = "slow", servers = {half}}}, {{name = "fast", servers = {half}, rate = 2.0}}'
    return Case("G36", A, pools, "load = 0.8", jobs=jobs, warmup=30, more=routers(4), **more)


def skewed(servers: int, jobs: int) -> Case:
    """Two routers with shares 1/4 and 3/4, load 0.8; the limit is missed by 0.1% at 2000 servers."""
    expected = {"sojourn_mean": 1.5, WAIT: 1 / 3, "dispatch.random": 0.416667}
    return Case("G48", A, f'{{name = "a", servers = {servers}}}', "load = 0.8", expected, jobs,
                bias=0.005, more="routers = {split = [0.25, 0.75]}", warmup=40)  # fmt: skip


QUICK = [
    two_servers("G28", A, 1, 2.36111),
    Case("G28 and G30", A, TWO, "load = 0.7",
         {"sojourn_mean": 2.64706, WAIT: 0.61053601, "dispatch.random": 0.73026800,
          "messages.pull": 0.38946399, "messages.withdraw": 0.11973200},
         80_000, more=routers(2)),
    two_servers("G28", A, 4, 2.90123),
    two_servers("G29", B, 2, 2.63666),
    two_servers("G29", B, 4, 2.87864),
    three_servers(A, 1, 0.14672741),
    three_servers(A, 2, 0.18155247),
    three_servers(B, 2, 0.18665724),
    three_servers(A, 3, 0.20078172),
    three_servers(B, 3, 0.20831850),
    # Waiting comes in bursts: P(wait) and the withdrawals of row G36 need more jobs than there are here.
    two_pools(400, 100_000, error=0.01, expected={
        "sojourn_mean": (0.70623, 0.0004), "messages.pull": (0.96885, 0.0001)}),
    skewed(1000, 120_000),
]  # fmt: skip

LONG = [
    skewed(2000, 1_000_000),
    Case("G39", A, HUNDRED, "load = 0.9", {"sojourn_mean": (1.0741, 0.002), WAIT: (0.0627, 0.001)}, 1_500_000,
         error=0.03),
    *(
        Case("G40", policy, HUNDRED, "load = 0.9", {"sojourn_mean": sojourn}, 1_000_000, more=routers(10))
        for policy, sojourn in ((A, (1.830, 0.005)), (B, (1.879, 0.007)), (C, (1.870, 0.004)))
    ),
    two_pools(400, 2_000_000, error=0.03, expected={
        "sojourn_mean": (0.70623, 0.0004), WAIT: (0.03114, 0.0001), "messages.withdraw": 0.00629}),
]  # fmt: skip


@pytest.mark.parametrize("case", rows(QUICK, LONG), ids=str)
def test_golden_row(case: Case) -> None:
    check(case)


def test_the_gap_to_the_fluid_limit_shrinks_as_the_inverse_of_the_number_of_servers() -> None:
    # Row G24: T = 0.680754, busy shares 0.867619 and 0.766190, nobody waits. At 100 servers P(wait) is 0.127, at 400 it
    # is 0.031; 1% is allowed for their rounding.
    limit = {"sojourn_mean": 0.680754, WAIT: 0.0, "utilisation.slow": 0.867619, "utilisation.fast": 0.766190}
    small = simulated(two_pools(100, 100_000, expected={}))
    large = simulated(two_pools(400, 350_000, expected={}))
    compare("P(wait) at n = 100", small[WAIT], 0.127, error=0.03, bias=0.01)
    compare("P(wait) at n = 400", large[WAIT], 0.031, error=0.06, bias=0.01)
    for name in ("sojourn_mean", WAIT):
        ratio = (small[name].value - limit[name]) / (large[name].value - limit[name])
        # 4 if the gap is as 1/n, 2 if as 1/√n, 16 if as 1/n²; the ratio of two gaps has a standard error below 8%.
        assert 2.5 < ratio < 6.5, f"{name}: the gap shrinks by {ratio:.2f}"
    for name in ("utilisation.slow", "utilisation.fast"):
        assert abs(large[name].value - limit[name]) < abs(small[name].value - limit[name]) < 0.01


class Counted:
    """A core whose messages are counted."""

    def __init__(self, core: Any, sent: Counter[type]) -> None:
        self.core = core
        self._sent = sent

    def handle(self, event: Any, now: float) -> list[Any]:
        effects: list[Any] = self.core.handle(event, now)
        self._sent.update(type(effect) for effect in effects)
        return effects


@pytest.mark.parametrize("policy", [A, B, C])
@pytest.mark.parametrize("capacity", ["2", '"inf"'])
def test_pull_messages_are_what_jobs_were(policy: str, capacity: str) -> None:
    """The identities between messages and jobs, exact once everything has ended: nothing is in flight then."""
    pools = f'{{name = "a", servers = 5, capacity = {capacity}}}, {{name = "b", servers = 5, rate = 2.0, capacity = 2}}'
    scenario = scenario_of(Case("identity", policy, pools, "load = 0.8", {}, 5_000, more=routers(3)))
    sent: Counter[type] = Counter()
    watched: list[Counted] = []

    def count(core: Any) -> Counted:
        watched.append(Counted(core, sent))
        return watched[-1]

    run = simulate(scenario, wrap=count)
    routers_of = [w.core for w in watched if isinstance(w.core, RouterCore)]
    servers = [w.core for w in watched if isinstance(w.core, ServerCore)]
    jobs = len(run.records.intended)
    blocked = int((run.records.outcome == 1).sum())
    waited = int((run.records.waiting > 0.0).sum())
    random = sum(tally.fallbacks for core in routers_of for tally in core.tallies.values())
    outstanding = sum(server.pull_messages for server in servers)
    first = len(servers)  # the messages of the beginning, when all are idle

    # Each message is used by one job, taken back, or still out.
    assert sent[Pull] == (jobs - random) + sent[Withdraw] + outstanding
    if policy != B:
        # A server that falls idle posts one message, and it falls idle as often as a job finds it so.
        assert sent[Pull] - first == sum(server.started_at_once for server in servers) == jobs - waited - blocked
    if policy == A:
        # A random job waits, is blocked, or makes its server take a message back; a message leads to an idle server.
        assert random == waited + blocked + sent[Withdraw]
        assert outstanding == first
    else:
        assert sent[Withdraw] == 0
    if policy == B:
        assert outstanding <= first
    assert random > 0 and waited > 0 and blocked > 0
