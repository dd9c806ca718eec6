"""Whatever reads bytes that others send: it takes them, or refuses them by its documented error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import NamedTuple, cast

import server.app.web
from router.app.bodies import read_job, read_json, read_keyed_job
from router.app.replies import BadRequest
from router.process.access import Access
from router.protocol import stream
from router.protocol.codec import FROM_ROUTER, FROM_SERVER, LinkCodec, unpack
from router.protocol.errors import RemoteProtocolError, SettingsError
from router.protocol.eventlog import HEAD_BYTES
from router.protocol.http import MAX_KEY
from router.protocol.messages import Message
from router.protocol.notices import encode_notice, read_notice
from router.registry import make_policy, policy_table
from server.app.discovery import parse_target
from server.app.driver import ServerDriver
from services.audit.log import read_log, used_bytes
from services.loadgen.trace import read_trace
from services.loadgen.trace_options import TraceError, TraceOptions
from services.loadgen.trace_schedule import schedule
from services.scenario import parse_scenario, scenario_toml
from tests.fuzz import seeds
from tests.fuzz.fast_path import fast_path
from tests.fuzz.mutation import Form
from tests.fuzz.sessions import router_links, router_session, server_session


class Target(NamedTuple):
    """A reader.

    Attributes:
        read: Takes the bytes in; raises what `refusals` names, and anything else is a finding.
        form: In what form most of its inputs are.
        seeds: Inputs to begin with.
        longest: The longest input worth a try, in bytes.
    """

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    form: Form
    seeds: list[bytes]
    longest: int = 2048


# -- frames ------------------------------------------------------------------------------------


def _frame(data: bytes, receives: tuple[type[Message], ...]) -> None:
    """One frame of a link, at the side that receives these kinds of message."""
    value = unpack(data)
    if type(value) is dict:
        notice = read_notice(value)
        assert read_notice(unpack(encode_notice(notice))) == notice
        return
    codec = LinkCodec("router-1", seeds.SERVERS, receives)
    stamp_s, messages = codec.read(value)
    assert codec.decode(codec.encode(messages, stamp_s)) == (stamp_s, messages)


def frame_from_server(data: bytes) -> None:
    _frame(data, FROM_SERVER)


def frame_from_router(data: bytes) -> None:
    _frame(data, FROM_ROUTER)


def stream_requests(data: bytes) -> None:
    stamp_s, jobs = stream.decode_requests(data)
    assert stream.decode_requests(stream.encode(jobs, stamp_s)) == (stamp_s, jobs)


def stream_answers(data: bytes) -> None:
    if data[:1] and data[0] >> 4 == 8:  # a msgpack map
        stream.decode_greeting(data)
        return
    stream.decode_answers(data)


# -- HTTP bodies -------------------------------------------------------------------------------


def job_body(data: bytes) -> None:
    """A job; a header may name a key as well."""
    with suppress(BadRequest):
        read_keyed_job(data, "k-1")
    key, size, patience = read_keyed_job(data, None)
    assert 0.0 <= size < 1e15 and (patience is None or 0.0 <= patience < 1e15)
    assert (size, patience) == read_job(data) if key is None else key.isascii() and 0 < len(key) <= MAX_KEY


def policy_body(data: bytes) -> None:
    table = read_json(data)
    if type(table) is dict:
        policy = make_policy(table, Random(1))
        assert policy_table(make_policy(policy_table(policy), Random(1))) == policy_table(policy)
        assert policy.needs == policy.needs


def order_body(data: bytes) -> None:
    """What a server process is told to do, as the body of any of its orders."""
    value = json.loads(data)
    orders: tuple[Callable[[], object], ...] = (
        lambda: server.app.web._servers_named(value, _DRIVER),
        lambda: server.app.web._rate(value),
        lambda: server.app.web._disturbance(value),
    )
    taken = 0
    for order in orders:
        try:
            order()
            taken += 1
        except ValueError:
            pass
    assert taken <= 1 or value == {}


_DRIVER = cast(ServerDriver, SimpleNamespace(cores=dict.fromkeys(seeds.SERVERS)))


def authorization(data: bytes) -> None:
    """A header as aiohttp hands it over."""
    said = data.decode("utf-8", "surrogateescape")
    if Access(seeds.TOKEN).allows({"Authorization": said}):
        scheme, token = said.split()
        assert (scheme.lower(), token) == ("bearer", seeds.TOKEN)


def address(data: bytes) -> None:
    """The address of a router as a user gives it."""
    target = parse_target(data.decode("utf-8", "replace"))
    assert target.host and 1 <= target.port <= 65535


# -- files -------------------------------------------------------------------------------------


def scenario_text(data: bytes) -> None:
    scenario = parse_scenario(data.decode("utf-8", "replace"), "x.toml")
    assert parse_scenario(scenario_toml(scenario), "x.toml") == scenario


def scenario_override(data: bytes) -> None:
    parse_scenario(seeds.SCENARIO, "x.toml", data.decode("utf-8", "replace").split("\n"))


TRACE_OPTIONS = [
    TraceOptions(time_column="t", time_unit="s"),
    TraceOptions(time_column="t", time_unit="ns", size_column="n", zero_size="drop"),
    TraceOptions(time_column="t", time_unit="datetime", spread_ties=True),
    TraceOptions(time_column="t"),
    TraceOptions(
        time_column="t", time_unit="ms", time_is="end", duration_column="d", size_columns={"n": 1.0, "m": 0.5},
        zero_size="floor", size_floor=1e-3,
    ),
    TraceOptions(time_column="t", time_unit="s", format="jsonl", limit_rows=3),
]  # fmt: skip


def trace_file(data: bytes) -> None:
    """The first byte says how the rest is read."""
    trace = read_trace(data[1:], "x.csv", TRACE_OPTIONS[data[0] % len(TRACE_OPTIONS)] if data else TRACE_OPTIONS[0])
    assert trace.instants_s[0] == 0.0 and (trace.instants_s[1:] >= trace.instants_s[:-1]).all()
    laid = schedule(trace, time_unit_s=0.1, horizon_units=50.0, rate=1.0)
    assert ((laid.instants_units >= 0.0) & (laid.instants_units < 50.0)).all()


def event_log(data: bytes) -> None:
    """What a process wrote down, read after it was killed."""
    log = read_log(data)
    sequence = log.records["sequence"]
    assert (sequence[1:] > sequence[:-1]).all() and log.overwritten >= 0
    assert log.described() and type(log.since) is float
    assert used_bytes(data) >= HEAD_BYTES


TARGETS: dict[str, Target] = {
    "frame_from_server": Target(frame_from_server, (RemoteProtocolError,), "msgpack", seeds.from_server()),
    "frame_from_router": Target(frame_from_router, (RemoteProtocolError,), "msgpack", seeds.from_router()),
    "stream_requests": Target(stream_requests, (RemoteProtocolError,), "msgpack", seeds.requests()),
    "stream_answers": Target(stream_answers, (RemoteProtocolError,), "msgpack", seeds.answers()),
    "router_session": Target(router_session, (), "msgpack", seeds.router_sessions()),
    "router_links": Target(router_links, (), "msgpack", seeds.two_links(), 6000),
    "server_session": Target(server_session, (), "msgpack", seeds.server_sessions()),
    "job_body": Target(job_body, (BadRequest,), "json", seeds.jobs(), 1100),
    "policy_body": Target(policy_body, (BadRequest, SettingsError), "json", seeds.policies(), 1200),
    "order_body": Target(order_body, (ValueError, RecursionError), "json", seeds.orders(), 512),
    "fast_path": Target(fast_path, (), "text", seeds.connections()),
    "authorization": Target(authorization, (), "text", seeds.authorizations(), 128),
    "address": Target(address, (SettingsError,), "text", seeds.addresses(), 128),
    "scenario_text": Target(scenario_text, (SettingsError,), "toml", seeds.scenarios()),
    "scenario_override": Target(scenario_override, (SettingsError,), "text", seeds.overrides(), 128),
    "event_log": Target(event_log, (RemoteProtocolError,), "text", seeds.event_logs(), 6000),
    "trace_file": Target(trace_file, (TraceError,), "text", seeds.traces()),
}


def check(target: Target, data: bytes) -> bool:
    """Hand one input over; whether it was taken. Whatever is neither taken nor refused comes out as it is."""
    try:
        target.read(data)
    except target.refusals:
        return False
    return True
