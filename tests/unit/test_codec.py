"""The wire: what is sent arrives, and what nobody may send is refused in one way only."""

from __future__ import annotations

import contextlib
import struct
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from router.protocol import stream
from router.protocol.codec import (
    FROM_ROUTER,
    FROM_SERVER,
    MAX_FRAME_BYTES,
    MAX_FRAME_MESSAGES,
    MAX_LENGTH,
    LinkCodec,
    unpack,
)
from router.protocol.errors import RemoteProtocolError
from router.protocol.messages import OUTCOMES, Dispatch, End, Message, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from router.protocol.notices import (
    MAX_SERVERS,
    VERSION,
    Drains,
    Hello,
    NewNeeds,
    Notice,
    ServerEntry,
    Welcome,
    check_version,
    encode_notice,
    read_notice,
)

SERVERS = ["s-1", "s-2", "s-3"]

counts = st.integers(0, 2**63 - 1)
optional_counts = st.none() | counts
lengths = st.integers(0, MAX_LENGTH)
amounts = st.floats(0.0, 1e14) | st.integers(0, 10**14)
instants = st.floats(-1e14, 1e14)
servers = st.sampled_from(SERVERS)
routers = st.just("r")

MESSAGES: dict[type[Message], st.SearchStrategy[Any]] = {
    Dispatch: st.builds(
        Dispatch, servers, routers, counts, amounts, st.none() | amounts, optional_counts, optional_counts, counts
    ),
    Probe: st.builds(Probe, servers, routers, counts),
    Pull: st.builds(Pull, servers, routers, counts),
    Withdraw: st.builds(Withdraw, servers, routers, counts),
    Report: st.builds(Report, servers, routers, lengths, counts, optional_counts),
    End: st.builds(
        End, servers, routers, counts, st.sampled_from(OUTCOMES), st.text(max_size=200), instants, amounts, amounts,
        st.booleans(), st.none() | lengths, optional_counts,
    ),
}  # fmt: skip

# Anything that msgpack can say, wild numbers included.
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8)
    | st.binary(max_size=8) | st.sampled_from([*OUTCOMES, "hello", "welcome", "needs", "drains", "notice"]),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=30,
)  # fmt: skip
frames = st.lists(st.lists(values, min_size=1, max_size=11), max_size=4).map(lambda items: [1.5, *items])


def codec(side: tuple[type[Message], ...]) -> LinkCodec:
    return LinkCodec("r", SERVERS, side)


def test_every_kind_of_message_is_tried() -> None:
    assert set(MESSAGES) == set(get_args(Message)) == {*FROM_ROUTER, *FROM_SERVER}


@pytest.mark.parametrize("side", [FROM_ROUTER, FROM_SERVER], ids=["from_router", "from_server"])
@given(data=st.data(), stamp_s=instants)
def test_a_batch_arrives_as_it_was_sent(side: tuple[type[Message], ...], data: st.DataObject, stamp_s: float) -> None:
    batch = data.draw(st.lists(st.one_of([MESSAGES[kind] for kind in side]), max_size=6))
    other = LinkCodec("r", SERVERS, ())
    assert codec(side).decode(other.encode(batch, stamp_s)) == (stamp_s, batch)


@pytest.mark.parametrize("side", [FROM_ROUTER, FROM_SERVER], ids=["from_router", "from_server"])
@given(data=st.data())
def test_what_only_the_other_side_may_say_is_refused(side: tuple[type[Message], ...], data: st.DataObject) -> None:
    wrong = FROM_SERVER if side is FROM_ROUTER else FROM_ROUTER
    batch = [data.draw(st.one_of([MESSAGES[kind] for kind in wrong]))]
    with pytest.raises(RemoteProtocolError, match="allowed on this side"):
        codec(side).decode(codec(side).encode(batch, 0.0))


def only_refuses(read: Any, *data: Any) -> None:
    """Whatever happens, it is a value or a RemoteProtocolError."""
    with contextlib.suppress(RemoteProtocolError):
        read(*data)


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xdd\xff\xff\xff\xff")  # an array of 2^32 - 1
@example(b"\xdf\xff\xff\xff\xff")  # a map of that size
@example(b"\xdb\xff\xff\xff\xff")  # a text of that size
@example(b"\x91" * 100)
@example(b"\x81" * 100)
@example(b"\xd6\xff\x00\x00\x00\x00")  # a timestamp
@example(b"\xc1")  # never used
@example(b"\x92\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x90")  # nan for an instant
@example(b"\xa1\xff")  # not UTF-8
def test_hostile_bytes_are_refused(data: bytes) -> None:
    for side in (FROM_ROUTER, FROM_SERVER):
        only_refuses(codec(side).decode, data)
    only_refuses(stream.decode_requests, data)
    only_refuses(stream.decode_answers, data)
    only_refuses(stream.decode_greeting, data)


@given(values | frames)
@example([float("nan")])
@example([1.0, [0, 0, 1, float("inf"), None, None, None, 0]])
@example([1.0, [0, 0, 1, 10**18, None, None, None, 0]])
@example([1.0, [True, 0, 1]])
@example([1.0, [1, True, 1]])
@example([1.0, [1, -1, 1]])
@example([1.0, [5, 0, 1, [], "", 0.0, 0.0, 0.0, False, None, None]])
@example([1.0, [1, ["unhashable"], {}, "", 0, 0, 0, 0, 0, 0, 0]])
@example([1.0, [1, {}, "", "", "", "", 0, 0, 0, 0, 0]])
def test_well_formed_nonsense_is_refused(value: Any) -> None:
    data = msgpack.packb(value)
    for side in (FROM_ROUTER, FROM_SERVER):
        only_refuses(codec(side).decode, data)
    only_refuses(stream.decode_requests, data)
    only_refuses(stream.decode_answers, data)
    only_refuses(stream.decode_greeting, data)
    only_refuses(read_notice, value)


@pytest.mark.parametrize("kind", list(MESSAGES), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_wrong_field_is_named_and_nothing_of_the_frame_is_used(kind: type[Message], data: st.DataObject) -> None:
    side = FROM_ROUTER if kind in FROM_ROUTER else FROM_SERVER
    frame = unpack(codec(side).encode([data.draw(MESSAGES[kind])], 0.0))
    place = data.draw(st.integers(2, len(frame[1]) - 1))
    name = kind._fields[place]
    wrong = ["x" * 201, float("nan"), [], {}, float("inf"), 1 << 63]
    if name != "arrived":  # an instant may lie before the clock's zero
        wrong.append(-1)
    frame[1][place] = data.draw(st.sampled_from(wrong))
    with pytest.raises(RemoteProtocolError, match=rf"{kind.__name__}\.{name} = "):
        codec(side).read(frame)


def test_limits() -> None:
    only = codec(FROM_SERVER)
    batch: list[Message] = [Pull("s-1", "r", number) for number in range(MAX_FRAME_MESSAGES)]
    assert len(only.decode(only.encode(batch, 0.0))[1]) == MAX_FRAME_MESSAGES
    with pytest.raises(RemoteProtocolError):
        only.decode(only.encode([*batch, batch[0]], 0.0))
    with pytest.raises(RemoteProtocolError, match="at most"):
        only.decode(b"\x90" * (MAX_FRAME_BYTES + 1))
    with pytest.raises(RemoteProtocolError, match="for server 3, of 3 on the link"):
        only.decode(msgpack.packb([0.0, [2, 3, 1]]))


# -- notices -------------------------------------------------------------------------------------------

ENTRY = ServerEntry(id="s-1", pool="slow", rate=1.0, slots=1, capacity=float("inf"), pool_index=0)
NEEDS = Needs(pull=PullNeeds(announce_at="vacancy", k=3), reports=ReportNeeds(on_end=True, every=2.5), probes=True)
HELLO = Hello(version=VERSION, process="p", epoch=7, boot="b", servers=[ENTRY])


@pytest.mark.parametrize(
    "notice",
    [
        HELLO,
        Welcome(version=VERSION, router="router-1", epoch=2**60, boot="", needs=NEEDS),
        NewNeeds(needs=Needs()),
        Drains(servers=[0, 5]),
    ],
    ids=lambda notice: notice.notice,
)
def test_a_notice_arrives_as_it_was_sent(notice: Notice) -> None:
    assert read_notice(unpack(encode_notice(notice))) == notice


def test_the_largest_hello_is_understood() -> None:
    entries = [ENTRY.model_copy(update={"id": f"a-long-name-of-a-pool-{number}"}) for number in range(MAX_SERVERS)]
    hello = HELLO.model_copy(update={"servers": entries})
    assert read_notice(unpack(encode_notice(hello))) == hello


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"notice": "hallo"}, "notice"),
        ({"more": 1}, "more"),
        ({"version": "1"}, "version"),
        ({"epoch": 1.0}, "epoch"),
        ({"process": "../x"}, "process"),
        ({"servers": []}, "servers"),
        ({"servers": [{**ENTRY.model_dump(), "rate": 0.0}]}, r"servers\.0\.rate"),
        ({"servers": [{**ENTRY.model_dump(), "rate": float("nan")}]}, r"servers\.0\.rate"),
        ({"servers": [{**ENTRY.model_dump(), "capacity": 0.5}]}, r"servers\.0\.capacity"),
        ({"servers": [{**ENTRY.model_dump(), "capacity": float("nan")}]}, r"servers\.0\.capacity"),
        ({"servers": [{**ENTRY.model_dump(), "slots": True}]}, r"servers\.0\.slots"),
        ({"servers": [ENTRY.model_dump(), ENTRY.model_dump()]}, "servers"),
    ],
    ids=str,
)
def test_a_wrong_notice_is_refused_with_the_place(change: dict[str, Any], where: str) -> None:
    with pytest.raises(RemoteProtocolError, match=where):
        read_notice({**HELLO.model_dump(), **change})


@pytest.mark.parametrize("value", [None, [], 3, {}, {"notice": []}, {"notice": "needs", "needs": {"pull": 3}}])
def test_what_is_no_notice_is_refused(value: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        read_notice(value)


@pytest.mark.parametrize("version", [0, VERSION + 1])
def test_another_version_is_refused(version: int) -> None:
    check_version(VERSION)
    with pytest.raises(RemoteProtocolError, match=f"protocol version {version}, this side speaks {VERSION}"):
        check_version(version)


# -- streams -------------------------------------------------------------------------------------------


@given(st.lists(st.builds(stream.Request, counts, amounts, st.none() | amounts), max_size=5), instants)
def test_jobs_arrive_as_they_were_sent(jobs: list[stream.Request], stamp_s: float) -> None:
    assert stream.decode_requests(stream.encode(jobs, stamp_s)) == (stamp_s, jobs)


def test_answers_and_greetings_arrive_as_they_were_sent() -> None:
    answers = [stream.Answer(1, "served", "", "s-1", "slow", "pull", 1.5, 0.0, 0.25, False, True)]
    assert stream.decode_answers(stream.encode(answers, 2.0)) == (2.0, answers)
    greeting = stream.Greeting(stream.VERSION, "router-1", "boot")
    assert stream.decode_greeting(stream.encode_greeting(greeting)) == greeting


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ([1, 1.0], r"a job is an array \[id, size, patience\]"),
        ([-1, 1.0, None], "job id = -1"),
        ([True, 1.0, None], "job id = True"),
        ([1, -1.0, None], "size = -1.0 of job 1"),
        ([1, float("nan"), None], "size = nan of job 1"),
        ([1, 1.0, float("inf")], "patience = inf of job 1"),
        ([1, 1.0, "1"], "patience = '1' of job 1"),
    ],
)
def test_a_wrong_job_is_refused_with_its_place(job: list[Any], message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        stream.decode_requests(msgpack.packb([1.0, [0, 1.0, None], job]))


@pytest.mark.parametrize(
    ("place", "value"), [(0, "1"), (1, "lost"), (1, []), (3, None), (6, "0"), (7, None), (9, 0), (10, "yes")]
)
def test_a_wrong_answer_is_refused(place: int, value: Any) -> None:
    answer: list[Any] = [1, "served", "", "s-1", "slow", "pull", 1.5, 0, 0.25, False, True]
    assert len(stream.decode_answers(msgpack.packb([1.0, answer]))[1]) == 1
    answer[place] = value
    with pytest.raises(RemoteProtocolError, match="an answer is an array of id, outcome"):
        stream.decode_answers(msgpack.packb([1.0, answer]))


def test_a_frame_without_an_instant_is_refused() -> None:
    for frame in ([], [float("nan")], ["now"], {"a": 1}, [struct.pack(">d", 1.0)]):
        with pytest.raises(RemoteProtocolError):
            stream.decode_requests(msgpack.packb(frame))
