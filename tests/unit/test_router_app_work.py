"""The router's process at work: policy switches, probes and their time limit, metrics, and the end."""

from __future__ import annotations

import asyncio
import json
import socket
from random import Random
from time import monotonic

import pytest

from router.app.counts import Counts
from router.app.driver import RouterDriver
from router.app.main import run
from router.app.settings import RouterSettings
from router.core import RouterCore
from router.events import JobArrived
from router.policy import Job
from router.protocol.messages import Dispatch, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds
from router.protocol.notices import NewNeeds
from router.protocol.timer import StartTimer
from router.registry import make_policy, policy_names
from tests.unit.router_peers import running, served, until

# -- policies --------------------------------------------------------------------------------------


async def test_the_policy_in_force_is_shown_and_switched():
    async with running({"name": "power_of_d", "d": 3}) as router:
        shown = await router.get("/v1/policy")
        assert (shown["name"], shown["d"]) == ("power_of_d", 3)
        async with router.client.put("/v1/policy", json={"name": "power_of_d", "replacement": True}) as response:
            assert response.status == 200
            shown = await response.json()
        assert (shown["name"], shown["d"], shown["replacement"]) == ("power_of_d", 2, True)
        assert await router.get("/v1/policy") == shown
        assert (await router.metrics())["policy", "power_of_d"] == 1


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        (b'{"name": "fastest_first"}', 400, "settings", "jsq"),  # the known ones are listed
        (b'{"d": 3}', 400, "settings", "policy.name is missing"),
        (b'{"name": "power_of_d", "d": 0}', 400, "settings", "policy.d = 0"),
        (b'{"name": "power_of_d", "weight": 1}', 400, "settings", "policy.weight"),
        (b'{"name": "pull", "announce_at": 9223372036854775808}', 400, "settings", "to 9223372036854775807"),
        (b'{"name": "pull", "k": 18446744073709551616}', 400, "settings", "to 9223372036854775807"),
        (b'{"name": "jsq", "every": 1e-9}', 400, "settings", "at least 0.001 s"),  # servers would cut the link
        (b'["pull"]', 400, "settings", "found ['pull']"),
        (b"", 400, "json", "not valid JSON"),
        (b" " * (65 << 10), 413, "too_long", "65536"),
    ],
)
async def test_a_policy_that_does_not_exist_is_refused_and_the_old_one_stays(body, status, kind, says):
    async with running("random") as router:
        servers = await router.link("slow-1")
        async with router.client.put("/v1/policy", data=body) as response:
            assert response.status == status
            error = (await response.json())["error"]
        assert error["kind"] == kind
        assert says in error["message"]
        assert await router.get("/v1/policy") == {"name": "random"}
        posted = router.post()
        await servers.dispatch()  # the first thing that servers hear: nobody told them of other needs
        posted.cancel()


async def test_servers_hear_of_new_needs_behind_the_old_policys_dispatches_and_before_the_new_ones():
    async with running("random") as router:
        servers = await router.link("slow-1")
        assert servers.welcome.needs == Needs()
        generator = await router.stream()
        await generator.send((1, 1.0, None), (2, 1.0, None))
        old = [await servers.dispatch()]
        # Nothing is read in between: the switch and the next jobs queue up behind the second dispatch.
        async with router.client.put("/v1/policy", json={"name": "pull"}):
            pass
        await generator.send((3, 1.0, None))
        old.append(await servers.dispatch())
        assert await servers.next() == NewNeeds(needs=Needs(pull=PullNeeds()))
        new = await servers.dispatch()
        # A server that joins now is told by its welcome.
        assert (await router.link("fast-1", process="fast")).welcome.needs == Needs(pull=PullNeeds())
        await servers.say(*map(served, [*old, new]))
        answers = {answer.id: answer.policy for answer in [await generator.answer() for _ in range(3)]}
        assert answers == {1: "random", 2: "random", 3: "pull"}
        metrics = await router.metrics()
        assert metrics["ends_total", "served", "random", ""] == 2
        assert metrics["ends_total", "served", "pull", ""] == 1


async def test_no_job_is_lost_by_switches_under_load():
    policies = ["random", "pull", "power_of_d", "jsq", "round_robin"]
    async with running(policies[0]) as router:
        servers = await router.link(*(f"slow-{n}" for n in range(1, 6)))
        seen = dict.fromkeys(servers.names, 0)

        async def serve() -> None:
            while True:
                message = await servers.next()
                if isinstance(message, Probe):
                    report = Report(message.server, message.router, 0, seen[message.server], message.job)
                    await servers.say(report)
                elif isinstance(message, Dispatch):
                    seen[message.server] += 1
                    await servers.say(served(message))

        serving = asyncio.create_task(serve())
        generator = await router.stream()
        tallies = router.app.driver.core.tallies
        for start, policy in enumerate(policies * 2):
            for half in (0, 50):
                first = start * 100 + half
                await generator.send(*((id, 1.0, None) for id in range(first, first + 50)))
                # The stream and the PUT are two connections: the jobs must be in before the switch, ended or not.
                await until(lambda sent=first + 50: sum(tally.arrivals for tally in tallies.values()) == sent)
                if half == 0:
                    async with router.client.put("/v1/policy", json={"name": policy}) as response:
                        assert response.status == 200
        answers = [await generator.answer() for _ in range(1000)]
        serving.cancel()
        assert sorted(answer.id for answer in answers) == list(range(1000))
        assert {answer.outcome for answer in answers} == {"served"}
        metrics = await router.metrics()
        jobs = {policy: metrics["jobs_total", policy] for policy in policies}
        # Each of the five is put in force twice, is met by 50 jobs right then, and by the next round's first 50; the
        # very last one lacks those, and the first 50 of all come before the first switch, to the same policy.
        assert jobs == {"random": 250, "pull": 200, "power_of_d": 200, "jsq": 200, "round_robin": 150}
        assert jobs == {policy: metrics["ends_total", "served", policy, ""] for policy in policies}


async def test_a_job_waits_for_answers_no_longer_than_the_time_limit():
    async with running({"name": "power_of_d", "d": 2}, probe_timeout_s=1.0) as router:
        servers = await router.link("slow-1", "slow-2")
        posted = router.post()
        probes = [await servers.probe(), await servers.probe()]
        assert (await router.metrics())["probing",] == 1
        await servers.say(Report(probes[0].server, "router-1", 4, 0, probes[0].job))
        dispatch = await servers.dispatch()  # the other one stays silent
        assert dispatch.server == probes[0].server
        await servers.end(dispatch)
        assert (await posted).status == 200
        metrics = await router.metrics()
        assert metrics["messages_sent_total", "probe"] == 2
        assert metrics["undecided_jobs_total", "power_of_d"] == 0


# -- the driver ------------------------------------------------------------------------------------


class Scripted(RouterCore):
    """A core that remembers what it is told, and asks for timers at its first job."""

    def __init__(self, timers: list[StartTimer]) -> None:
        super().__init__("router-1", make_policy({"name": "random"}, Random(1)))
        self.timers = timers
        self.told: list[tuple[object, float]] = []

    def handle(self, event, now):
        self.told.append((event, now))
        timers, self.timers = self.timers, []
        return [*timers]


async def test_due_ends_come_first_in_order_and_at_their_own_instants():
    now = monotonic()
    timers = [StartTimer(now + 3600.3, "third"), StartTimer(now + 3600.1, "first"), StartTimer(now + 3600.1, "second")]
    core = Scripted([*timers, StartTimer(now + 7200.0, "later")])
    driver = RouterDriver(core, Counts(["random"], 1.0))
    driver.submit([(0, 1.0, None)], lambda effect, tag: None, now)
    driver.submit([(0, 1.0, None)], lambda effect, tag: None, now + 3601.0)
    assert core.told == [
        (JobArrived(Job(1)), now),
        ("first", now + 3600.1),
        ("second", now + 3600.1),
        ("third", now + 3600.3),
        (JobArrived(Job(2)), now + 3601.0),
    ]
    driver.close()


async def test_a_timer_rings_by_itself_and_is_told_its_own_instant():
    now = monotonic()
    core = Scripted([StartTimer(now + 0.02, "second"), StartTimer(now + 0.01, "first")])
    driver = RouterDriver(core, Counts(["random"], 1.0))
    driver.submit([(0, 1.0, None)], lambda effect, tag: None, now)
    await until(lambda: len(core.told) == 3)
    assert core.told[1:] == [("first", now + 0.01), ("second", now + 0.02)]
    assert monotonic() >= now + 0.02


# -- metrics ---------------------------------------------------------------------------------------


async def test_every_series_exists_before_the_first_job():
    async with running() as router:
        before = await router.metrics()
        assert len(policy_names()) > 3
        for policy in policy_names():
            assert before["jobs_total", policy] == before["dispatches_total", policy] == 0
            assert before["fallback_dispatches_total", policy] == before["stale_dispatches_total", policy] == 0
            assert before["sojourn_seconds_count", policy] == 0
            for outcome in ("served", "blocked", "abandoned"):
                assert before["ends_total", outcome, policy, ""] == 0
            for reason in ("no_server", "link_lost", "ceiling", "draining"):
                assert before["ends_total", "failed", policy, reason] == 0
        for kind in ("pull", "withdraw", "report", "end"):
            assert before["messages_received_total", kind] == 0
        for kind in ("dispatch", "probe"):
            assert before["messages_sent_total", kind] == 0
        await router.link("slow-1")
        linked = await router.metrics()
        assert all(linked["admitted_total", policy, "slow"] == 0 for policy in policy_names())
        assert linked["servers", "slow", "live"] == 1


async def test_jobs_are_counted_with_their_waits_and_sojourns():
    async with running("pull", time_unit_s=0.1) as router:
        servers = await router.link("slow-1")
        generator = await router.stream()
        await servers.say(Withdraw("slow-1", "router-1", 5), Pull("slow-1", "router-1", 6))
        await until(lambda: router.app.driver.core.policy.held_total)
        await generator.send(*((id, 1.0, None) for id in range(4)))
        first, second, third, fourth = [await servers.dispatch() for _ in range(4)]
        await servers.say(
            served(first, waiting=0.0, service=0.5)._replace(stale=True),
            served(second, waiting=0.25, service=0.5),
            served(third, waiting=0.75, service=0.0)._replace(outcome="abandoned"),
            served(fourth)._replace(outcome="blocked"),
        )
        for _ in range(4):
            await generator.answer()
        metrics = await router.metrics()
        assert metrics["jobs_total", "pull"] == metrics["dispatches_total", "pull"] == 4
        assert metrics["fallback_dispatches_total", "pull"] == 3  # one pull-message, four jobs
        assert metrics["stale_dispatches_total", "pull"] == 1
        assert metrics["admitted_total", "pull", "slow"] == 3
        assert metrics["zero_waits_total", "pull", "slow"] == 1
        assert metrics["waiting_seconds_total", "pull", "slow"] == pytest.approx(0.25 + 0.75)
        assert metrics["service_seconds_total", "pull", "slow"] == pytest.approx(0.5 + 0.5)
        assert metrics["sojourn_seconds_count", "pull"] == 2
        assert metrics["unheld_withdrawals_total",] == 1
        assert metrics["messages_received_total", "withdraw"] == 1


# -- the end ---------------------------------------------------------------------------------------


async def test_a_router_that_drains_refuses_new_jobs_and_finishes_the_others():
    async with running("pull") as router:
        servers = await router.link("slow-1")
        generator = await router.stream()
        await generator.send((1, 1.0, None))
        dispatch = await servers.dispatch()
        drained = asyncio.create_task(router.app.drain())
        assert await servers.next() == NewNeeds(needs=Needs())  # its pull-message goes to another router
        response = await router.post()
        assert (response.status, (await response.json())["reason"]) == (503, "draining")
        async with router.client.get("/ready") as ready:
            assert (ready.status, (await ready.json())["reason"]) == (503, "draining")
        await generator.send((2, 1.0, None))
        assert (await generator.answer()).reason == "draining"
        assert not drained.done()
        await servers.end(dispatch)
        await drained
        assert (await generator.answer()).id == 1


async def test_a_router_without_jobs_has_drained_at_once():
    async with running() as router:
        async with asyncio.timeout(10):
            await router.app.drain()


async def test_at_the_end_the_jobs_that_are_left_fail_and_everybody_is_told():
    async with running() as router:
        servers = await router.link("slow-1")
        generator = await router.stream()
        await generator.send((1, 1.0, None))
        await servers.dispatch()
        ending = asyncio.create_task(router.client.server.close())
        assert await servers.closed() == (1001, "the router ends")
        answer = await generator.answer()
        assert (answer.outcome, answer.reason) == ("failed", "link_lost")
        assert await generator.closed() == (1001, "the router ends")
        await ending


def test_a_policy_that_does_not_exist_ends_the_process_with_the_users_mistake(capfd):
    assert run(RouterSettings(id="router-7", policy={"name": "best"})) == 2
    error = capfd.readouterr().err
    assert error.startswith('router-7: policy.name = "best"')
    assert "random" in error


def test_why_it_cannot_listen_is_told_as_json_if_that_was_asked_for(capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(RouterSettings(id="router-7", port=port), as_json=True) == 3
    said = capfd.readouterr()
    error = json.loads(said.out)["error"]
    assert error["kind"] == "listen"
    assert error["message"].startswith(f"router-7: cannot listen on 127.0.0.1:{port}: the port is in use")
    assert said.err == ""
