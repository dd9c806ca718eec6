"""Servers that fail, hang or are slow, under every policy that there is: what they get, and that they are forgiven.

Ten equal servers are offered half of what they can serve: 5 jobs a time unit, by two routers. One of them misbehaves
for 200 time units. As they are equal each gets a tenth of the jobs while nothing is wrong, whatever the policy.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from router.core import RouterCore
from router.registry import make_policy, policy_names
from services.measure.records import Flags, Records
from services.scenario import parse_scenario
from services.simulator.run import simulate

ROUTERS = 2
FAULTY = 2  # the place of a-3
BEGIN, END = 100.0, 300.0
AFTER = 400.0
"""For so long the share of the server is looked at when it must have been forgiven."""

FAILURES, FORGIVE, LONGEST = 3, 10.0, 40.0
FAILED = f"memory = {{failures = {FAILURES}, forgive = {FORGIVE}, longest = {LONGEST}}}"
HANG, HANG_FORGIVE, HANG_LONGEST = 16.0, 60.0, 120.0
HUNG = f"memory = {{forgive = {HANG_FORGIVE}, longest = {HANG_LONGEST}, hang = {HANG}}}"

every_policy = pytest.mark.parametrize("policy", policy_names())


def looks(policy: str) -> bool:
    """Whether it decides by what is known of queues: by messages, or by a router's own jobs."""
    needs = make_policy({"name": policy}, Random(0)).needs
    return policy == "least_requests" or bool(needs.pull or needs.reports or needs.probes)


def run(policy: str, memory: str, fault: str, duration: float) -> tuple[Records, Counter[str]]:
    """The jobs, and how often routers set a server aside, by reason."""
    text = f"""
name = "misbehaving"
seed = 4
policy.name = "{policy}"
arrivals.load = 0.5
run = {{warmup = 0, duration = {duration}}}
[routers]
count = {ROUTERS}
{memory}
[[pools]]
name = "a"
servers = 10
capacity = 20
[[faults]]
at = {BEGIN}
target = "a-3"
{fault}
[[faults]]
at = {END}
target = "a-3"
kind = "resume"
"""
    routers: list[RouterCore] = []

    def keep(core: Any) -> Any:
        if isinstance(core, RouterCore):
            routers.append(core)
        return core

    records = simulate(parse_scenario(text, "misbehaving.toml"), wrap=keep).records
    asides: Counter[str] = Counter()
    for router in routers:
        asides.update(router.members.set_aside_total)
    return records, asides


def between(records: Records, begin: float, end: float) -> Flags:
    return (records.intended >= begin) & (records.intended < end)


def check_fair(records: Records, begin: float, end: float) -> None:
    """A tenth of n jobs, give or take four standard deviations of independent draws; who looks at queues errs less."""
    there = between(records, begin, end)
    jobs, own = there.sum(), (there & (records.server == FAULTY)).sum()
    assert abs(own - jobs / 10) < 4 * np.sqrt(jobs * 0.1 * 0.9)


def check_forgiven(records: Records, by: float) -> None:
    """Both routers use the server again, and as they did before."""
    check_fair(records, 0.0, BEGIN)
    check_fair(records, by, by + AFTER)
    # A router has 2.5 jobs a time unit: with a tenth of them it sends none within 40 with a probability of e^-10.
    for router in range(ROUTERS):
        assert (between(records, by, by + 40.0) & (records.server == FAULTY) & (records.router == router)).any()


# -- fails each job at once ------------------------------------------------------------------------


def trials(lasts: float) -> int:
    """How often a server that fails is let back within a time, at the most: each pause is twice the one before."""
    pauses = [min(FORGIVE * 2.0**number, LONGEST) for number in range(100)]
    return int((np.cumsum(pauses) < lasts).sum())


def test_a_server_that_always_fails_has_few_trials() -> None:
    # After 10, 30, 70, 110, 150 and 190.
    assert trials(END - BEGIN) == 6


@every_policy
def test_a_server_that_fails_fast_gets_few_jobs_and_is_forgiven(policy: str) -> None:
    by = END + LONGEST  # nobody is set aside for longer
    failed = {}
    for memory in ("", FAILED):
        records, _ = run(policy, memory, 'kind = "fail"', by + AFTER)
        own = records.server == FAULTY
        # What it had before it still serves, and is thought well of; from then on it does nothing but fail.
        before = own & (records.intended < BEGIN)
        since = max(BEGIN, records.ended[before].max())
        assert since < BEGIN + 20.0
        failed[memory] = int((own & between(records, since, END)).sum())
    # A router learns by so many failures in a row, and later by one a trial: 18 of 1,000 jobs, where 100 would be fair.
    most = ROUTERS * (FAILURES + trials(END - since))
    assert failed[FAILED] <= most <= 18
    assert failed[""] > 3 * most
    if looks(policy):  # it seems to be idle
        assert failed[""] > between(records, since, END).sum() / 10
    check_forgiven(records, by)


# -- takes jobs and ends none ----------------------------------------------------------------------


@every_policy
def test_a_server_that_hangs_gets_nothing_once_it_is_found_and_is_forgiven(policy: str) -> None:
    by = END + HANG_LONGEST
    absorbed = {}
    for memory in ("", HUNG):
        records, _ = run(policy, memory, 'kind = "hang"', by + AFTER)
        meanwhile = between(records, BEGIN, END)
        own = meanwhile & (records.server == FAULTY)
        absorbed[memory] = int(own.sum())
        fair = meanwhile.sum() / 10
    for router in range(ROUTERS):
        # It is looked at four times within `hang`: with a job there, it is found within 1.25 times that. Then it gets
        # nothing until its time aside is over, and so on: each stretch of jobs is short, and each pause twice as long.
        left, pause = records.intended[own & (records.router == router)], HANG_FORGIVE
        while len(left):
            stretch = left[left <= left[0] + 1.25 * HANG]
            left = left[len(stretch) :]
            assert not len(left) or left[0] >= stretch[-1] + pause
            pause = min(2 * pause, HANG_LONGEST)
    # Found at 100 at the earliest, tried from 160 to 176, found again, tried from 296 on: those who do not look send
    # for some 20, 20 and 4 of 200 time units, and six jobs that begin a stretch. Half of what is fair is well above.
    assert absorbed[HUNG] < 0.5 * fair
    if not looks(policy):
        assert absorbed[""] > 0.6 * fair
    check_forgiven(records, by)


# -- takes five times as long ----------------------------------------------------------------------


@every_policy
def test_a_slow_server_is_not_set_aside_and_gets_less_of_those_who_look(policy: str) -> None:
    slow = 'kind = "slow"\nfactor = 5'
    records, asides = run(policy, FAILED, slow, END + AFTER)
    without, _ = run(policy, "", slow, END + AFTER)
    assert not asides.total()
    np.testing.assert_array_equal(records.server, without.server)
    np.testing.assert_array_equal(records.ended, without.ended)
    if looks(policy):
        # It can serve one job in 5 time units: 40 of the 1,000 that come. No more than 20 can be waiting for it then.
        meanwhile = between(records, BEGIN, END)
        assert (meanwhile & (records.server == FAULTY)).sum() < 0.06 * meanwhile.sum()
    else:
        check_fair(records, BEGIN, END)


@every_policy
def test_a_slow_server_is_set_aside_when_its_jobs_are_there_for_longer_than_a_hang(policy: str) -> None:
    records, asides = run(policy, HUNG, 'kind = "slow"\nfactor = 100', END + AFTER)
    # A service of 100 on average is not over within 20, by when it is seen, with a probability of e^-0.2 = 0.82 each.
    assert asides["hung"] > 0 == asides["failed"]
    # Almost as if it hung, but two of its jobs may end meanwhile, and each lets it back at its router: 12 jobs more.
    meanwhile = between(records, BEGIN, END)
    assert (meanwhile & (records.server == FAULTY)).sum() < 0.75 * meanwhile.sum() / 10
