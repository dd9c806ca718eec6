"""Reads the counters of all processes, now and then and at the end, from what they show to Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from router.policy import Policy
from router.process.client import open_session
from router.protocol.messages import CONTROL_KINDS
from services.lab.errors import RunInvalid
from services.measure.quantities import SERVED
from services.measure.records import Floats, MessageLog, Records
from services.simulator.network import Delays

READINGS = 200
FAREWELL_S = 0.5
SHORTEST_PAUSE_S = 0.25

Key = tuple[str, frozenset[tuple[str, str]]]

# Parsing everything a few times a second would cost as much as a small router.
_READ_OFTEN = (
    "herdless_router_jobs_total", "herdless_router_messages_", "herdless_router_one_way_",
    "herdless_server_messages_sent_total", "herdless_server_one_way_", "process_cpu_seconds_total",
)  # fmt: skip


class Samples:
    """The samples of one process.

    Args:
        text: In Prometheus's text format.
    """

    def __init__(self, text: str) -> None:
        self._values: dict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._values[sample.name].append((sample.labels, sample.value))

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name which have these labels."""
        wanted = labels.items()
        return sum(value for found, value in self._values[name] if wanted <= found.items())

    def by(self, name: str, label: str) -> dict[str, float]:
        """Their sums by the value of one label."""
        sums: dict[str, float] = defaultdict(float)
        for found, value in self._values[name]:
            sums[found[label]] += value
        return dict(sums)

    def buckets(self, name: str) -> list[tuple[float, float]]:
        """The buckets of a histogram: upper bound and observations up to it."""
        return sorted((float(found["le"]), value) for found, value in self._values[name + "_bucket"])


@dataclass(frozen=True)
class Reading:
    """All counters of all processes at about one instant.

    Attributes:
        instant_s: On this host's monotonic clock.
        jobs: That had arrived at routers.
        sent: Control messages, by kind.
        delay_s: One-way delays by hop, added up, and `delayed`: of how many messages.
        cpu_s: CPU seconds of each process, by URL.
    """

    instant_s: float
    jobs: int
    sent: dict[str, int]
    delay_s: dict[str, float]
    delayed: dict[str, float]
    cpu_s: dict[str, float]


@dataclass
class Scraper:
    """Reads routers and servers.

    Attributes:
        routers, servers: Their URLs; where no server process is known, routers say what they have received.
        readings: So far.
        silent: URLs of those that are not asked, because they stand still or are gone: what they said last holds.
        struck: URLs of those to which something has happened: that they do not answer is no surprise.
        former: What earlier incarnations said last, by URL.
    """

    routers: Sequence[str]
    servers: Sequence[str]
    readings: list[Reading] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    struck: set[str] = field(default_factory=set)
    former: dict[str, list[str]] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)

    async def read_on(self, every_s: float) -> None:
        """Read again and again, until cancelled."""
        async with open_session(10.0) as session:
            due = time.monotonic()
            while True:
                self.readings.append(await self._read(session))
                due = max(due + every_s, time.monotonic())
                await asyncio.sleep(due - time.monotonic())

    async def read_once(self) -> dict[str, str]:
        """Read once more; return everything that each process shows, by URL."""
        async with open_session(10.0) as session:
            texts = await self._texts(session)
            self.readings.append(self._sum_up(texts, time.monotonic()))
            return texts

    async def farewell(self, url: str) -> None:
        """Read a process for the last time, before something happens to it."""
        self.struck.add(url)
        async with open_session(FAREWELL_S) as session:
            await self._text(session, url)
        self.silent.add(url)

    def begins_anew(self, url: str) -> None:
        """A new incarnation has taken the place of a process, and counts from 0."""
        self.former.setdefault(url, []).append(self._last.pop(url, ""))
        self.silent.discard(url)

    def incarnations(
        self, before: Mapping[str, str], after: Mapping[str, str]
    ) -> tuple[dict[str, Samples], dict[str, Samples], list[str], list[str]]:
        """What each incarnation has said first and last, and which of them are routers, and which servers.

        Args:
            before: What all processes have said at the beginning, by URL.
            after: What they said at the end.
        """
        first: dict[str, Samples] = {}
        last: dict[str, Samples] = {}
        names: dict[str, list[str]] = {}
        for url, text in after.items():
            texts = [*self.former.get(url, ()), text]
            names[url] = [f"{url} {number}" for number in range(len(texts))]
            last.update({name: Samples(said) for name, said in zip(names[url], texts, strict=True)})
            first[names[url][0]] = Samples(before.get(url, ""))
        routers, servers = ([name for url in urls for name in names[url]] for urls in (self.routers, self.servers))
        return first, last, routers, servers

    async def _read(self, session: aiohttp.ClientSession) -> Reading:
        before = time.monotonic()
        texts = await self._texts(session)
        return self._sum_up(texts, (before + time.monotonic()) / 2.0)

    async def _texts(self, session: aiohttp.ClientSession) -> dict[str, str]:
        urls = [*self.routers, *self.servers]
        return dict(zip(urls, await asyncio.gather(*(self._text(session, url) for url in urls)), strict=True))

    async def _text(self, session: aiohttp.ClientSession, url: str) -> str:
        incarnations = len(self.former.get(url, ()))
        if url not in self.silent:
            try:
                text = await _text(session, url)
            except RunInvalid:
                if url not in self.struck:
                    raise
            else:
                if incarnations == len(self.former.get(url, ())):
                    self._last[url] = text
        return self._last.get(url, "")

    def _sum_up(self, texts: Mapping[str, str], instant_s: float) -> Reading:
        samples = {url: Samples(_only(text)) for url, text in texts.items()}
        former = {url: [Samples(_only(text)) for text in self.former.get(url, ())] for url in texts}
        routers = [each for url in self.routers for each in (samples[url], *former[url])]
        servers = [each for url in self.servers if url in texts for each in (samples[url], *former[url])]
        delay_s: dict[str, float] = defaultdict(float)
        delayed: dict[str, float] = defaultdict(float)
        for process in routers:
            _add(delay_s, process.by("herdless_router_one_way_seconds_total", "hop"))
            _add(delayed, process.by("herdless_router_one_way_messages_total", "hop"))
        for process in servers:
            _add(delay_s, process.by("herdless_server_one_way_delay_seconds_total", "hop"))
            _add(delayed, process.by("herdless_server_one_way_delays_total", "hop"))
        return Reading(
            instant_s,
            int(sum(process.total("herdless_router_jobs_total") for process in routers)),
            control_messages(routers, servers),
            delay_s,
            delayed,
            {url: process.total("process_cpu_seconds_total") for url, process in samples.items()},
        )


def control_messages(routers: Sequence[Samples], servers: Sequence[Samples]) -> dict[str, int]:
    """Control messages by kind, as their senders count them; without servers to ask, as routers received them."""
    sent = {}
    for kind in CONTROL_KINDS:
        if kind == "probe":
            count = sum(router.total("herdless_router_messages_sent_total", kind=kind) for router in routers)
        elif servers:
            count = sum(server.total("herdless_server_messages_sent_total", kind=kind) for server in servers)
        else:
            count = sum(router.total("herdless_router_messages_received_total", kind=kind) for router in routers)
        sent[kind] = int(count)
    return sent


def message_log(readings: Sequence[Reading], start_s: float, time_unit_s: float) -> MessageLog:
    """The readings as a run keeps them."""
    return MessageLog(
        np.array([(reading.instant_s - start_s) / time_unit_s for reading in readings]),
        np.array([reading.jobs for reading in readings], np.int64),
        {kind: np.array([reading.sent[kind] for reading in readings], np.int64) for kind in CONTROL_KINDS},
    )


def between(readings: Sequence[Reading], from_s: float, to_s: float) -> tuple[Reading, Reading]:
    """The first reading at or after `from_s`, and the last one at or before `to_s`, or those next to them."""
    inside = [reading for reading in readings if from_s <= reading.instant_s <= to_s]
    if len(inside) < 2:
        return readings[0], readings[-1]
    return inside[0], inside[-1]


def measured_delays(
    first: Reading,
    last: Reading,
    records: Records,
    router_generator_units: float,
    time_unit_s: float,
    asked: float = 0.0,
    average: Callable[[Floats], Any] = np.mean,
) -> Delays:
    """Mean one-way delays of the jobs.

    A job's own instants give the whole way there and back: with the time that messages waited to be sent, and with
    the lag of the timer that ended its service. The stamps of messages say how that divides into hops. A job that
    waits for answers goes between router and server three times before it is there.

    Args:
        first: The reading at the beginning of the window.
        last: The reading at its end.
        records: Those of the jobs that count.
        router_generator_units: The mean by stamps; nan: unknown.
        time_unit_s: Seconds in a time unit.
        asked: The share of the jobs that waited for answers.
        average: Of many delays; the median does not see the few jobs that something has held up.
    """
    went = (records.server >= 0) & (records.outcome == SERVED)
    if not went.any():
        return Delays()
    there = max(float(average((records.arrived - records.sent)[went])), 0.0)
    back = max(float(average((records.ended - records.arrived - records.waiting - records.service)[went])), 0.0)
    messages = last.delayed.get("generator_router", 0.0) - first.delayed.get("generator_router", 0.0)
    seconds = last.delay_s.get("generator_router", 0.0) - first.delay_s.get("generator_router", 0.0)
    out = min(seconds / messages / time_unit_s, there) if messages else there / 2.0
    home = min(router_generator_units, back) if router_generator_units >= 0.0 else back / 2.0
    # The way there is out + a dispatch + the share asked × (a probe + an answer).
    server_router = back - home
    router_server = max(there - out - asked * server_router, 0.0) / (1.0 + asked)
    return Delays(out, router_server, server_router, home)


def share_asked(policy: Policy, records: Records) -> float:
    """The share of the jobs whose router asked servers, and waited for the answers, before it decided.

    Rule: a policy that decides on answers waits for them with each job; one that is sent pull-messages as well waits
    only where it holds none, and falls back.
    """
    if not policy.needs.probes or type(policy).on_reports is Policy.on_reports:
        return 0.0
    if policy.needs.pull is None:
        return 1.0
    return float(records.fallback.mean()) if records.fallback.size else 0.0


def cpu_shares(first: Reading, last: Reading) -> dict[str, float]:
    """Cores used by each process between two readings, by URL."""
    seconds = max(last.instant_s - first.instant_s, 1e-9)
    # A process that began later, or anew, has used what it says.
    before = {url: used if used <= last.cpu_s[url] else 0.0 for url, used in first.cpu_s.items()}
    return {url: (used - before.get(url, 0.0)) / seconds for url, used in last.cpu_s.items()}


async def _text(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.get(url + "/metrics") as response:
            response.raise_for_status()
            return await response.text()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise RunInvalid(
            "unreachable", f"{url}/metrics cannot be read ({type(error).__name__}): does the process still run?"
        ) from None


def _only(text: str) -> str:
    """The lines of the metrics that are read often."""
    return "\n".join(line for line in text.splitlines() if line.startswith(_READ_OFTEN)) + "\n"


def _add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    for key, value in more.items():
        sums[key] += value


async def failed_at(routers: Sequence[str]) -> dict[str, int]:
    """By server, the jobs that it ended as failed, as these routers tell; one that does not answer tells nothing."""
    failed: dict[str, int] = {}
    async with open_session(10.0) as session:
        for url in routers:
            try:
                async with session.get(f"{url}/v1/servers") as response:
                    servers = (await response.json())["servers"]
            except (aiohttp.ClientError, OSError, TimeoutError):
                continue
            for server in servers:
                failed[server["id"]] = failed.get(server["id"], 0) + server["failed"]
    return failed
