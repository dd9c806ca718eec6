"""Limits of what peers may make a router or a server process hold: what is refused, why, and that the rest goes on."""

from __future__ import annotations

import asyncio
from math import inf
from random import Random

import pytest
from pydantic import ValidationError

from router.app.stream import JOBS_A_TURN
from router.events import MOST_ENDS
from router.policy import Server
from router.process.outbox import Outbox
from router.protocol.due import DueHeap
from router.protocol.errors import SettingsError
from router.protocol.messages import End, Message, Pull
from router.protocol.needs import Needs, PullNeeds
from router.protocol.notices import VERSION, Hello, ServerEntry, encode_notice
from router.protocol.stream import Answer
from server.announcer import MOST_OUTSTANDING, Announcer
from server.app.settings import make_settings
from server.events import PatienceEnded, ReportDue, ServiceEnded, Work, is_void
from server.session import Session
from services.loadgen.client import book as book_module
from services.loadgen.client.book import MOST_POLICIES, RunningBook
from services.loadgen.client.links import failed
from services.scenario import parse_scenario
from services.scenarios import shipped
from services.simulator.run import simulate
from tests.unit import server_peers
from tests.unit.router_peers import FakeServers, Router, closed, entry, running, until
from tests.unit.test_outbox import FakeWebSocket, encode


def of_pools(*pools: str, process: str = "fake-1", epoch: int = 1) -> Hello:
    """A process with one server in each of these pools."""
    servers = [entry(f"{pool}-1", pool) for pool in pools]
    return Hello(version=VERSION, process=process, epoch=epoch, boot="elsewhere", servers=servers)


async def refused(router: Router, said: Hello) -> tuple[int, str]:
    """Say hello, and hear why it is no use."""
    ws = await router.client.ws_connect("/v1/link")
    await ws.send_bytes(encode_notice(said))
    return await closed(ws)


# -- a router ------------------------------------------------------------------------------------


async def test_ever_new_pools_take_the_places_of_those_that_are_gone_in_the_metrics():
    async with running(max_pools=3) as router:
        await router.link("slow-1", process="fake-2")
        for number in range(10):
            peer = await FakeServers.link(router.client, of_pools(f"pool-{number}"))
            await peer.ws.close()
            await until(lambda: len(router.app.links) == 1)
        shown = {labels[1] for labels in await router.metrics() if labels[0] == "servers"}
    # `slow` is the oldest one, but in use; of the others the youngest two.
    assert shown == {"slow", "pool-8", "pool-9"}


async def test_pools_that_are_all_in_use_leave_no_place_for_another():
    async with running(max_pools=2) as router:
        await FakeServers.link(router.client, of_pools("a", "b"))
        assert await refused(router, of_pools("c", process="fake-2")) == (1013, "3 pools: max_pools is 2")
        # A newer incarnation takes the places of the former one.
        await FakeServers.link(router.client, of_pools("c", "d", epoch=2))
        assert (await router.metrics())["refusals_total", "server", "limit"] == 1


async def test_more_servers_than_there_may_be_are_refused_together():
    async with running(max_servers=3) as router:
        await FakeServers.link(router.client, of_pools("a", "b"))
        reason = "2 servers beside 2: max_servers is 3"
        assert await refused(router, of_pools("c", "d", process="fake-2")) == (1013, reason)
        assert len((await router.get("/v1/servers"))["servers"]) == 2


async def test_who_posts_pull_messages_without_end_loses_the_link():
    async with running("pull", max_pull_messages=5) as router:
        peer = await router.link("slow-1")
        await peer.say(*(Pull("slow-1", "router-1", number) for number in range(6)))
        assert await peer.closed() == (1002, "6 pull-messages: max_pull_messages is 5")


async def test_a_process_that_never_says_hello_is_cut():
    async with running(hello_limit_s=0.01) as router:
        assert await closed(await router.client.ws_connect("/v1/link")) == (1008, "no hello within 0.01 s")
        assert (await router.metrics())["refusals_total", "server", "hello"] == 1


async def test_ever_new_reasons_of_ends_are_counted_together():
    async with running() as router:
        peer = await router.link("slow-1")
        generator = await router.stream()
        await generator.send(*((id, 1.0, None) for id in range(2 * MOST_ENDS)))
        for number in range(2 * MOST_ENDS):
            await peer.end(await peer.dispatch(), outcome="failed", reason=f"reason {number}")
        # Whoever sent the jobs hears each reason as it was.
        assert {(await generator.answer()).reason for _ in range(2 * MOST_ENDS)} == {
            f"reason {number}" for number in range(2 * MOST_ENDS)
        }
        counts = await router.metrics()
    ends = {key[3]: count for key, count in counts.items() if key[:3] == ("ends_total", "failed", "random") and count}
    assert sum(ends.values()) == 2 * MOST_ENDS
    assert len(ends) == MOST_ENDS + 1
    assert ends["other"] == MOST_ENDS


class Behind:
    """A link that is behind until it is told otherwise."""

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.waiting = False
        self.released = asyncio.Event()

    def put(self, message: Message) -> bool:
        self.taken.append(message)
        return True

    def put_frame(self, frame: bytes) -> bool:
        return True

    @property
    def is_behind(self) -> bool:
        return not self.released.is_set()

    async def room(self) -> None:
        self.waiting = True
        await self.released.wait()


async def test_streams_are_left_unread_while_a_link_is_behind_and_nothing_else_waits():
    async with running() as router:
        link = Behind()
        router.app.driver.join([Server("slow-1", "slow", 1.0, 1, inf)], link)
        generator = await router.stream()
        await generator.send(*((id, 1.0, None) for id in range(2 * JOBS_A_TURN)))
        await until(lambda: link.waiting)
        assert len(link.taken) == JOBS_A_TURN
        posted = router.post()  # a client has one job under way, and cannot flood
        await until(lambda: len(link.taken) == JOBS_A_TURN + 1)
        link.released.set()
        await until(lambda: len(link.taken) == 2 * JOBS_A_TURN + 1)
        assert (await router.metrics())["pauses_total", "generator"] == 1
        router.app.driver.leave([router.app.driver.core.servers["slow-1"]], link)
        assert (await posted).status == 502


# -- an outbox -----------------------------------------------------------------------------------


async def test_whoever_waits_for_room_goes_on_when_half_of_the_messages_are_gone():
    ws = FakeWebSocket()
    ws.reads.clear()
    outbox = Outbox(ws, encode, limit=10, max_batch=1)
    for message in range(7):
        outbox.put(message)
    await until(lambda: ws.frames)
    assert len(outbox) == 6
    waiting = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    ws.reads.set()
    await waiting
    assert outbox.is_open
    assert not outbox.is_behind
    await outbox.close()


async def test_a_peer_that_takes_nothing_while_others_wait_for_room_is_cut():
    ws = FakeWebSocket()
    ws.reads.clear()
    reasons: list[str] = []
    outbox = Outbox(ws, encode, limit=10, stall_limit_s=0.02, cut_limit_s=0.0, on_cut=reasons.append)
    for message in range(8):
        outbox.put(message)
        await asyncio.sleep(0)
    await outbox.room()
    assert not outbox.is_open
    assert outbox.overflows == 1
    await outbox.close()
    assert reasons == ["reads too slowly: it took none of 7 messages for 0.02 s"]


# -- a server process ----------------------------------------------------------------------------


async def test_timers_of_jobs_that_are_gone_do_not_pile_up():
    router = server_peers.FakeRouter()
    async with server_peers.running(router, servers=1) as process:
        link = await router.linked()
        for frame in range(30):
            # All but the first of a frame wait, if only for a moment, and have a patience of years.
            jobs = range(1000 * frame, 1000 * (frame + 1))
            await link.send(*(link.dispatch(0, job, size=1e-9, patience=1e12) for job in jobs))
            ended = 0
            while ended < 1000:
                ended += type((await link.next(1))[0]) is End
        # 20,000 may be there without anybody looking: those after a sweep and twice as many.
        assert len(process.driver._due) <= 21_000


def test_only_timers_from_which_nothing_would_follow_are_void():
    session = Session("router-1", Needs())
    work = Work(session, 1, 1.0, 0.0, False)
    heap: DueHeap[object] = DueHeap()
    for at, timer in enumerate((ServiceEnded(work), PatienceEnded(work), ReportDue(session, 0), ReportDue(session, 1))):
        heap.push(float(at), timer)
    heap.sweep(is_void)
    assert [heap.pop()[1] for _ in range(len(heap))] == [ServiceEnded(work), PatienceEnded(work), ReportDue(session, 0)]
    work.state = Work.GONE
    session.up = False
    assert is_void(ServiceEnded(work)) and is_void(PatienceEnded(work)) and is_void(ReportDue(session, 0))


def test_duplicates_of_a_pull_message_have_an_end():
    announcer = Announcer("slow-1", 1, inf, Random(1))
    announcer.set_takers([Session("router-1", Needs(pull=PullNeeds(stale="duplicate")))])
    announcer.open(0)
    for _ in range(2 * MOST_OUTSTANDING):
        announcer.risen(1)
        announcer.fallen(0)
    assert len(announcer.outstanding) == MOST_OUTSTANDING


async def test_an_endless_queue_ends_at_the_ceiling():
    router = server_peers.FakeRouter()
    async with server_peers.running(router, servers=1, ceiling=2):
        link = await router.linked()
        await link.send(*(link.dispatch(0, job, size=1e6) for job in range(3)))
        while type(message := (await link.next(1))[0]) is not End:
            pass  # pull-messages
    assert (message.job, message.outcome, message.reason) == (2, "failed", "ceiling")


async def test_more_routers_than_may_be_dialled_are_left_alone():
    first, second = server_peers.FakeRouter(), server_peers.FakeRouter("router-2")
    async with server_peers.running(first, second, max_links=1) as process:
        await first.linked()
        assert process.links.counts.refusals["limit"] == 1
        assert process.links.up == 1
    assert second.connections.empty()


@pytest.mark.parametrize("capacity", [1.5, 0, -inf, "nan"])
def test_a_capacity_is_a_whole_number(capacity):
    with pytest.raises(SettingsError, match=r"server\.capacity"):
        make_settings({"id": "a", "pool": "a", "servers": 1, "routers": ["x"], "capacity": capacity})
    with pytest.raises(ValidationError):
        ServerEntry(id="a", pool="a", rate=1.0, slots=1, capacity=float(capacity), pool_index=0)


# -- the simulator -------------------------------------------------------------------------------


def test_a_simulation_of_reports_that_would_not_end_soon_is_refused():
    scenario = parse_scenario(shipped()["jsq"], "jsq", ["policy.every=1e-6"])
    with pytest.raises(SettingsError, match=r"policy.every = 1e-06: .* choose every >= "):
        simulate(scenario)


# -- a generator without end ---------------------------------------------------------------------


def test_ends_and_policies_that_routers_make_up_are_counted_together():
    book = RunningBook(["pull"], 0.1)
    for number in range(3 * MOST_POLICIES):
        job = book.sends(0.0, 0.0)
        served = Answer(job, "served", "", "slow-1", "slow", f"policy-{number}", 0.0, 0.0, 0.1, False, False)
        book.ends(served, 0.1)
        book.ends(failed(book.sends(0.0, 0.0), f"reason {number}"), 0.0)
    assert len(book.sojourn_units) == MOST_POLICIES + 1
    assert len(book.counts) == book_module.MOST_ENDS + 1
    assert sum(book.counts.values()) == 6 * MOST_POLICIES
    assert sum(histogram.count for histogram in book.sojourn_units.values()) == 3 * MOST_POLICIES
    assert book.under_way == 0
