"""LSQ: a local view, and the ways to refresh it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from scipy.stats import chisquare

from router.core import JobArrived, RouterCore, ServerJoined
from router.policy import Assign, Fleet, Job, Policy, Server
from router.protocol.errors import SettingsError
from router.protocol.messages import Dispatch, Probe, Report
from router.protocol.needs import ReportNeeds
from router.registry import make_parameters, make_policy

ALPHA = 0.001


def lsq_over(servers: list[Server], seed: int = 1, **parameters: Any) -> Policy:
    policy = make_policy({"name": "lsq", **parameters}, Random(seed))
    for server in servers:
        policy.on_join(server)
    return policy


def fleet(count: int = 4) -> list[Server]:
    return [Server(f"s-{i}", "pool", 1.0 + i, 1, 9.0) for i in range(count)]


def assigned(policy: Policy) -> Assign:
    decision = policy.on_arrival(Job(1))
    assert isinstance(decision, Assign) and not decision.fallback
    return decision


def test_a_newcomer_counts_as_empty_but_for_own_jobs() -> None:
    known, new = fleet(2)
    known.view = 1
    policy = lsq_over([known, new])
    assert assigned(policy)[:3] == (new, None, 0)
    new.outstanding = 2
    policy.on_sent(new)
    assert assigned(policy)[:3] == (known, None, 1)


@pytest.mark.parametrize(
    ("parameters", "reports"),
    [
        ({}, ReportNeeds(departure=1.0, idle=True, to="one")),
        ({"p": 0.25}, ReportNeeds(departure=0.25, idle=True, to="one")),
        ({"refresh": "idle"}, ReportNeeds(idle=True, to="one")),
        ({"refresh": "smart", "p": 0.5}, ReportNeeds(departure=0.5, idle=True, to="most_wrong")),
        ({"refresh": "piggyback"}, ReportNeeds(on_end=True)),
        ({"refresh": "sample"}, None),
        ({"every": 3.0}, ReportNeeds(every=3.0)),
    ],
)
def test_needs_say_how_the_view_is_refreshed(parameters: dict[str, Any], reports: ReportNeeds | None) -> None:
    needs = lsq_over([], **parameters).needs
    assert needs.reports == reports and needs.pull is None
    assert needs.probes == (parameters.get("refresh") == "sample")


def test_samples_are_asked_after_the_dispatch_and_only_refresh_the_view() -> None:
    core = RouterCore("r", lsq_over([], refresh="sample", d=2, refresh_on_send=True))
    servers = fleet(4)
    for server in servers:
        core.handle(ServerJoined(server), 0.0)
    for job in range(40):
        dispatch, *probes = core.handle(JobArrived(Job(job)), 0.0)
        assert isinstance(dispatch, Dispatch)
        asked = [probe.server for probe in probes if isinstance(probe, Probe)]
        assert len(asked) == len(probes) == len(set(asked)) and dispatch.server in asked and len(asked) in (2, 3)
        for id in asked:
            sent = core.servers[id].sent  # and 40: no server has fewer jobs than ours that are there
            assert core.handle(Report(id, "r", 40, sent, job), 0.0) == []
            assert core.servers[id].view == 40
    assert core.in_system == len(core.in_flight) == 40
    assert core.tally.probes > 80


def test_samples_are_uniform_or_in_proportion_to_rate() -> None:
    # Rates 1, 2, 3, 4 and d = 1.
    for weighted, shares in ((False, [0.25] * 4), (True, [0.1, 0.2, 0.3, 0.4])):
        policy = lsq_over(fleet(), refresh="sample", d=1, weighted=weighted)
        picks = Counter(assigned(policy).refresh[0].id for _ in range(8000))
        assert chisquare([picks[f"s-{i}"] for i in range(4)], [8000 * share for share in shares]).pvalue > ALPHA
    many = lsq_over(fleet(), refresh="sample", d=3, weighted=True)
    assert all(len(set(assigned(many).refresh)) == 3 for _ in range(100))


def test_samples_by_rate_end_however_unequal_the_rates_are() -> None:
    # Two of rate 1 beside one of rate a billion: it is always drawn, and each of the two half of the time.
    servers = [Server(f"s-{i}", "pool", rate, 1, 9.0) for i, rate in enumerate((1e9, 1.0, 1.0))]
    policy = lsq_over(servers, refresh="sample", d=2, weighted=True)
    picks = Counter(server.id for _ in range(1000) for server in assigned(policy).refresh)
    assert picks["s-0"] == 1000 and picks["s-1"] + picks["s-2"] == 1000
    assert chisquare([picks["s-1"], picks["s-2"]]).pvalue > ALPHA


def test_more_samples_than_servers_are_refused() -> None:
    few = Fleet(["p"], [2], [1.0], [1], [9.0])
    with pytest.raises(SettingsError, match=r"^policy.d = 3, but there are 2 servers: choose d <= 2"):
        make_parameters({"name": "lsq", "refresh": "sample", "d": 3})[1].check(few)
    make_parameters({"name": "lsq", "d": 3})[1].check(few)  # nothing is sampled
