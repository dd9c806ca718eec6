"""A cluster made up for tests of the console: what its processes would answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.console.collector import Collector
from services.lab.watch import Watch
from services.scenario import Scenario, parse_scenario

ROUTERS = ("http://router-1", "http://router-2")
SERVERS = ("http://slow", "http://fast")
LOAD = "http://load"

SCENARIO = """
name = "small"
time_unit_s = 0.5

[policy]
name = "pull"

[routers]
count = 2

[[pools]]
name = "slow"
servers = 3

[[pools]]
name = "fast"
servers = 2
rate = 2.0

[arrivals]
load = 0.5
"""


def small() -> Scenario:
    return parse_scenario(SCENARIO, "small")


class Cluster:
    """Places and answers at once; change what it answers as you like.

    Attributes:
        up: URLs of the processes that answer.
        asked: URLs that were asked, in order. `sent`: what was sent to be changed.
        jobs: How many were sent. `late`: how many of them after their instant. `links_up`: of each server process.
        killed, added: What an owner of it was asked for.
    """

    def __init__(self) -> None:
        self.up = {*ROUTERS, *SERVERS, LOAD}
        self.known_servers: tuple[str, ...] = SERVERS
        self.asked: list[str] = []
        self.sent: list[tuple[str, str, Any]] = []
        self.killed: list[str] = []
        self.added: list[tuple[str, int]] = []
        self.policy: dict[str, Any] = {"name": "pull", "stale": "withdraw"}
        self.rate = 3.5
        self.jobs = 0
        self.late = 0
        self.links_up = "2"
        self.refusal: tuple[int, Any] | None = None
        self.lengths = {f"slow-{n}": 0 for n in (10, 9, 1)} | {"fast-1": 0, "fast-2": 0}

    async def routers(self) -> Sequence[str]:
        return ROUTERS

    async def servers(self) -> Sequence[str]:
        return self.known_servers

    async def generators(self) -> Sequence[str]:
        return (LOAD,)

    def name(self, url: str) -> str:
        return url.removeprefix("http://")

    async def json(self, url: str) -> Any:
        self.asked.append(url)
        base, path = url[: url.index("/", 7)], url[url.index("/", 7) :]
        if base not in self.up:
            return None
        if path == "/v1/servers":
            return {"servers": self._of_router() if base in ROUTERS else self._of_process(self.name(base))}
        rate = {"load": self.rate / 7.0, "rate_total": self.rate, "rate_per_s": self.rate / 0.5}
        return {"/v1/policy": self.policy, "/health": {"id": self.name(base)}, "/v1/load": rate}[path]

    async def text(self, url: str) -> str | None:
        self.asked.append(url)
        base = url.removesuffix("/metrics")
        if base not in self.up:
            return None
        if base == LOAD:
            return load_text(self.jobs, self.late)
        return router_text(str(self.policy["name"]), self.jobs) if base in ROUTERS else self._server_text(base)

    def _server_text(self, base: str) -> str:
        return server_text(self.name(base)).replace("links_up 2", f"links_up {self.links_up}")

    async def send(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        self.sent.append((method, url, body))
        return self.refusal or (200, body if body is not None else {})

    async def kill(self, url: str) -> str:
        self.killed.append(url)
        return self.name(url)

    async def add(self, pool: str, servers: int) -> str:
        self.added.append((pool, servers))
        return f"servers-{pool}-more"

    def _of_process(self, pool: str) -> list[dict[str, Any]]:
        return [
            {"id": id, "pool": pool, "queue_length": length, "state": "live"}
            for id, length in self.lengths.items()
            if id.startswith(pool)
        ]

    def _of_router(self) -> list[dict[str, Any]]:
        return [
            {"id": id, "pool": id.split("-")[0], "outstanding": length, "state": "live"}
            for id, length in self.lengths.items()
        ]


def router_text(policy: str, jobs: int, other: str = "random") -> str:
    """Of `jobs` jobs a quarter waited for half a second each, a tenth was blocked; another policy had some before."""
    labels = f'policy="{policy}"'
    return f"""
herdless_router_jobs_total{{{labels}}} {jobs}
herdless_router_jobs_total{{policy="{other}"}} 900000
herdless_router_dispatches_total{{{labels}}} {jobs}
herdless_router_fallback_dispatches_total{{{labels}}} {jobs / 5}
herdless_router_ends_total{{{labels},outcome="served",reason=""}} {jobs * 0.9}
herdless_router_ends_total{{{labels},outcome="blocked",reason=""}} {jobs * 0.1}
herdless_router_ends_total{{policy="{other}",outcome="served",reason=""}} 900000
herdless_router_admitted_total{{{labels},pool="slow"}} {jobs * 0.9}
herdless_router_zero_waits_total{{{labels},pool="slow"}} {jobs * 0.65}
herdless_router_waiting_seconds_total{{{labels},pool="slow"}} {jobs * 0.125}
herdless_router_sojourn_seconds_bucket{{{labels},le="0.0"}} 0
herdless_router_sojourn_seconds_bucket{{{labels},le="1.0"}} {jobs * 0.45}
herdless_router_sojourn_seconds_bucket{{{labels},le="2.0"}} {jobs * 0.9}
herdless_router_sojourn_seconds_bucket{{{labels},le="+Inf"}} {jobs * 0.9}
herdless_router_sojourn_seconds_sum{{{labels}}} {jobs * 0.9}
herdless_router_sojourn_seconds_count{{{labels}}} {jobs * 0.9}
herdless_router_messages_received_total{{kind="pull"}} {jobs}
herdless_router_messages_sent_total{{kind="probe"}} {jobs * 2}
herdless_router_pull_messages_held 4
herdless_router_in_flight 3
process_cpu_seconds_total {jobs / 100}
"""


def server_text(pool: str, pulls: int = 0, busy_s: float = 0.0) -> str:
    return f"""
herdless_server_busy_seconds_total{{pool="{pool}"}} {busy_s}
herdless_server_slots{{pool="{pool}"}} 2
herdless_server_messages_sent_total{{pool="{pool}",kind="pull"}} {pulls}
herdless_server_messages_sent_total{{pool="{pool}",kind="end"}} 77
herdless_server_link_losses_total 0
herdless_server_links_up 2
process_cpu_seconds_total 1
"""


def load_text(jobs: int, late: int) -> str:
    """Jobs that are late are so by 0.04 to 0.06 s, 0.08 to 0.12 time units."""
    return f"""
herdless_load_lateness_seconds_bucket{{le="0.0"}} {jobs - late}
herdless_load_lateness_seconds_bucket{{le="0.04"}} {jobs - late}
herdless_load_lateness_seconds_bucket{{le="0.06"}} {jobs}
herdless_load_lateness_seconds_bucket{{le="+Inf"}} {jobs}
process_cpu_seconds_total 0.0
"""


def watch() -> Watch:
    return Watch(small(), ",".join(ROUTERS))


def collector(cluster: Cluster, watching: Watch | None = None) -> Collector:
    """A collector of that cluster; its clock stands still."""
    return Collector(small(), cluster, cluster, watching or watch(), {"scenario": {"name": "small"}}, clock=lambda: 1e9)


def told(events: list[bytes], name: str) -> int:
    """How many events of that name are among these."""
    return sum(event.startswith(f"event: {name}\n".encode()) for event in events)
