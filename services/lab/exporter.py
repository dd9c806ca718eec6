"""Shows to Prometheus what the models predict of a cluster that runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from router.process.access import Access
from router.process.limits import REFUSALS, Connections, refusals
from router.process.logs import log_to_standard_error
from router.process.metrics import Metric, Metrics
from router.process.serve import Listen, serve
from router.process.serve import run as run_loop
from router.process.web import application, looking, reply, shows
from services.lab.watch import Watch
from services.scenario import Scenario
from services.solver import Solution

LONGEST_TAIL = 20

VALUE = Metric(
    "herdless_model_value",
    "What a model predicts of a quantity: time units, per arrival, or shares of servers; pool and k may be empty",
    "gauge",
    ("quantity", "pool", "k", "method", "policy"),
)
INFO = Metric("herdless_model_info", "1 for what is predicted now", "gauge", ("scenario", "policy", "parameters"))
RATE = Metric("herdless_model_rate", "Arrival rate that is assumed, jobs per time unit", "gauge")
LOAD = Metric("herdless_model_load", "The same over what the servers that are there can serve", "gauge")
SERVERS = Metric("herdless_model_servers", "Servers that are assumed", "gauge", ("pool",))
ROUTERS = Metric("herdless_model_routers", "Routers that are assumed", "gauge")
TIME_UNIT = Metric("herdless_model_time_unit_seconds", "Seconds in a time unit", "gauge")
SOLVES = Metric("herdless_model_solves_total", "Situations that models were asked about", "counter")
SOLVE_SECONDS = Metric("herdless_model_solve_seconds", "What the last answer took", "gauge")
FAILURES = Metric(
    "herdless_model_failures_total",
    "Looks at the cluster that failed, by what was seen: unreachable, no one policy, not a scenario, or a model failed",
    "counter",
    ("cause",),
)
REFUSED = Metric("herdless_model_http_refusals_total", "HTTP requests refused, by reason", "counter", ("reason",))


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """What is watched.

    Attributes:
        scenario, routers, load: See `Watch`.
        host, port: Where it listens.
        end_with_parent: End when standard input ends.
    """

    scenario: Scenario
    routers: str
    load: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    end_with_parent: bool = False


def model_values(scenario: Scenario, solution: Solution | None) -> dict[tuple[str, ...], float]:
    """All predictions by (quantity, pool, k, method, policy)."""
    if solution is None:
        return {}
    values: dict[tuple[str, ...], float] = {}
    pools = [pool.name for pool in scenario.pools]
    for name, by_method in solution.quantities.items():
        head, _, tail = name.partition(".")
        quantity, pool = (head, tail) if tail in pools else (name, "")
        for method, prediction in by_method.items():
            if isinstance(prediction.value, list):
                shares = enumerate(prediction.value[: LONGEST_TAIL + 1])
                values.update({(quantity, pool, str(k), method, scenario.policy_name): share for k, share in shares})
            else:
                values[quantity, pool, "", method, scenario.policy_name] = prediction.value
    return values


def exporter_metrics(watch: Watch, access: Access, connections: Connections) -> Metrics:
    """The metrics of an exporter. Predictions of what is no more are shown no more."""
    metrics = Metrics()

    def info() -> dict[tuple[str, ...], float]:
        table = watch.scenario.policy
        parameters = ", ".join(f"{key} = {value}" for key, value in table.items() if key != "name")
        return {(watch.scenario.name, watch.scenario.policy_name, parameters): float(watch.looked)}

    metrics.add(VALUE, lambda: model_values(watch.scenario, watch.solution))
    metrics.add(INFO, info)
    metrics.add(RATE, lambda: watch.scenario.rate_total)
    metrics.add(LOAD, lambda: watch.scenario.load)
    metrics.add(SERVERS, lambda: {pool.name: float(pool.servers) for pool in watch.scenario.pools})
    metrics.add(ROUTERS, lambda: watch.scenario.routers.count)
    metrics.add(TIME_UNIT, lambda: watch.scenario.time_unit_s)
    metrics.add(SOLVES, lambda: watch.solves)
    metrics.add(SOLVE_SECONDS, lambda: watch.solve_s)
    metrics.add(FAILURES, lambda: watch.failures)
    metrics.add(REFUSED, lambda: refusals(access, connections), [(reason,) for reason in REFUSALS])
    return metrics


def make_application(watch: Watch, access: Access | None = None) -> web.Application:
    """The HTTP interface; it looks at the cluster while it runs. There is nothing in it that could be changed."""
    access, connections = access or Access(None), Connections()

    async def get_health(_: web.Request) -> web.Response:
        return reply({"status": "ok", "role": "exporter"})

    async def get_ready(_: web.Request) -> web.Response:
        return reply({"ready": watch.looked}, 200 if watch.looked else 503)

    async def get_model(_: web.Request) -> web.Response:
        scenario = watch.scenario
        seen = {
            "scenario": scenario.name, "policy": scenario.policy, "routers": scenario.routers.count,
            "servers": {pool.name: pool.servers for pool in scenario.pools}, "rate_total": scenario.rate_total,
            "load": scenario.load, "models": None if watch.solution is None else watch.solution.to_json(),
        }  # fmt: skip
        return reply(seen)

    async def watching(_: web.Application) -> Any:
        task = asyncio.create_task(watch.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    app = application(
        (
            looking("/health", get_health),
            looking("/ready", get_ready),
            looking("/metrics", shows(exporter_metrics(watch, access, connections))),
            looking("/v1/model", get_model),
        ),
        access,
        connections,
    )
    app.cleanup_ctx.append(watching)
    return app


def run(settings: ExporterSettings) -> int:
    """Run until told to end; return the exit code.

    Raises:
        SettingsError: The scenario does not say at what rate jobs arrive.
    """
    log_to_standard_error("exporter")
    _ = settings.scenario.rate_total
    listen = Listen("exporter", "exporter", settings.host, settings.port, end_with_parent=settings.end_with_parent)

    async def main() -> int:
        watch = Watch(settings.scenario, settings.routers, settings.load)
        return await serve(make_application(watch, listen.access), listen)

    return run_loop(main)
