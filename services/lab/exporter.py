"""Shows to Prometheus what the models predict of a cluster that runs, and follows its policy, load and size."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from router.process.access import Access
from router.process.client import open_session
from router.process.logs import log_to_standard_error
from router.process.metrics import Metric, Metrics
from router.process.serve import Listen, serve
from router.process.serve import run as run_loop
from router.process.web import application, shows
from router.protocol.errors import HerdlessError, SettingsError
from services.lab.attach import addresses
from services.lab.errors import RunInvalid
from services.scenario import Scenario
from services.scenario_parts import MOST_ROUTERS, Pool, Routers
from services.solver import Solution, predict

LOOK_EVERY_S = 2.0
LIMIT_S = 5.0
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
    "Looks at the cluster that failed, by what was seen: unreachable, no one policy, or not a scenario",
    "counter",
    ("cause",),
)
CAUSES = ("unreachable", "policies_differ", "scenario")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """What is watched.

    Attributes:
        scenario: Service law, patience, time unit and the order of the pools come from it.
        routers: Of the cluster: URLs, `host:port` or names, with commas between.
        load: Endless generators, in the same way; empty: the load is the scenario's.
        host, port: Where it listens.
        end_with_parent: End when standard input ends.
    """

    scenario: Scenario
    routers: str
    load: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    end_with_parent: bool = False


class Watch:
    """Looks at a cluster again and again, and asks the models whenever it has changed.

    Rule: the policy is the one in force at all routers that answer, at least one; the servers are those that the first
    of them knows and that take jobs; the arrival rate is the sum of what the generators have been asked for (exact,
    while a measured rate would make the models' values flicker), and the scenario's where no generator answers. The
    jobs of a router that does not answer reach no server: its share is taken off the rate.

    Args:
        settings: What is watched.
        look_every_s: The pause between two looks.

    Attributes:
        scenario: The situation that was seen last. `solution`: what is predicted of it; `None`: nothing.
        looked: Whether the last look succeeded.
        solves: Situations so far. `solve_s`: what the last one took.
        failures: Looks that failed, by cause.
    """

    def __init__(self, settings: ExporterSettings, *, look_every_s: float = LOOK_EVERY_S) -> None:
        self.scenario = settings.scenario
        self.solution: Solution | None = None
        self.looked = False
        self.solves = 0
        self.solve_s = 0.0
        self.failures = dict.fromkeys(CAUSES, 0)
        self._settings = settings
        self._look_every_s = look_every_s

    async def run(self) -> None:
        """Look until cancelled."""
        async with open_session(LIMIT_S) as session:
            while True:
                await self._look(session)
                await asyncio.sleep(self._look_every_s)

    async def _look(self, session: aiohttp.ClientSession) -> None:
        try:
            seen = await self._see(session)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            self._fail("unreachable", error)
        except HerdlessError as error:
            self._fail("scenario" if isinstance(error, SettingsError) else "unreachable", error)
        else:
            if seen is None:
                self._fail("policies_differ", "routers follow different policies")
            elif seen != self.scenario or not self.looked:
                started = time.perf_counter()
                # In a thread: a mean field may take seconds, in which the metrics are still to be answered.
                # Of a pause nothing is predicted.
                solution = None if seen.arrivals.rate_total == 0.0 else await asyncio.to_thread(predict, seen)
                self.scenario, self.solution, self.looked = seen, solution, True
                self.solves += 1
                self.solve_s = time.perf_counter() - started

    def _fail(self, cause: str, why: object) -> None:
        if self.looked or not self.failures[cause]:
            _log.warning("%s: %s", cause, why)
        self.failures[cause] += 1
        self.solution, self.looked = None, False

    async def _see(self, session: aiohttp.ClientSession) -> Scenario | None:
        """The scenario as it is now; `None`: the routers' policies differ."""
        settings = self._settings
        listed = await addresses(settings.routers)
        answers = await asyncio.gather(*(_answer(session, f"{url}/v1/policy") for url in listed))
        policies = {place: answer for place, answer in enumerate(answers) if not isinstance(answer, Exception)}
        if not policies:
            raise RunInvalid("unreachable", f"no router answers, of {len(listed)}: {answers[0]!r}")
        first, *_ = policies
        if any(policy != policies[first] for policy in policies.values()):
            return None
        there = (await _get(session, f"{listed[first]}/v1/servers"))["servers"]
        scenario = settings.scenario
        update: dict[str, Any] = {"pools": _pools(scenario, there) or scenario.pools}
        shares = scenario.routers.shares if scenario.routers.count == len(listed) else [1.0] * len(listed)
        reached = [shares[place] for place in policies]
        if reached != scenario.routers.shares:
            update["routers"] = _routers(reached)
        rate = await self._rate(session)
        if rate is None:
            with suppress(SettingsError):  # a trace that is replayed at its own pace
                # A load is one of the servers that were planned; the jobs do not become more because servers do.
                rate = scenario.rate_total
        if rate is not None:
            found = dict.fromkeys(("load", "rate_per_server")) | {"rate_total": rate * sum(reached) / sum(shares)}
            update["arrivals"] = scenario.arrivals.model_copy(update=found)
        return scenario.model_copy(update=update).with_policy(policies[first])

    async def _rate(self, session: aiohttp.ClientSession) -> float | None:
        if not self._settings.load:
            return None
        with suppress(HerdlessError, aiohttp.ClientError, OSError, TimeoutError):
            urls = await addresses(self._settings.load)
            answers = await asyncio.gather(*(_get(session, f"{url}/v1/load") for url in urls))
            return sum(float(answer["rate_total"]) for answer in answers)
        return None


async def _get(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as response:
        response.raise_for_status()
        return await response.json()


async def _answer(session: aiohttp.ClientSession, url: str) -> Any:
    """What is there, or why nobody answers."""
    try:
        return await _get(session, url)
    except (aiohttp.ClientConnectionError, OSError, TimeoutError) as error:
        return error


def _routers(shares: list[float]) -> Routers:
    """So many routers; models know as many as a scenario may have."""
    if len(set(shares)) == 1:  # and be it that none of them gets any job
        return Routers(count=min(len(shares), MOST_ROUTERS))
    return Routers.model_validate({"split": shares})


def _pools(scenario: Scenario, there: Sequence[Mapping[str, Any]]) -> list[Pool]:
    """The pools that have servers which take jobs: those of the scenario first, in its order."""
    found: dict[str, list[Mapping[str, Any]]] = {pool.name: [] for pool in scenario.pools}
    for entry in there:
        if entry["state"] == "live":
            found.setdefault(str(entry["pool"]), []).append(entry)
    return [
        Pool(name=name, servers=len(servers), rate=float(servers[0]["rate"]), slots=int(servers[0]["slots"]),
             capacity=float(servers[0]["capacity"]))
        for name, servers in found.items() if servers
    ]  # fmt: skip


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


def exporter_metrics(watch: Watch) -> Metrics:
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
    return metrics


def make_application(watch: Watch, access: Access | None = None) -> web.Application:
    """The HTTP interface; it looks at the cluster while it runs. There is nothing in it that could be changed."""

    async def get_health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "role": "exporter"})

    async def get_ready(_: web.Request) -> web.Response:
        return web.json_response({"ready": watch.looked}, status=200 if watch.looked else 503)

    async def get_model(_: web.Request) -> web.Response:
        scenario = watch.scenario
        seen = {
            "scenario": scenario.name, "policy": scenario.policy, "routers": scenario.routers.count,
            "servers": {pool.name: pool.servers for pool in scenario.pools}, "rate_total": scenario.rate_total,
            "load": scenario.load, "models": None if watch.solution is None else watch.solution.to_json(),
        }  # fmt: skip
        return web.json_response(seen, dumps=lambda value: json.dumps(value, ensure_ascii=False))

    async def watching(_: web.Application) -> Any:
        task = asyncio.create_task(watch.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    app = application(
        (
            ("GET", "/health", get_health),
            ("GET", "/ready", get_ready),
            ("GET", "/metrics", shows(exporter_metrics(watch))),
            ("GET", "/v1/model", get_model),
        ),
        access or Access(None),
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
        return await serve(make_application(Watch(settings), listen.access), listen)

    return run_loop(main)
