"""Slotted time: the order of a slot, what routers know, and what is counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from router.protocol.errors import LocalProtocolError
from router.registry import policy_names
from services.loadgen.workload import Workload, draw_workload
from services.measure.quantities import Window, measure
from services.measure.records import Run
from services.scenario import Scenario, parse_scenario
from services.simulator.network import Delays
from services.simulator.run import simulate
from services.simulator.slotted import capacities, capacity_stream

TEXT = """
name = "slots"
seed = 3
routers = {count = 3}
pools = [{name = "fast", servers = 3, rate = 2.0}, {name = "slow", servers = 3, rate = 0.5}]
arrivals = {load = 0.8}
run = {warmup = 0, duration = 400, time = "slotted"}
"""
LSQ = 'name = "lsq"'


def scenario_of(policy: str, *overrides: str) -> Scenario:
    return parse_scenario(f"policy = {{{policy}}}{TEXT}", "x.toml", overrides)


def jobs(*batches: Sequence[int]) -> Workload:
    """The routers of the jobs of each slot."""
    slots = [slot + 0.5 for slot, batch in enumerate(batches) for _ in batch]
    routers = [router for batch in batches for router in batch]
    count = len(slots)
    return Workload(np.array(slots), np.array(routers, np.int64), np.ones(count), np.full(count, np.nan))


def messages(run: Run, kind: str) -> int:
    """How many of a kind were sent in all slots."""
    return int(run.messages.counts[kind][-1])


def router_slots(run: Run) -> int:
    """Slots that bring a router jobs, added up over the routers."""
    return len(set(zip(run.records.intended.tolist(), run.records.router.tolist(), strict=True)))


def completions(run: Run, slots: int) -> set[tuple[int, int]]:
    """In which slots which servers served something."""
    ended = (run.records.ended - 1).astype(int)
    return {(slot, server) for slot, server in zip(ended, run.records.server, strict=True) if slot < slots}


# -- the order of a slot -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ['name = "weighted_random"', LSQ, 'name = "pull", fallback = "weighted"'])
def test_queues_follow_the_recursion_and_jobs_their_order(policy: str) -> None:
    scenario = scenario_of(policy)
    run = simulate(scenario)
    records = run.records
    rates = np.array([spec.rate for spec in scenario.server_specs()])
    waiting: dict[int, list[int]] = defaultdict(list)
    ended: dict[int, int] = {}
    lengths = []
    for slot, capacity in enumerate(capacities(rates, 400, capacity_stream(scenario))):
        lengths.append(sum(map(len, waiting.values())))  # read first
        for job in np.flatnonzero(records.intended == slot).tolist():
            waiting[int(records.server[job])].append(job)
        for server, queue in waiting.items():  # served last, this slot's jobs included
            for job in queue[: capacity[server]]:
                ended[job] = slot - int(records.intended[job]) + 1
            del queue[: capacity[server]]
    sojourn = records.ended - records.intended
    assert {job: sojourn[job] for job in ended} == ended
    assert 0 < sum(map(len, waiting.values())) < 100  # left over, and served later
    left = np.setdiff1d(np.arange(len(sojourn)), list(ended))
    assert (records.ended[left] > 400).all()
    mean = measure(run, Window(0.0, 400.0, 1))["jobs_in_system_mean"]
    assert float(mean.value) == pytest.approx(np.mean(lengths), rel=1e-12)


def test_what_is_left_over_ends_at_the_pace_of_its_server() -> None:
    # 3000 jobs come at once, in the only slot; a server of rate 2 needs half a slot for each: 1500 ± √(3000 · 0.75),
    # as the slots that end before a service number 1/2 on average, with variance (1/2)(1 + 1/2).
    overrides = ("pools=[{name = 'a', servers = 1, rate = 2.0}]", "run.duration=1")
    records = simulate(scenario_of('name = "random"', *overrides), jobs([0] * 3000)).records
    assert (np.diff(records.ended) >= 0).all() and records.ended[0] < 50
    assert abs(records.ended[-1] - 1500) < 5 * (3000 * 0.75) ** 0.5


def test_capacities_are_geometric() -> None:
    scenario = scenario_of('name = "random"')
    drawn = np.array(list(capacities(np.array([2.0, 0.25]), 20_000, capacity_stream(scenario))))
    # Mean μ, variance μ(1 + μ): standard errors 0.0173 and 0.004. P(0) = 1/(1 + μ).
    assert drawn.mean(axis=0) == pytest.approx([2.0, 0.25], abs=0.085)
    assert (drawn == 0).mean(axis=0) == pytest.approx([1 / 3, 0.8], abs=0.017)


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_runs_in_slots_and_the_same_seed_gives_the_same(name: str) -> None:
    scenario = scenario_of(f'name = "{name}"', "run.duration=100")
    workload = draw_workload(scenario)
    one, same, other = (simulate(scenario, workload, replication=number) for number in (0, 0, 1))
    assert len(one.records.ended) == len(workload.instants) and np.isfinite(one.records.ended).all()
    assert (one.records.ended > one.records.intended).all()
    assert (one.records.server == same.records.server).all() and (one.records.ended == same.records.ended).all()
    assert (one.records.server != other.records.server).any()


def test_there_is_no_network_in_slots() -> None:
    with pytest.raises(LocalProtocolError, match=r"^slotted time: there are no "):
        simulate(scenario_of(LSQ), delays=Delays(router_server=1.0))


# -- what routers know -------------------------------------------------------------------------------


def test_routers_do_not_see_what_others_send_in_the_same_slot() -> None:
    # All idle, ties to the fast ones: each router sends its two jobs to different fast servers, as if it were alone.
    run = simulate(scenario_of('name = "sed", ties = "fastest"'), jobs([0, 1, 2, 0, 1, 2]))
    assert set(run.records.server) <= {0, 1, 2}
    for router in range(3):
        assert len(set(run.records.server[run.records.router == router])) == 2


def test_whole_batches_go_to_one_server_and_split_ones_to_as_many_as_they_can() -> None:
    batch = jobs([0] * 5)
    assert len(set(simulate(scenario_of(f'{LSQ}, batch = "whole"'), batch).records.server)) == 1
    assert len(set(simulate(scenario_of(f'{LSQ}, batch = "split"'), batch).records.server)) == 5


def test_two_choices_are_two_for_the_whole_batch() -> None:
    servers = Counter(simulate(scenario_of('name = "power_of_d"'), jobs([0] * 8)).records.server.tolist())
    assert sorted(servers.values()) == [4, 4]


def test_pull_messages_serve_a_job_each_or_are_spread() -> None:
    # One router holds the messages of all six servers.
    for batch, fallbacks in (("single", 4), ("spread", 0)):
        run = simulate(scenario_of(f'name = "pull", batch = "{batch}"', "routers.count=1"), jobs([0] * 10))
        servers = Counter(run.records.server.tolist())
        assert len(servers) == 6 and run.records.fallback.sum() == fallbacks
        if batch == "spread":
            assert sorted(servers.values()) == [1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    "policy",
    [
        LSQ,
        f'{LSQ}, refresh = "smart"',
        f'{LSQ}, refresh = "piggyback"',
        f'{LSQ}, refresh = "sample", d = 6',
        f"{LSQ}, every = 1.0",
        'name = "jsq"',
        'name = "jsq", every = 1.0',
        'name = "power_of_d"',
    ],
)
def test_a_lone_router_that_hears_of_every_service_knows_the_truth(policy: str) -> None:
    run = simulate(scenario_of(policy, "routers.count=1"))
    assert not run.records.stale.any()


@pytest.mark.parametrize("policy", [LSQ, f'{LSQ}, refresh = "idle"', f"{LSQ}, every = 5.0"])
def test_whoever_hears_less_is_wrong_at_times(policy: str) -> None:
    run = simulate(scenario_of(policy))
    assert 0.05 < run.records.stale.mean() < 0.9


def test_asking_whom_one_sends_to_keeps_a_lone_router_closer_to_the_truth() -> None:
    wrong = [
        simulate(scenario_of(f'{LSQ}, refresh = "idle", refresh_on_send = {value}', "routers.count=1")).records.stale
        for value in ("true", "false")
    ]
    assert wrong[0].mean() < 0.8 * wrong[1].mean()


# -- what is counted ---------------------------------------------------------------------------------


def test_asking_costs_two_messages_a_server() -> None:
    routers, slots, servers = 3, 400, 6
    for policy in ('name = "jsq"', 'name = "sed"'):
        run = simulate(scenario_of(policy))
        assert messages(run, "probe") == messages(run, "report") == servers * router_slots(run)
    run = simulate(scenario_of('name = "power_of_d", d = 3'))
    assert messages(run, "probe") == messages(run, "report") == 3 * router_slots(run)
    run = simulate(scenario_of(f'{LSQ}, refresh = "sample", d = 2'))
    assert messages(run, "probe") == messages(run, "report") == 2 * routers * slots
    run = simulate(scenario_of(f"{LSQ}, every = 5.0"))
    assert (messages(run, "probe"), messages(run, "report")) == (0, routers * servers * (slots // 5 - 1))


@pytest.mark.parametrize("refresh", ["update", "smart"])
def test_an_update_is_one_report_for_each_slot_in_which_a_server_completes_jobs(refresh: str) -> None:
    run = simulate(scenario_of(f'{LSQ}, refresh = "{refresh}"'))
    assert messages(run, "report") == len(completions(run, 400))
    assert messages(run, "probe") == messages(run, "pull") == 0
    half = simulate(scenario_of(f'{LSQ}, refresh = "{refresh}", p = 0.5'))
    idle = simulate(scenario_of(f'{LSQ}, refresh = "{refresh}", p = 0.0'))
    assert messages(idle, "report") < messages(half, "report") < len(completions(half, 400))


def test_idle_reports_and_pull_messages_come_when_a_slot_ends_empty() -> None:
    for policy, kind, first in ((f'{LSQ}, refresh = "idle"', "report", 0), ('name = "pull"', "pull", 6)):
        run = simulate(scenario_of(policy))
        arrived = Counter(zip(run.records.intended.astype(int), run.records.server, strict=True))
        left = Counter(zip(run.records.ended.astype(int) - 1, run.records.server, strict=True))
        ends_empty = 0
        for server in range(6):
            length = 0
            for slot in range(400):
                length += arrived[slot, server] - left[slot, server]
                ends_empty += length == 0 and left[slot, server] > 0
        assert messages(run, kind) == ends_empty + first


def test_pull_messages_are_used_taken_back_or_still_out() -> None:
    for stale in ("withdraw", "keep", "duplicate"):
        run = simulate(scenario_of(f'name = "pull", stale = "{stale}", fallback = "weighted"'))
        used = len(run.records.fallback) - int(run.records.fallback.sum())
        out = messages(run, "pull") - messages(run, "withdraw") - used
        assert 0 <= out <= (6 if stale != "duplicate" else messages(run, "pull"))
        assert (messages(run, "withdraw") > 0) == (stale == "withdraw")


def test_measures_of_slotted_time() -> None:
    scenario = scenario_of('name = "weighted_random"', "run.duration=20000", "run.warmup=1000")
    run = simulate(scenario)
    found = {name: quantity.value for name, quantity in measure(run, Window(1000.0, 21000.0, 40)).items()}
    # A geometric capacity has no memory: whatever the policy, a slot starts with jobs as often as capacity is used.
    assert found["utilisation.fast"] == pytest.approx(0.8, abs=0.015)
    assert found["utilisation.slow"] == pytest.approx(0.8, abs=0.03)
    assert found["waiting_mean"] == pytest.approx(found["sojourn_mean"] - 1, rel=1e-12)
    # Little's law, to within what is there when the window begins and ends.
    assert found["jobs_in_system_mean"] == pytest.approx(6.0 * found["waiting_mean"], rel=0.02)
    assert found["sojourn_p50"] >= 1 and found["block_probability"] == 0
