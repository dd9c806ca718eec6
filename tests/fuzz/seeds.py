"""Inputs to begin with: what well-behaved peers and users say, each kind of it."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import msgpack

from router.protocol import stream
from router.protocol.codec import LinkCodec
from router.protocol.eventlog import HEAD_BYTES, NAME, RECORD, About, Kind, code, write_head
from router.protocol.messages import Dispatch, End, Message, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs, PullNeeds, ReportNeeds
from router.protocol.notices import VERSION, Drains, Hello, NewNeeds, Notice, ServerEntry, Welcome, encode_notice
from services.scenarios import shipped
from tests.property.variants import tables

SERVERS = ["slow-1", "slow-2", "fast-1"]
_CODEC = LinkCodec("router-1", SERVERS, ())
_NEEDS = (
    Needs(),
    Needs(pull=PullNeeds(announce_at="vacancy", stale="duplicate", placement="shortest_of", k=3)),
    Needs(reports=ReportNeeds(change=True, departure=0.5, idle=True, every=2.5, on_end=True, to="one"), probes=True),
    Needs(pull=PullNeeds(), reports=ReportNeeds(on_end=True)),
)
_HELLO = Hello(
    version=VERSION, process="servers", epoch=7, boot="b",
    servers=[
        ServerEntry(id=id, pool=id[:4], rate=1.0 + n, slots=1 + n, capacity=(inf, 5.0, 1.0)[n], pool_index=0)
        for n, id in enumerate(SERVERS)
    ],
)  # fmt: skip
_SAID_BY_SERVERS: list[Message] = [
    Pull("slow-1", "router-1", 1),
    Pull("fast-1", "router-1", 2),
    Withdraw("slow-1", "router-1", 1),
    Report("slow-2", "router-1", 3, 0, None),
    Report("slow-2", "router-1", 3, 1, 1),
    End("slow-1", "router-1", 1, "served", "", 7.5, 0.25, 0.5, False, None, None),
    End("slow-2", "router-1", 2, "failed", "draining", 7.5, 0.0, 0.0, True, 4, 1),
    End("fast-1", "router-1", 3, "blocked", "", 7.5, 0.0, 0.0, True, 4, 1),
]
_SAID_BY_ROUTERS: list[Message] = [
    Dispatch("slow-1", "router-1", 1, 0.0, None, None, None, 0),
    Dispatch("slow-1", "router-1", 2, 1.5, 2.0, 1, 0, 3),
    Dispatch("slow-2", "router-1", 3, 1e9, 0.0, 1, None, 0),
    Probe("fast-1", "router-1", 4),
]


def packed(value: Any) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


def unpacked(frame: bytes) -> Any:
    return msgpack.unpackb(frame)


def _frames(messages: list[Message]) -> list[bytes]:
    return [_CODEC.encode([message], 5.25) for message in messages] + [_CODEC.encode(messages, -1.0)]


def _notices(*notices: Notice) -> list[bytes]:
    return [encode_notice(notice) for notice in notices]


def _welcomes() -> list[Welcome]:
    return [Welcome(version=VERSION, router="router-1", epoch=9, boot="b", needs=needs) for needs in _NEEDS]


def from_server() -> list[bytes]:
    """Frames that a router reads."""
    return _frames(_SAID_BY_SERVERS) + _notices(_HELLO, Drains(servers=[0, 2]))


def from_router() -> list[bytes]:
    """Frames that a server process reads."""
    return _frames(_SAID_BY_ROUTERS) + _notices(*_welcomes(), *(NewNeeds(needs=needs) for needs in _NEEDS))


def requests() -> list[bytes]:
    jobs = [stream.Request(1, 1.0, None), stream.Request(2, 0.0, 3.5), stream.Request(2**63 - 1, 7, 0)]
    return [stream.encode(jobs[:count], 1.5) for count in range(4)]


def answers() -> list[bytes]:
    ends = [
        stream.Answer(1, "served", "", "slow-1", "slow", "pull", 7.5, 0.0, 0.25, False, True),
        stream.Answer(2, "failed", "no_server", "", "", "pull", 0.0, 0.0, 0.0, True, False),
    ]
    return [stream.encode(ends, 1.5), stream.encode_greeting(stream.Greeting(stream.VERSION, "router-1", "b"))]


def _ends() -> list[Any]:
    """A frame that ends the first jobs of a session at each server; where a job is not, its end changes nothing."""
    jobs = range(1, 9)
    return [7.5, *([5, n, job, "served", "", 7.5, 0.0, 0.5, False, None, None] for job in jobs for n in range(3))]


def _answers() -> list[Any]:
    """A frame that answers the probes for the first jobs."""
    return [7.5, *([4, n, 2, 0, job] for job in range(1, 9) for n in range(3))]


def router_sessions() -> list[bytes]:
    """Under policies of each kind: servers join, jobs arrive, servers speak."""
    hello, said = unpacked(encode_notice(_HELLO)), [unpacked(frame) for frame in _frames(_SAID_BY_SERVERS)]
    drains = unpacked(encode_notice(Drains(servers=[1])))
    streams = [[-1, *map(unpacked, requests())], [-2, unpacked(requests()[3]), b"\xc1"]]
    linked = [hello, said[0], said[3], 6, _answers(), _ends(), *said[5:8], drains, 3]
    return [packed(session) for session in (*([n, *linked] for n in range(0, len(tables()), 5)), *streams)]


def two_links() -> list[bytes]:
    """Two server processes link, get jobs and speak; one goes, in several ways, and its jobs go to the other."""
    hello = unpacked(encode_notice(_HELLO))
    renamed = [dict(server, id=f"{server['id']}-b") for server in hello["servers"]]
    other = {**hello, "process": "others", "servers": renamed}
    newer = {**hello, "epoch": hello["epoch"] + 1}
    drains = unpacked(encode_notice(Drains(servers=[0, 1, 2])))
    said = [unpacked(frame) for frame in _frames(_SAID_BY_SERVERS)]
    begin = [[0, hello], [1, other], [0, said[0]], [1, said[3]], 7, [0, _answers()], [1, _answers()], [0, _ends()], 5]
    ways = [[0, b"\xc1"]], [[0, newer]], [[1, newer]], [[1, hello]], [[0, drains]]
    rest = [[1, _answers()], [1, _ends()], [0, hello], 3, [0, said[5]]]
    return [packed([policy, *begin, *way, *rest]) for policy in range(0, len(tables()), 9) for way in ways]


def server_sessions() -> list[bytes]:
    """Routers with each kind of needs welcome the servers and send them jobs."""
    said = [unpacked(frame) for frame in _frames(_SAID_BY_ROUTERS)]
    needs = [unpacked(frame) for frame in _notices(*(NewNeeds(needs=needs) for needs in _NEEDS))]
    return [packed([welcome.model_dump(), *said, *needs, said[-1]]) for welcome in _welcomes()]


def jobs() -> list[bytes]:
    return [
        b"{}", b'{"size": 1.5}', b'{"size": 0, "patience": null}', b'{"patience": 1e3, "size": 2}',
        b'{"key": "k-1", "size": 2}', b'{"key": "k-2"}', b"[]", b'"\\ud800"',
    ]  # fmt: skip


def policies() -> list[bytes]:
    return [json.dumps(table).encode() for table in tables()]


def orders() -> list[bytes]:
    return [
        b'{"servers": ["slow-1", "fast-1"]}', b'{"servers": []}', b'{"rate": 2}', b'{"rate": 0.25}', b"{}",
        b'{"slow": 2.5, "failing": true, "hung": false}', b'{"slow": 1e6}',
    ]  # fmt: skip


TOKEN = "the-token-of-a-cluster"


def authorizations() -> list[bytes]:
    said = [f"{scheme} {TOKEN}".encode() for scheme in ("Bearer", "bearer ", "Basic")]
    return [*said, b"", b"Bearer", b"Bearer \xff"]


BETWEEN_CHUNKS = b"\xff\xff"


def connections() -> list[bytes]:
    """Requests as clients send them: plain ones of several kinds, one after the other, and what is not plain."""
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    plain = head + b'Content-Length: 11\r\n\r\n{"size": 1}'
    rest = b"Accept: */*\r\nUser-Agent: x\r\nContent-Type: application/json\r\nConnection: keep-alive\r\n\r\n"
    return [
        plain, head + b"\r\n", head + rest, BETWEEN_CHUNKS.join((plain, plain, head + rest)), plain + plain,
        plain[:40], plain.replace(b"11", b"12"), plain.replace(b"1.1", b"1.0"), plain.replace(b"Bearer", b"Basic"),
        head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", head + b"Connection: close\r\n\r\n",
        head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n",
    ]  # fmt: skip


def addresses() -> list[bytes]:
    return [
        b"router", b"router:8080", b"http://router:80/", b"ws://10.0.0.1", b"http://[::1]:9", b"ftp://x", b"a..b",
        b"http://a@b:1?c#d",
    ]  # fmt: skip


SCENARIO = shipped()["pull"]


def scenarios() -> list[bytes]:
    return [text.encode() for text in shipped().values()]


def overrides() -> list[bytes]:
    return [
        b"policy.d=3", b"arrivals.load=0.9", b"pools.0.servers=10", b'policy.name="jsq"', b"routers.split=[1, 2]",
        b"pools.1.capacity=inf\nseed=7", b"service.law=pareto\nservice.shape=2.5", b"patience.rate=0.5",
    ]  # fmt: skip


def traces() -> list[bytes]:
    """The first byte is the place of the options in `TRACE_OPTIONS`."""
    return [
        b"\x00t\n0\n1.5\n2\n2\n30.25\n",
        b'\x00"t",x\r\n"1",a\r\n"2","b\nc"\r\n\r\n4,d\r\n',
        b"\x01t,n\n100,5\n200,0\n350,2.5\n400,-1\n500,x\n",
        b"\x02t\n2023-11-16 18:15:46.6805900\n2023-11-16 18:15:50\n2023-11-16T18:16:00.25\n",
        b"\x02t\n2023-11-16 18:15:46Z\n2023-11-16 20:15:47+02:00\n1969-12-31 23:59:60-0130\n",
        b"\x03t\n1\n2\n3\n",
        b"\x04t,d,n,m\n1000,5,1,2\n2000,10,0,0\n2500,0,3,4\n",
        b'\x05{"t": 1}\n{"T": 2.5}\n{"t": "3"}\n{"t": 1e3}\n[1]\n',
        b"\x00\xef\xbb\xbft\n1\n2\n",
        b"\x00version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        b"\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff+\xe12\xe42\xe22\xe6\x02\x00\x0b\x9c\x8e\x8a\x08\x00\x00\x00",
    ]


def event_logs() -> list[bytes]:
    """Of a router that was killed and one that ended, with a ring that is not yet full, and one that is."""
    about = About("router-1", "router", 9, "b")
    names = b"".join(NAME.pack(len(name)) + name for name in (b"slow-1", b"", b"pull"))
    found = []
    for slots, written, closed_at in ((4, 3, 0.0), (4, 4, 7.5), (4, 6, 0.0)):
        ring = [b""] * slots
        for number in range(1, written + 1):
            record = RECORD.pack(code(Kind.ARRIVED), 1, 0, 0, 5.0 + number, number, -1, number, -1, number)
            ring[(number - 1) % slots] = record
        head = write_head(about, slots, len(names), closed_at).ljust(HEAD_BYTES, b"\0")
        found.append(head + names + b"".join(ring))
    return [*found, found[0][:HEAD_BYTES], found[1][:-5]]
