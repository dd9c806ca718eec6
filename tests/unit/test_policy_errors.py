"""A policy that raises costs no more than the job that it was to decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from router.core import EndJob, JobArrived, PolicyChanged, ProbesDue, RouterCore, ServerJoined, ServerLeft
from router.policy import Answer, Assign, Decision, Job, Parameters, Policy, Probe, Server
from router.protocol.messages import Dispatch, End, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from tests.property.variants import build
from tests.unit.router_peers import running


class Broken(Policy):
    """Sends each job to the server that joined first, and raises in the hooks that it is told."""

    name = "broken"

    def __init__(self, *raises: str, probes: bool = False) -> None:
        super().__init__(Parameters(), Random(1))
        self.raises = raises
        self.probes = probes
        self.servers: list[Server] = []

    def at(self, hook: str) -> None:
        if hook in self.raises:
            raise ZeroDivisionError(hook)

    @property
    def needs(self) -> Needs:
        self.at("needs")
        return Needs(pull=PullNeeds(), reports=ReportNeeds(change=True), probes=self.probes)

    def on_join(self, server: Server) -> None:
        self.servers.append(server)
        if len(self.servers) == 2:
            self.at("on_join")

    def on_leave(self, server: Server) -> None:
        self.servers.remove(server)
        self.at("on_leave")

    def on_arrival(self, job: Job) -> Decision:
        self.at("on_arrival")
        return Probe(self.servers) if self.probes else Assign(self.servers[0])

    def on_reports(self, job: Job, answers: Sequence[Answer]) -> Assign:
        self.at("on_reports")
        return Assign(answers[0][0])

    def on_pull(self, server: Server, number: int) -> None:
        self.at("on_pull")

    def on_withdraw(self, server: Server, number: int) -> bool:
        self.at("on_withdraw")
        return True

    def on_report(self, server: Server) -> None:
        self.at("on_report")

    def on_sent(self, server: Server) -> None:
        self.at("on_sent")

    def on_job_ended(self, server: Server) -> None:
        self.at("on_job_ended")


class Told:
    """Keeps what a core tells of the errors of its policies."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def __call__(self, policy: Policy, error: Exception) -> None:
        self.errors.append(f"{policy.name}: {error}")


def core_of(policy: Policy, told: Told | None) -> tuple[RouterCore, list[Server]]:
    core = RouterCore("r", policy) if told is None else RouterCore("r", policy, on_error=told)
    servers = [Server(f"s-{number}", "pool", 1.0, 1, 9.0) for number in (1, 2)]
    for server in servers:
        core.handle(ServerJoined(server), 0.0)
    return core, servers


def served(dispatch: Dispatch) -> End:
    return End(dispatch.server, "r", dispatch.job, "served", "", 0.0, 0.0, 1.0, False, None, None)


def ends_of(core: RouterCore) -> int:
    return sum(tally.ends.total() for tally in core.tallies.values())


def test_a_job_that_is_not_decided_fails_and_the_next_one_is_served() -> None:
    told, policy = Told(), Broken("on_arrival")
    core, servers = core_of(policy, told)
    assert core.handle(JobArrived(Job(1)), 0.0) == [EndJob(Job(1), "failed", "policy", None, None, "broken", False)]
    assert told.errors == ["broken: on_arrival"]
    policy.raises = ()
    (dispatch,) = core.handle(JobArrived(Job(2)), 0.0)
    assert isinstance(dispatch, Dispatch) and servers[0].outstanding == 1
    (end,) = core.handle(served(dispatch), 1.0)
    assert isinstance(end, EndJob) and end.outcome == "served"
    assert core.tally.arrivals == 2 == ends_of(core) and not core.in_system


def test_a_job_whose_answers_are_not_decided_on_fails_also_when_its_time_is_over() -> None:
    told = Told()
    core, _ = core_of(Broken("on_reports", probes=True), told)
    for job in (1, 2):
        core.handle(JobArrived(Job(job)), 0.0)
        core.handle(Report("s-1", "r", 0, 0, job), 0.1)
    (answered,) = core.handle(Report("s-2", "r", 0, 0, 1), 0.2)
    (late,) = core.handle(ProbesDue(), 1.0)
    for end, job in ((answered, 1), (late, 2)):
        assert end == EndJob(Job(job), "failed", "policy", None, None, "broken", False)
    assert told.errors == ["broken: on_reports"] * 2 and not core.in_system


def test_no_decision_is_a_mistake_and_not_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    told, policy = Told(), Broken()
    core, _ = core_of(policy, told)
    monkeypatch.setattr(policy, "on_arrival", lambda job: None)
    (end,) = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(end, EndJob) and (end.outcome, end.reason) == ("failed", "policy")
    assert told.errors[0].startswith("broken: policy broken decides None for Job(id=1")


@pytest.mark.parametrize("hook", ["on_sent", "on_job_ended", "on_report", "on_pull", "on_withdraw", "on_leave"])
def test_a_hook_that_raises_takes_no_job_with_it(hook: str) -> None:
    told = Told()
    core, servers = core_of(Broken(hook), told)
    (dispatch,) = core.handle(JobArrived(Job(1)), 0.0)
    assert isinstance(dispatch, Dispatch)
    for message in (Pull("s-1", "r", 1), Withdraw("s-1", "r", 1), Report("s-1", "r", 1, 1, None)):
        assert core.handle(message, 0.5) == []
    (end,) = core.handle(served(dispatch), 1.0)
    assert isinstance(end, EndJob) and end.outcome == "served" and servers[0].outstanding == 0
    assert core.handle(ServerLeft("s-1"), 2.0) == [] and list(core.servers) == ["s-2"]
    assert told.errors == [f"broken: {hook}"]


@pytest.mark.parametrize("hook", ["on_arrival", "on_sent"])
def test_whoever_does_not_ask_to_be_told_gets_the_error_itself(hook: str) -> None:
    core, _ = core_of(Broken(hook), None)
    with pytest.raises(ZeroDivisionError, match=hook):
        core.handle(JobArrived(Job(1)), 0.0)


@pytest.mark.parametrize("hook", ["on_join", "needs"])
def test_a_policy_that_cannot_start_leaves_the_old_one_fully_in_force(hook: str) -> None:
    core, servers = core_of(build({"name": "jsq"}), Told())
    core.handle(Report("s-1", "r", 3, 0, None), 0.0)
    core.handle(Report("s-2", "r", 1, 0, None), 0.0)
    old, tally = core.policy, core.tally
    with pytest.raises(ZeroDivisionError):
        core.handle(PolicyChanged(Broken(hook)), 1.0)
    assert core.policy is old and core.tally is tally and list(core.tallies) == ["jsq"]
    assert [server.view for server in servers] == [3, 1]
    (dispatch,) = core.handle(JobArrived(Job(1)), 1.0)
    assert isinstance(dispatch, Dispatch) and (dispatch.server, dispatch.expected) == ("s-2", 1)
    core.handle(Report("s-2", "r", 9, 1, None), 2.0)
    (dispatch,) = core.handle(JobArrived(Job(2)), 2.0)
    assert isinstance(dispatch, Dispatch) and (dispatch.server, dispatch.expected) == ("s-1", 3)


# -- in its process ----------------------------------------------------------------------------------


async def test_a_job_and_a_stream_are_answered_and_nothing_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with running("random") as router:
        policy = Broken("on_arrival")
        servers = await router.link("slow-1")
        generator = await router.stream()
        router.app.driver.switch(policy)
        async with router.client.post("/v1/jobs") as response:
            assert response.status == 500
            assert (await response.json()).items() >= {"outcome": "failed", "reason": "policy"}.items()
        await generator.send(*((id, 1.0, None) for id in range(20)))
        answers = [await generator.answer() for _ in range(20)]
        assert {(answer.outcome, answer.reason) for answer in answers} == {("failed", "policy")}
        policy.raises = ()
        await generator.send((20, 1.0, None))
        await servers.next()  # what the policy needs
        await servers.end(await servers.dispatch())
        assert (await generator.answer()).outcome == "served"
        metrics = await router.metrics()
        assert metrics["policy_errors_total", "broken"] == 21
        assert metrics["ends_total", "failed", "broken", "policy"] == 21
    told = [record for record in caplog.records if record.exc_info]
    assert 0 < len(told) < 21 and "broken" in told[0].getMessage()  # not one for each job


@pytest.mark.parametrize("made", [lambda: Broken("on_join"), lambda: Broken("needs"), lambda: 1 / 0])
async def test_a_policy_that_cannot_start_is_answered_in_json(
    made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running("random") as router:
        servers = await router.link("slow-1", "slow-2")
        monkeypatch.setattr("router.app.settings.make_policy", lambda table, rng: made())
        async with router.client.put("/v1/policy", json={"name": "broken"}) as response:
            assert response.status == 500
            error = (await response.json())["error"]
        assert error["kind"] == "internal" and error["message"].startswith("ZeroDivisionError: ")
        assert await router.get("/v1/policy") == {"name": "random"}
        posted = router.post()
        await servers.end(await servers.dispatch())  # the first thing that servers hear
        assert (await posted).status == 200
        assert router.described.wrong == ["PUT /v1/policy: 500 is not described"]  # nobody promises a mistake
        router.described.wrong.clear()
    assert "PUT /v1/policy failed" in caplog.text
