"""A rate that changes: every policy then decides as if the server had joined with it, and forgets nothing."""

from __future__ import annotations

from typing import Any

import pytest

from router.policy import Assign, Job, Policy, Probe, Server
from tests.property.variants import build, label, tables

RATES = {"s-0": 1.0, "s-1": 2.0, "s-2": 3.0, "s-3": 5.0}
LATER = {"s-0": 8.0, "s-1": 0.25, "s-2": 3.0, "s-3": 4.0}


def told(policy: Policy, rates: dict[str, float]) -> list[Server]:
    """Servers that have joined, reported different lengths and asked for jobs."""
    servers = [Server(id, "pool", rate, 1, 9.0) for id, rate in rates.items()]
    for server in servers:
        policy.on_join(server)
    for place, server in enumerate(servers):
        server.outstanding = server.sent = server.view = (5, 1, 4, 2)[place]
        policy.on_report(server)
        policy.on_job_ended(server)
        if policy.needs.pull is not None and place:
            policy.on_pull(server, place)
    return servers


def decisions(policy: Policy, servers: list[Server]) -> list[Any]:
    """What it decides, one job after the other, if nothing else happens."""
    policy.rng.seed(11)
    found: list[Any] = []
    for job in range(100):
        decision = policy.on_arrival(Job(job))
        if isinstance(decision, Probe):
            asked = sorted(decision.servers, key=lambda server: server.id)
            found.append([server.id for server in asked])
            answers = [(server, 3 + (int(server.id[-1]) * 7 + job) % 4) for server in asked]
            decision = policy.on_reports(Job(job), answers)
        if isinstance(decision, Assign):
            found.append((decision.server.id, decision.number, decision.expected))
    return found


@pytest.mark.parametrize("table", tables(), ids=label)
def test_another_rate_is_as_good_as_having_joined_with_it(table: dict[str, Any]) -> None:
    changed, fresh = build(table), build(table)
    servers = told(changed, RATES)
    held = changed.held_total
    for server in servers:
        server.rate = LATER[server.id]
        changed.on_rate(server)
    assert changed.held_total == held
    assert decisions(changed, servers) == decisions(fresh, told(fresh, LATER))


@pytest.mark.parametrize(
    "table",
    [
        {"name": "sed"},
        {"name": "lsq", "rank": "joined"},
        {"name": "least_requests", "rank": "joined"},
        {"name": "weighted_random"},
        {"name": "pull", "order": "fastest"},
        {"name": "pull", "fallback": "weighted"},
        {"name": "pull", "fallback": "view"},
        {"name": "pull", "fallback": "least_requests"},
    ],
    ids=label,
)
def test_policies_that_look_at_rates_decide_otherwise_although_all_were_equal(table: dict[str, Any]) -> None:
    policy = build(table)
    servers = told(policy, dict.fromkeys(RATES, 1.0))
    for server in servers:
        server.view = server.outstanding = 2
        policy.on_report(server)
        policy.on_job_ended(server)
    servers[0].rate = 1e6
    policy.on_rate(servers[0])
    if policy.needs.pull is not None and table.get("order") == "fastest":
        policy.on_pull(servers[0], 7)
        assert decisions(policy, servers)[0] == ("s-0", 7, None)
        return
    chosen = [decision[0] for decision in decisions(policy, servers)][3:]  # the messages of the others come first
    assert set(chosen) == {"s-0"}
