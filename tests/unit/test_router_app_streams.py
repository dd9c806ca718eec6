"""The router's process and its streams: jobs in, ends out, and generators that go away or break a rule."""

from __future__ import annotations

from time import monotonic

import pytest

from router.process.identity import make_identity
from router.protocol.messages import End, Pull
from router.protocol.stream import Answer
from tests.unit.router_peers import closed, pack, running, served, until


async def test_a_stream_takes_jobs_and_gives_the_end_of_each_back():
    async with running("pull") as router:
        servers = await router.link("slow-1", "slow-2")
        generator = await router.stream()
        assert generator.greeting.router == "router-1"
        await servers.say(Pull("slow-2", "router-1", 1))
        await until(lambda: router.app.driver.core.policy.held_total)
        await generator.send((40, 2.0, None), (41, 0.5, 3.0))
        first, second = await servers.dispatch(), await servers.dispatch()
        assert (first.server, first.size, first.patience, first.number) == ("slow-2", 2.0, None, 1)
        assert (second.size, second.patience, second.number) == (0.5, 3.0, None)
        await servers.say(
            End(second.server, "router-1", second.job, "abandoned", "", 9.5, 0.25, 0.0, False, None, None),
            served(first, waiting=0.0, service=0.125),
        )
        answers = [await generator.answer(), await generator.answer()]
        assert answers == [
            Answer(41, "abandoned", "", second.server, "slow", "pull", 9.5, 0.25, 0.0, True, False),
            Answer(40, "served", "", "slow-2", "slow", "pull", 7.0, 0.0, 0.125, False, False),
        ]


async def test_jobs_that_go_nowhere_are_answered_on_the_stream():
    async with running() as router:
        generator = await router.stream()
        await generator.send((1, 1.0, None))
        assert await generator.answer() == Answer(
            1, "failed", "no_server", "", "", "random", 0.0, 0.0, 0.0, False, False
        )


async def test_many_jobs_are_each_answered_once():
    async with running("random") as router:
        servers = await router.link(*(f"slow-{n}" for n in range(1, 11)))
        generator = await router.stream()
        for start in range(0, 3000, 1000):
            await generator.send(*((id, 1.0, None) for id in range(start, start + 1000)))
        dispatches = [await servers.dispatch() for _ in range(3000)]
        for start in range(0, 3000, 500):
            await servers.say(*(served(dispatch) for dispatch in dispatches[start : start + 500]))
        assert sorted([(await generator.answer()).id for _ in range(3000)]) == list(range(3000))
        metrics = await router.metrics()
        # One frame in from each send, and the hello; the frames out are fewer than the messages.
        assert metrics["frames_total", "in", "generator"] == 3
        assert metrics["frames_total", "in", "server"] == 7
        assert metrics["frames_total", "out", "server"] < 100
        assert metrics["messages_sent_total", "dispatch"] == metrics["messages_received_total", "end"] == 3000


@pytest.mark.parametrize(
    ("frame", "kind", "says"),
    [
        (pack([1.0, [1, 1.0, None], [2, -1.0, None]]), "job", "size = -1.0 of job 2"),
        (pack([1.0, [1, 1.0, None], [-2, 1.0, None]]), "job", "job id = -2"),
        (pack([1.0, [1, 1.0]]), "job", "[id, size, patience]"),
        (pack([]), "job", "begins with the sender's instant"),
        (pack({"notice": "hello"}), "job", "begins with the sender's instant"),
        (b"\xc1", "job", "not valid msgpack"),
        ("text", "text", "found text"),
    ],
)
async def test_a_wrong_frame_closes_its_stream_and_no_other(frame, kind, says):
    async with running() as router:
        servers = await router.link("slow-1")
        good, bad = await router.stream(), await router.stream()
        await (bad.ws.send_str(frame) if isinstance(frame, str) else bad.ws.send_bytes(frame))
        code, reason = await closed(bad.ws)
        assert code == 1002
        assert says in reason
        metrics = await router.metrics()
        assert metrics["refusals_total", "generator", kind] == 1
        assert metrics["jobs_total", "random"] == 0  # no job of a wrong frame was taken
        await good.send((1, 1.0, None))
        await servers.end(await servers.dispatch())
        assert (await good.answer()).outcome == "served"


async def test_the_jobs_of_a_generator_that_is_gone_run_on():
    async with running() as router:
        servers = await router.link("slow-1")
        generator = await router.stream()
        await generator.send((1, 1.0, None), (2, 1.0, None))
        dispatches = [await servers.dispatch(), await servers.dispatch()]
        await generator.ws.close()
        await until(lambda: not len(router.app.streams))
        await servers.say(*map(served, dispatches))
        await until(lambda: not router.app.driver.core.in_system)
        metrics = await router.metrics()
        assert metrics["unheard_ends_total", "stream"] == 2
        assert metrics["ends_total", "served", "random", ""] == 2


async def test_one_way_delays_are_measured_between_processes_of_one_host():
    boot = make_identity("any").boot
    async with running() as router:
        near = await router.link("near-1", process="near", boot=boot)
        far = await router.link("far-1", process="far")
        await near.say(Pull("near-1", "router-1", 1), Pull("near-1", "router-1", 2), stamp_s=monotonic() - 3.0)
        await near.say(Pull("near-1", "router-1", 3), stamp_s=monotonic() + 3.0)  # a clock that is wrong
        await far.say(Pull("far-1", "router-1", 1), stamp_s=monotonic() - 50.0)
        generator = await router.stream(f"?boot={boot}")
        await generator.send((1, 1.0, None))
        await until(lambda: router.app.driver.core.in_system and sum(router.app.driver.counts.received.values()) == 4)
        metrics = await router.metrics()
        assert metrics["one_way_messages_total", "server_router"] == 2
        assert 6.0 <= metrics["one_way_seconds_total", "server_router"] < 50.0
        assert metrics["one_way_messages_total", "generator_router"] == 1
