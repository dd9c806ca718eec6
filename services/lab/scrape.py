"""Reads the counters of all processes, now and then and at the end, from what they show to Prometheus."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from router.process.client import open_session
from router.protocol.messages import CONTROL_KINDS
from services.lab.errors import RunInvalid
from services.lab.readings import Reading

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

    @property
    def finite(self) -> bool:
        """Whether all values are finite, as counters are."""
        return all(math.isfinite(value) for found in self._values.values() for _, value in found)

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
