"""What holds whatever the sizes, by counting: control messages per job, and what cannot happen at all."""

from __future__ import annotations

import math

from services.models.slotted import sampling_messages
from services.scenario import Scenario
from services.solver.solution import Prediction, Statement

SILENT = ("random", "weighted_random", "round_robin", "least_requests")
"""Policies for which servers send nothing."""

IDENTITY = Statement("identity", "counting", "messages arrive at once", exact=True)


def identities(scenario: Scenario) -> dict[str, Prediction]:
    """Predict what follows from counting alone, by quantity."""
    values: dict[str, float] = {}
    if scenario.patience is None:
        values["abandon_probability"] = 0.0
    if unlimited(scenario):
        values["block_probability"] = 0.0
    if all(pool.capacity == pool.slots for pool in scenario.pools):
        values |= {"wait_probability": 0.0, "waiting_mean": 0.0}
    if len(scenario.pools) == 1:
        values[f"job_share.{scenario.pools[0].name}"] = 1.0
    if scenario.faults:
        return IDENTITY.of(values)
    values["failed_probability"] = 0.0
    if scenario.policy_name in SILENT:
        values |= _messages() | {"dispatch.random": 0.0}
    elif scenario.run.time == "continuous":
        values |= _counted(scenario)
    else:
        values |= _counted_in_slots(scenario)
    return IDENTITY.of(values)


def unlimited(scenario: Scenario) -> bool:
    """Whether no server ever turns a job away."""
    return all(math.isinf(pool.capacity) for pool in scenario.pools)


def no_steady_state(scenario: Scenario) -> str | None:
    """Say so if more work comes than can be done, and nothing is ever turned away or leaves."""
    if not unlimited(scenario) or scenario.patience is not None or scenario.load < 1.0:
        return None
    return (
        f"load = {scenario.load:.6g}, and servers have unlimited room: queues grow for ever, there is no steady state"
    )


def _counted(scenario: Scenario) -> dict[str, float]:
    """Messages per job of the policies that probe, or hear of every change."""
    if scenario.policy_name in ("power_of_d", "max_vacancy"):
        asked = _different_servers(scenario)
        return _messages(probe=asked, report=asked)
    if scenario.policy_name in ("jsq", "sed"):
        return _reports(scenario)
    return _of_lsq(scenario) if scenario.policy_name == "lsq" else {}


def _of_lsq(scenario: Scenario) -> dict[str, float]:
    """Messages per job of LSQ, where they do not depend on how often servers become idle."""
    refresh, asked = scenario.parameter("refresh"), float(scenario.parameter("refresh_on_send"))
    if scenario.parameter("every") is not None:
        return {} if asked else _reports(scenario)
    if refresh == "sample":
        return {} if asked else _messages(probe=_different_servers(scenario), report=_different_servers(scenario))
    if refresh == "piggyback":
        return _messages(probe=asked, report=asked)
    if refresh in ("update", "smart") and scenario.parameter("p") == 1.0 and _all_leave(scenario):
        return _messages(probe=asked, report=1.0 + asked)
    return {}


def _counted_in_slots(scenario: Scenario) -> dict[str, float]:
    """Messages per job in slotted time, where a router asks once for a whole batch."""
    policy, total = scenario.policy_name, scenario.rate_total
    servers, routers, every = scenario.servers_total, scenario.routers.count, scenario.parameter("every")
    if scenario.parameter("refresh_on_send"):
        return {}
    if every is not None:  # at most once in a slot
        return _messages(report=servers * routers / (max(every, 1.0) * total))
    if policy in ("jsq", "sed", "power_of_d", "max_vacancy"):
        batches = [total * share for share in scenario.routers.shares]
        # 2 d P(batch > 0) / E batch per job of one router, and share of the jobs are that router's.
        asks = (
            sum(sampling_messages(1, 1, batch, asks_always=False) * batch for batch in batches if batch > 0.0) / total
        )
        asked = servers if policy in ("jsq", "sed") else _different_servers(scenario)
        return _messages(probe=asked * asks / 2.0, report=asked * asks / 2.0)
    if policy == "lsq" and scenario.parameter("refresh") == "sample":
        asked = _different_servers(scenario) * sampling_messages(1, 1, total / routers, asks_always=True)
        return _messages(probe=asked / 2.0, report=asked / 2.0)
    if policy == "lsq" and scenario.parameter("refresh") == "piggyback":
        return _messages()
    return {}


def _reports(scenario: Scenario) -> dict[str, float]:
    """Reports to every router, on each change or periodic."""
    every, routers = scenario.parameter("every"), scenario.routers.count
    if every is None:
        return _messages(report=2.0 * routers) if _all_leave(scenario) else {}  # each job comes once and leaves once
    if not _rate_known(scenario):
        return {}
    return _messages(report=scenario.servers_total * routers / (every * scenario.rate_total))


def _all_leave(scenario: Scenario) -> bool:
    """Whether in the long run as many jobs leave servers as arrive."""
    return unlimited(scenario) and _rate_known(scenario) and no_steady_state(scenario) is None


def _rate_known(scenario: Scenario) -> bool:
    return getattr(scenario.arrivals, "speedup", None) is None  # otherwise the trace decides


def _different_servers(scenario: Scenario) -> float:
    """The mean number of different servers that a job asks about."""
    servers, d = scenario.servers_total, scenario.parameter("d")
    if d == "all":
        return float(servers)
    if scenario.parameter("replacement"):
        return float(servers * (1.0 - (1.0 - 1.0 / servers) ** d))
    return float(d)


def _messages(**sent: float) -> dict[str, float]:
    every_kind = dict.fromkeys(("pull", "withdraw", "probe", "report"), 0.0) | sent
    return {f"messages.{kind}": number for kind, number in (every_kind | {"total": sum(sent.values())}).items()}
