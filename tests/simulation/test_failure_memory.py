"""Sinks in virtual time: retries hide them, a run tells of them, and nothing is miscounted meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from router.protocol.messages import OUTCOMES
from services.measure.records import Records
from services.measure.sinkholes import sinkholes
from services.scenario import Scenario, parse_scenario
from services.simulator.network import Delays
from services.simulator.run import simulate
from tests.swarm.story import Story
from tests.swarm.watchers import Watchers

FAILED = OUTCOMES.index("failed")
SINK = 2  # the place of a-3
MEMORY = "memory = {failures = 3, forgive = 10, longest = 40, hang = 8}"


def scenario(policy: str, routers: str, kind: str = "", duration: float = 400.0) -> Scenario:
    """Ten servers at load 0.6; the third one is faulty from 100 to 250."""
    faults = [
        f'[[faults]]\nat = {at}\nkind = "{what}"\ntarget = "a-3"\n'
        for at, what in ((100, kind), (250, "resume"))
        if kind
    ]
    text = f"""
name = "sink"
seed = 4
[policy]
{policy}
[routers]
count = 2
{routers}
[[pools]]
name = "a"
servers = 10
[arrivals]
load = 0.6
[run]
warmup = 0
duration = {duration}
{"".join(faults)}"""
    return parse_scenario(text, "sink.toml")


def window(records: Records, begin: float, end: float) -> Records:
    rows = (records.intended >= begin) & (records.intended < end)
    return Records(**{name: getattr(records, name)[rows] for name in Records.__dataclass_fields__})


def test_with_one_retry_nobody_notices() -> None:
    records = simulate(scenario('name = "pull"', f"{MEMORY}\nretries = 1", "fail")).records
    assert not (records.outcome == FAILED).any()
    assert not (window(records, 100.0, 250.0).server == SINK).any()


@pytest.mark.parametrize("stale", ["ignore", "average", "full"])
@pytest.mark.parametrize("policy", ['name = "jsq"', 'name = "lsq"', 'name = "pull"\nfallback = "view"'])
def test_nothing_is_miscounted_while_servers_are_set_aside_for_no_good_reason(policy: str, stale: str) -> None:
    # At load 0.6 a job is often there for 2 time units, so servers are set aside and let back all the time.
    routers = f'retries = 1\nmemory = {{hang = 2.0, forgive = 1.0}}\nstale_after = 1.5\nstale = "{stale}"'
    run = scenario(policy, routers, duration=25.0)
    watchers = Watchers(run, Story(told=True))
    simulate(run, wrap=watchers.watch)
    watchers.finish()
    assert sum(router.core.members.set_aside_total["hung"] for router in watchers.routers) > 10
    assert sum(server.quiet_points for server in watchers.servers) > 500


def test_a_run_tells_of_a_sinkhole_though_no_memory_was_asked_for() -> None:
    run = simulate(scenario('name = "pull"', "", "fail"))
    [found] = sinkholes(run)
    failed = int((run.records.outcome == FAILED).sum())
    assert (found.server, found.failed) == ("a-3", failed) and failed > 50
    assert "a-3 failed" in found.sentence() and "routers.memory" in found.sentence()
    # Tried again elsewhere, and served: what the records tell is well, but it draws jobs all the same.
    [hidden] = sinkholes(simulate(scenario('name = "pull"', "retries = 1", "fail")))
    assert hidden.server == "a-3" and hidden.failed > 50 and hidden.share > 0.1
    peaceful = simulate(scenario('name = "pull"', "", duration=100.0))
    assert sinkholes(peaceful) == []


def test_servers_that_fail_alike_are_no_sinkholes() -> None:
    run = simulate(scenario('name = "pull"', "", "fail"))
    rng = np.random.default_rng(5)
    run = replace(run, failed={})
    run.records.faulted[:] = rng.random(len(run.records.faulted)) < 0.2
    assert sinkholes(run) == []


def test_a_server_that_drains_is_no_sinkhole() -> None:
    # Jobs last for 5 time units, so it is there for long. What its router sends until it knows finds it draining.
    text = """
name = "drain"
policy.name = "random"
arrivals.rate_total = 15.0
run = {warmup = 0, duration = 60}
pools = [{name = "a", servers = 3, rate = 0.2, slots = 50, processes = 3}]
faults = [{at = 20, kind = "drain", target = "servers-a-1"}]
"""
    run = simulate(parse_scenario(text, "drain.toml"), delays=Delays(0.0, 2.0, 2.0, 0.0))
    # 15 / 3 = 5 jobs a time unit, for 4 of them: 20, with a standard deviation of 4.5.
    turned_away = (run.records.outcome == FAILED) & (run.records.server == 0)
    assert turned_away.sum() > 10 and sinkholes(run) == []
