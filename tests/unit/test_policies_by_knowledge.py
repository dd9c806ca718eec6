"""Policies that compare what they know: jsq, sed, power_of_d, max_vacancy, least_requests."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from scipy.stats import chisquare

from router.policy import Assign, Block, Fleet, Job, Policy, Probe, Server
from router.protocol.errors import SettingsError
from router.registry import make_parameters, make_policy

ALPHA = 0.001
INF = float("inf")


def server(id: str, rate: float = 1.0, capacity: float = INF, jobs: int | None = 0, slots: int = 1) -> Server:
    made = Server(id, "pool", rate, slots, capacity)
    made.view = jobs
    made.outstanding = jobs or 0
    return made


def policy_over(servers: list[Server], seed: int = 1, **table: Any) -> Policy:
    policy = make_policy(table, Random(seed))
    for one in servers:
        policy.on_join(one)
    return policy


def decide(policy: Policy) -> Assign | Block:
    """One decision; probes are answered with the truth in `view`."""
    decision = policy.on_arrival(Job(1))
    if isinstance(decision, Probe):
        decision = policy.on_reports(Job(1), [(one, one.view or 0) for one in decision.servers])
    return decision


def chosen(policy: Policy, picks: int = 1) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(picks):
        decision = decide(policy)
        found[decision.server.id if isinstance(decision, Assign) else "blocked"] += 1
    return found


# -- a host is never drawn twice, unless it may be -----------------------------------------------------


@pytest.mark.parametrize("name", ["power_of_d", "least_requests", "max_vacancy"])
def test_two_choices_of_two_never_take_the_busier_one(name: str) -> None:
    servers = [server("a", jobs=3, capacity=9), server("b", jobs=0, capacity=9)]
    assert chosen(policy_over(servers, name=name, d=2), 10_000) == {"b": 10_000}


@pytest.mark.parametrize("name", ["power_of_d", "least_requests", "max_vacancy"])
def test_with_replacement_both_draws_hit_the_busier_one_a_quarter_of_the_time(name: str) -> None:
    servers = [server("a", jobs=3, capacity=9), server("b", jobs=0, capacity=9)]
    picks = chosen(policy_over(servers, name=name, d=2, replacement=True), 10_000)
    # 1/2 · 1/2; standard error sqrt(.25 · .75 / 10000) = 0.0043
    assert picks["a"] / 10_000 == pytest.approx(0.25, abs=0.015)


@pytest.mark.parametrize("d", [5, 7])
@pytest.mark.parametrize("full", ["skip", "ignore"])
def test_d_of_all_is_the_same_as_jsq(d: int, full: str) -> None:
    rng = Random(2)
    for _ in range(300):
        servers = [server(f"s-{i}", jobs=rng.randrange(4), capacity=rng.choice([2, 3, INF])) for i in range(5)]
        of_d = policy_over(servers, name="power_of_d", d=d, full=full)
        jsq = policy_over(servers, name="jsq", full=full)
        least = policy_over(servers, name="least_requests", d=d, full=full)
        if full == "skip" and all((one.view or 0) >= one.capacity for one in servers):
            continue  # fresh answers block where a view, which may be stale, does not
        kinds = [set(chosen(policy, 60)) for policy in (of_d, jsq, least)]
        # 60 uniform draws among at most 5 that tie miss one with probability below 5 · (4/5)^60 = 8e-6
        assert kinds[0] == kinds[1] == kinds[2]


@pytest.mark.parametrize("name", ["jsq", "sed", "power_of_d", "least_requests", "max_vacancy"])
def test_of_two_equals_each_is_taken_half_of_the_time(name: str) -> None:
    picks = chosen(policy_over([server("a", capacity=9), server("b", capacity=9)], name=name), 10_000)
    assert picks["a"] / 10_000 == pytest.approx(0.5, abs=0.016)


def test_a_choice_without_a_tie_leaves_later_draws_alone() -> None:
    def log(extra: bool) -> list[Counter[str]]:
        servers = [*[server(f"s-{i}", jobs=1) for i in range(4)], server("z", jobs=5)]
        policy = policy_over(servers, name="jsq")
        found = []
        for _ in range(50):
            if extra:
                servers[4].view = 0
                policy.on_report(servers[4])
                assert chosen(policy) == {"z": 1}
                servers[4].view = 5
                policy.on_report(servers[4])
            found.append(chosen(policy))
        return found

    assert log(False) == log(True)


# -- what is measured ----------------------------------------------------------------------------------


def test_shortest_means_jobs_in_the_system_and_vacancy_means_vacancy() -> None:
    # A: 20 slots busy and 4 waiting; B: 30 busy and 1 waiting. By waiting B, by jobs in the system A (24 < 31).
    busy = [server("a", capacity=INF, jobs=24, slots=20), server("b", capacity=INF, jobs=31, slots=30)]
    for name in ("jsq", "power_of_d", "least_requests"):
        assert chosen(policy_over(busy, name=name)) == {"a": 1}
    # Capacities 20 and 30 with 15 and 28 jobs: vacancies 5 and 2.
    assert chosen(policy_over([server("a", capacity=20, jobs=15), server("b", capacity=30, jobs=28)],
                              name="max_vacancy")) == {"a": 1}  # fmt: skip
    # And where the larger vacancy has more jobs: 10 − 4 = 6 against 5 − 1 = 4.
    assert chosen(policy_over([server("a", capacity=10, jobs=4), server("b", capacity=5, jobs=1)],
                              name="max_vacancy")) == {"a": 1}  # fmt: skip


def test_sed_ranks_by_the_delay_of_a_job_that_joins() -> None:
    # (q + 1) / rate: slow 1/1, fast (q + 1)/4: the fast one with fewer than 3 jobs, a tie at 3, then the slow one.
    for jobs, expected in ((0, {"fast"}), (2, {"fast"}), (3, {"fast", "slow"}), (4, {"slow"})):
        servers = [server("slow", rate=1.0), server("fast", rate=4.0, jobs=jobs)]
        assert set(chosen(policy_over(servers, name="sed"), 40)) == expected
        fastest = policy_over(servers, name="sed", ties="fastest")
        assert chosen(fastest, 40) == {"slow" if jobs == 4 else "fast": 40}


def test_sed_present_treats_idle_servers_alike() -> None:
    servers = [server("slow", rate=1.0), server("fast", rate=4.0)]
    picks = chosen(policy_over(servers, name="sed", rank="present"), 2000)
    assert chisquare(list(picks.values())).pvalue > ALPHA and len(picks) == 2
    servers[1].view = 1  # 1/4 > 0
    assert chosen(policy_over(servers, name="sed", rank="present"), 20) == {"slow": 20}


def test_delays_that_are_equal_on_paper_tie() -> None:
    # 49 / 4.9 = 10 / 1 = 1 / 0.1: binary fractions would not agree.
    servers = [server("a", rate=4.9, jobs=48), server("b", rate=1.0, jobs=9), server("c", rate=0.1, jobs=0)]
    assert set(chosen(policy_over(servers, name="sed"), 100)) == {"a", "b", "c"}


def test_light_load_shares_of_two_speeds() -> None:
    # At load 0.05 nearly every job finds everyone idle: sed takes the fast pool, jsq takes both alike.
    servers = [server(f"f-{i}", rate=4.0) for i in range(2)] + [server(f"s-{i}", rate=1.0) for i in range(2)]
    assert set(chosen(policy_over(servers, name="sed"), 200)) == {"f-0", "f-1"}
    assert set(chosen(policy_over(servers, name="jsq"), 200)) == {"f-0", "f-1", "s-0", "s-1"}
    assert set(chosen(policy_over(servers, name="jsq", ties="fastest"), 200)) == {"f-0", "f-1"}


def test_max_vacancy_breaks_ties_over_servers_not_pools() -> None:
    servers = [server("a", capacity=5, jobs=1), *[server(f"b-{i}", capacity=10, jobs=6) for i in range(3)]]
    picks = chosen(policy_over(servers, name="max_vacancy", d="all"), 8000)
    assert len(picks) == 4 and chisquare(list(picks.values())).pvalue > ALPHA


# -- full servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jsq", "sed", "power_of_d", "least_requests"])
def test_a_server_known_to_be_full_is_skipped_or_not(name: str) -> None:
    servers = [server("small", capacity=1, jobs=1), server("large", capacity=9, jobs=5)]
    assert chosen(policy_over(servers, name=name), 20) == {"large": 20}
    assert chosen(policy_over(servers, name=name, full="ignore"), 20) == {"small": 20}


@pytest.mark.parametrize("name", ["jsq", "sed", "least_requests"])
def test_when_all_views_are_full_the_rule_goes_on_among_all(name: str) -> None:
    servers = [server("a", capacity=2, jobs=2), server("b", capacity=3, jobs=3), server("c", capacity=2, jobs=2)]
    assert set(chosen(policy_over(servers, name=name), 40)) == {"a", "c"}


def test_when_all_answers_are_full_the_job_is_lost() -> None:
    servers = [server("a", capacity=2, jobs=2), server("b", capacity=3, jobs=3)]
    assert chosen(policy_over(servers, name="power_of_d")) == {"blocked": 1}
    assert chosen(policy_over(servers, name="max_vacancy")) == {"blocked": 1}
    assert chosen(policy_over(servers, name="power_of_d", full="ignore")) == {"a": 1}


# -- what is not known ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jsq", "sed"])
def test_an_unknown_view_is_neither_empty_nor_full(name: str) -> None:
    servers = [server("known", jobs=7), server("unknown", jobs=None)]
    decision = decide(policy_over(servers, name=name))
    assert isinstance(decision, Assign) and (decision.server.id, decision.expected, decision.fallback) == (
        "known", 7, False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["jsq", "sed"])
def test_with_no_view_at_all_the_choice_is_uniform_and_says_so(name: str) -> None:
    policy = policy_over([server(f"s-{i}", jobs=None) for i in range(3)], name=name)
    decision = decide(policy)
    assert isinstance(decision, Assign) and decision.fallback and decision.expected is None
    picks = chosen(policy, 3000)
    assert len(picks) == 3 and chisquare(list(picks.values())).pvalue > ALPHA


def test_what_was_believed_is_said() -> None:
    for name in ("jsq", "sed", "power_of_d", "max_vacancy"):
        decision = decide(policy_over([server("a", capacity=9, jobs=4)], name=name))
        assert decision == Assign(decision.server, None, 4, False)  # type: ignore[union-attr]
    own = decide(policy_over([server("a", jobs=4)], name="least_requests"))
    assert isinstance(own, Assign) and own.expected is None  # own jobs are not the queue length


# -- jobs on their way ---------------------------------------------------------------------------------


def burst(name: str, jobs: int, count: int) -> list[int]:
    """Send a burst while no report comes; how many each server gets."""
    servers = [server(f"s-{i}") for i in range(count)]
    for one in servers:
        one.outstanding = 0
    policy = policy_over(servers, name=name)
    for _ in range(jobs):
        decision = decide(policy)
        assert isinstance(decision, Assign)
        decision.server.outstanding += 1
        decision.server.view = (decision.server.view or 0) + 1
        policy.on_sent(decision.server)
    return [one.outstanding for one in servers]


@pytest.mark.parametrize("name", ["jsq", "sed", "least_requests"])
def test_a_burst_is_spread_evenly_though_reports_are_late(name: str) -> None:
    assert burst(name, 800, 8) == [100] * 8


# -- memory --------------------------------------------------------------------------------------------


def test_the_shortest_that_was_seen_is_remembered_with_its_new_length() -> None:
    servers = [server("a", jobs=0), server("b", jobs=5), server("c", jobs=5)]
    policy = policy_over(servers, name="power_of_d", d=2, memory=1)
    while True:  # until a is drawn; then it has 1 and is remembered
        first = decide(policy)
        assert isinstance(first, Assign)
        if first.server.id == "a":
            break
    servers[0].view = 5  # what is remembered of it is 1, whatever it has now
    lengths = []
    for _ in range(3):
        decision = policy.on_arrival(Job(1))
        assert isinstance(decision, Probe)
        answers = [(one, 5) for one in decision.servers if one is not servers[0]]
        again = policy.on_reports(Job(1), answers)
        assert isinstance(again, Assign) and again.server.id == "a"
        lengths.append(again.expected)
    assert lengths == [1, 2, 3]


def test_a_server_that_left_is_not_remembered() -> None:
    servers = [server("a", jobs=0), server("b", jobs=5), server("c", jobs=5)]
    policy = policy_over(servers, name="power_of_d", d=3, memory=2)
    assert chosen(policy) == {"a": 1}
    policy.on_leave(servers[0])
    assert "a" not in chosen(policy, 50)


# -- parameters ----------------------------------------------------------------------------------------

FLEET = Fleet(["slow", "fast"], [2, 1], [1.0, 2.0], [1, 1], [INF, INF])


@pytest.mark.parametrize("name", ["power_of_d", "max_vacancy", "least_requests"])
def test_d_above_the_number_of_servers_is_refused_without_replacement(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_parameters({"name": name, "d": 5})[1].check(FLEET)
    assert str(caught.value) == "policy.d = 5, but there are 3 servers: choose d <= 3, or policy.replacement = true"
    make_parameters({"name": name, "d": 5, "replacement": True})[1].check(FLEET)
    make_parameters({"name": name, "d": 3})[1].check(FLEET)


def test_d_on_a_single_server() -> None:
    with pytest.raises(SettingsError, match=r"^policy.d = 2, but there is 1 server: choose d <= 1, or policy.repl"):
        make_parameters({"name": "power_of_d"})[1].check(Fleet(["p"], [1], [1.0], [1], [INF]))


def test_jsq_hears_of_changes_or_periodically() -> None:
    on_change = make_policy({"name": "jsq"}, Random(1)).needs.reports
    assert on_change is not None and on_change.change and on_change.every is None and on_change.to == "all"
    periodic = make_policy({"name": "jsq", "every": 2}, Random(1)).needs.reports
    assert periodic is not None and not periodic.change and periodic.every == 2.0
