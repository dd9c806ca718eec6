"""A server whose rate is changed while it runs: from its next service on, and every router hears of it."""

from __future__ import annotations

import pytest

from router.protocol.errors import LocalProtocolError
from router.protocol.needs import Needs, ReportNeeds
from router.protocol.notices import Rated
from server.core import Disturbed, RateChanged, ServerSpec
from tests.unit.server_peers import FakeRouter, running
from tests.unit.server_story import NOTHING, ends, kinds, opened


def test_another_rate_counts_from_the_next_service_on() -> None:
    story = opened(NOTHING, ServerSpec("slow-1", "slow", rate=1.0))
    story.job(0.0, size=4.0)
    story.job(0.0, size=4.0)
    assert story.at(1.0, RateChanged(4.0)) == []
    # The first goes on as it began, until 4; the second takes 4 / 4.
    assert ends(story.at(5.0)) == [(1, "served", 0.0, 4.0), (2, "served", 4.0, 1.0)]
    assert story.core.spec.rate == 4.0


def test_a_rate_and_a_disturbance_multiply_in_either_order() -> None:
    story = opened(NOTHING)
    story.at(0.0, Disturbed(slow=3.0))
    story.at(0.0, RateChanged(2.0))
    story.job(0.0, size=4.0)  # 4 / 2 * 3
    assert ends(story.at(6.0)) == [(1, "served", 0.0, 6.0)]
    story.at(6.0, Disturbed())
    story.job(6.0, size=4.0)
    assert ends(story.at(8.0)) == [(2, "served", 0.0, 2.0)]


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_cannot_be_changes_nothing(rate: float) -> None:
    story = opened(NOTHING)
    with pytest.raises(LocalProtocolError, match="above 0"):
        story.at(0.0, RateChanged(rate))
    assert story.core.spec.rate == 1.0


def test_the_end_of_a_job_comes_before_the_length_that_it_leaves() -> None:
    # So a router never counts a job of its own which a reported length has left out already.
    story = opened(Needs(reports=ReportNeeds(change=True, departure=1.0, idle=True)))
    story.job(0.0)
    assert kinds(story.at(1.0)) == ["End", "Report", "Report"]


async def test_routers_are_told_and_those_that_link_later_as_well() -> None:
    router = FakeRouter()
    async with running(router) as process:
        link = await router.linked()
        await link.next(2)
        assert await process.put("/v1/servers/slow-2", b'{"rate": 4}') == (200, {"rate": 4.0})
        assert await link.next(1) == [Rated(server=1, rate=4.0)]
        assert [server["rate"] for server in (await process.get("/v1/servers"))[1]["servers"]] == [1.0, 4.0]
        assert process.values()["herdless_server_rate{pool=slow}"] == 2.5  # the mean of 1 and 4
        await link.ws.close()
        again = await router.linked()
        assert Rated(server=1, rate=4.0) in await again.next(3)


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/servers/fast-1", b'{"rate": 4}', 404, "not in this process"),
        ("/v1/servers/slow-1", b'{"rate": 0}', 400, "expected a number from 1e-06 to 1e+06"),
        ("/v1/servers/slow-1", b'{"rate": true}', 400, "expected a number"),
        ("/v1/servers/slow-1", b'{"rate": 1, "slots": 2}', 400, "expected"),
        ("/v1/servers/slow-1", b"[", 400, ""),
    ],
)
async def test_a_wrong_order_to_change_a_rate_changes_nothing(path: str, body: bytes, status: int, says: str) -> None:
    async with running(FakeRouter()) as process:
        code, answer = await process.put(path, body)
        assert code == status and says in answer["error"]["message"]
        assert [core.spec.rate for core in process.driver.cores.values()] == [1.0, 1.0]
