"""The endless generator as a process: `/metrics` for Prometheus, and `/v1/load` by which the load is changed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from router.process.access import Access
from router.process.client import open_session
from router.process.limits import REFUSALS, Connections, body_of, refusals
from router.process.logs import log_to_standard_error
from router.process.metrics import Metric, Metrics
from router.process.serve import Listen, serve
from router.process.serve import run as run_loop
from router.process.web import Route, application, error_reply, looking, reply, shows
from router.registry import policy_names
from server.app.discovery import parse_target
from services.loadgen.client.book import RunningBook
from services.loadgen.client.endless import LOWEST_RATE, MOST_JOBS_PER_S, Endless, Schedule
from services.loadgen.trace import Trace
from services.scenario import Scenario

JOBS = Metric("herdless_load_jobs_total", "Jobs sent", "counter")
ENDS = Metric("herdless_load_ends_total", "Jobs ended", "counter", ("outcome", "reason"))
UNDER_WAY = Metric("herdless_load_under_way", "Jobs sent and not ended", "gauge")
DOUBLED = Metric("herdless_load_doubled_total", "Ends of jobs that had ended already", "counter")
LATENESS = Metric("herdless_load_lateness_seconds", "How late jobs were sent, against their schedule", "histogram")
SOJOURN = Metric(
    "herdless_load_sojourn_units",
    "From the intended instant of a served job to its end, in time units",
    "histogram",
    ("policy",),
)
RATE = Metric("herdless_load_rate", "Arrival rate asked for, jobs per time unit", "gauge")
LOAD = Metric("herdless_load_load", "The same over what the servers of the scenario can serve", "gauge")
TIME_UNIT = Metric("herdless_load_time_unit_seconds", "Seconds in a time unit", "gauge")
ROUTERS = Metric("herdless_load_routers", "Routers that can be sent jobs", "gauge")
REFUSED = Metric("herdless_load_http_refusals_total", "HTTP requests refused, by reason", "counter", ("reason",))


@dataclass(frozen=True, slots=True)
class EndlessSettings:
    """What an endless generator does.

    Attributes:
        scenario: What to send. `trace`: what it replays.
        routers: URLs, `host:port` or names, which stand for all their addresses.
        host, port: Where it listens.
        drain_limit_s: How long it waits for ends when it is told to end.
        end_with_parent: End when standard input ends.
    """

    scenario: Scenario
    trace: Trace | None
    routers: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 0
    drain_limit_s: float = 10.0
    end_with_parent: bool = False


def run(settings: EndlessSettings) -> int:
    """Send until told to end; return the exit code.

    Raises:
        SettingsError: The scenario cannot be sent without end.
    """
    log_to_standard_error("load")
    schedule = Schedule(settings.scenario, settings.trace)
    listen = Listen("load", "load", settings.host, settings.port, drain_limit_s=settings.drain_limit_s,
                    end_with_parent=settings.end_with_parent)  # fmt: skip

    async def main() -> int:
        unit_s = settings.scenario.time_unit_s
        book = RunningBook(policy_names(), unit_s)
        endless = Endless(schedule, book, [parse_target(text) for text in settings.routers], unit_s)
        web_interface = LoadWeb(endless, settings.scenario.service_rate_total, listen.access)
        return await serve(web_interface.application(), listen, web_interface.drain)

    return run_loop(main)


class LoadWeb:
    """The HTTP interface of an endless generator.

    Args:
        endless: The generator.
        service_rate_total: What the servers of the scenario can serve, in jobs per time unit.
        access: Whom to let in; left out: everybody.
    """

    def __init__(self, endless: Endless, service_rate_total: float, access: Access | None = None) -> None:
        self._endless = endless
        self._service_rate_total = service_rate_total
        self._access = access or Access(None)
        self._connections = Connections()
        self._metrics = load_metrics(endless, service_rate_total, self._access, self._connections)
        self._session: aiohttp.ClientSession

    def application(self) -> web.Application:
        """The application; jobs are sent while it runs."""
        app = application(
            (
                looking("/health", self.get_health),
                looking("/ready", self.get_ready),
                looking("/metrics", shows(self._metrics)),
                looking("/v1/load", self.get_load),
                Route("PUT", "/v1/load", self.put_load),
            ),
            self._access,
            self._connections,
        )
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._stop)
        return app

    async def drain(self) -> None:
        """Send nothing more, and wait for the ends of what is under way."""
        self._endless.stop()
        await self._endless.emptied()

    async def _start(self, _: web.Application) -> None:
        self._session = open_session()
        self._endless.start(self._session)

    async def _stop(self, _: web.Application) -> None:
        await self._endless.close()
        await self._session.close()

    async def get_health(self, _: web.Request) -> web.Response:
        """The process runs."""
        return reply({"status": "ok", "role": "load"})

    async def get_ready(self, _: web.Request) -> web.Response:
        """Some router can be sent jobs."""
        routers = self._endless.links_up
        return reply({"ready": routers > 0, "routers": routers}, 200 if routers else 503)

    async def get_load(self, _: web.Request) -> web.Response:
        """What is sent now."""
        rate, unit_s = self._endless.rate_total, self._endless.time_unit_s
        return reply(
            {"load": rate / self._service_rate_total, "rate_total": rate, "rate_per_s": rate / unit_s,
             "time_unit_s": unit_s, "routers": self._endless.links_up}
        )  # fmt: skip

    async def put_load(self, request: web.Request) -> web.Response:
        """Change what is sent, from now on; a load of 0 is a pause."""
        try:
            rate = self._rate_in(json.loads(await body_of(request)))
        except (ValueError, RecursionError) as error:  # of JSON and UTF-8 too
            return error_reply(400, "settings", str(error))
        self._endless.set_rate(rate)
        return await self.get_load(request)

    def _rate_in(self, body: Any) -> float:
        if type(body) is not dict or len(body) != 1 or not body.keys() <= {"load", "rate_total"}:
            raise ValueError(f'expected {{"load": …}} or {{"rate_total": …}}, found {body!r:.80}')
        ((key, value),) = body.items()
        if type(value) not in (int, float) or not 0.0 <= value < math.inf:
            raise ValueError(f"{key} = {value!r:.80}: expected a finite number from 0")
        rate = float(value) * (self._service_rate_total if key == "load" else 1.0)
        if rate / self._endless.time_unit_s > MOST_JOBS_PER_S:
            raise ValueError(f"{key} = {value:g}: that is more than {MOST_JOBS_PER_S:,.0f} jobs/s, the limit")
        if 0.0 < rate < LOWEST_RATE:
            raise ValueError(f"{key} = {value:g}: expected 0, or at least {LOWEST_RATE:g} jobs in a time unit")
        return rate


def load_metrics(
    endless: Endless, service_rate_total: float, access: Access, connections: Connections | None = None
) -> Metrics:
    """The metrics of an endless generator; every label set is there from the start."""
    book = endless.book
    metrics = Metrics()
    metrics.add(JOBS, lambda: book.sent)
    metrics.add(ENDS, lambda: book.counts)
    metrics.add(UNDER_WAY, lambda: book.under_way)
    metrics.add(DOUBLED, lambda: book.doubled)
    metrics.add(LATENESS, lambda: book.lateness_s)
    metrics.add(SOJOURN, lambda: book.sojourn_units)
    metrics.add(RATE, lambda: endless.rate_total)
    metrics.add(LOAD, lambda: endless.rate_total / service_rate_total)
    metrics.add(TIME_UNIT, lambda: endless.time_unit_s)
    metrics.add(ROUTERS, lambda: endless.links_up)
    there = connections or Connections()
    metrics.add(REFUSED, lambda: refusals(access, there), [(reason,) for reason in REFUSALS])
    return metrics
