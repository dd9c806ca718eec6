"""Looks at a cluster at a fixed pace, whoever looks on, and tells all viewers what it has seen."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from services.console.fleet import Fleet
from services.console.journal import Journal, fleet_changes, number_in, policy_changes, router_changes
from services.console.places import Asks, Places, ask_all
from services.console.shown import load_shows, router_shows, server_shows
from services.console.status import History, models_json, process_rows, router_rows
from services.console.viewers import Viewers
from services.console.window import Reading, Window
from services.lab.watch import Watch
from services.measure.validity import invalidities
from services.scenario import Scenario
from services.solver import Solution

LOOK_EVERY_S = 0.25
COUNTERS_EVERY = 4
"""Counters are read at each fourth look: they cost a process more than its queue lengths do."""

_log = logging.getLogger(__name__)


class Collector:
    """Collects what the page shows.

    Args:
        scenario: What was started, or is believed to run.
        places: Where the processes are. `asks`: how they are asked.
        watch: What models predict of the cluster.
        about: What every page is told first: title, forms, what it may do.
        clock: Seconds since 1970.

    Attributes:
        viewers: Who is told. `journal`: the log of events. `fleet`: the servers.
        status: What was told last; empty before the first look.
        load_before: The load that a pause interrupted.
    """

    def __init__(
        self,
        scenario: Scenario,
        places: Places,
        asks: Asks,
        watch: Watch,
        about: dict[str, Any],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.viewers = Viewers(self.hello)
        self.journal = Journal(clock, lambda entry: self.viewers.tell("log", [entry.json()]))
        self.fleet = Fleet([pool.name for pool in scenario.pools])
        self.status: dict[str, Any] = {}
        self.load_before: float | None = None
        self._places, self._asks, self._watch, self._about, self._clock = places, asks, watch, about, clock
        self._window = Window(scenario.time_unit_s)
        self._history = History()
        self._routers: dict[str, str] = {}
        self._policy: dict[str, Any] | None = None
        self._rate: float | None = None
        self._models = models_json(None, asked=False)
        self._modelled: tuple[bool, Solution | None] = (False, None)
        self._problem = ""
        self._losses: dict[str, float] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        models = asyncio.create_task(self._watch.run())
        try:
            look = 0
            due = time.monotonic()
            while True:
                await self.look(look % COUNTERS_EVERY == 0)
                look += 1
                due = max(due + LOOK_EVERY_S, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
        finally:
            models.cancel()

    async def look(self, counters: bool) -> None:
        """Look once.

        Args:
            counters: Also read counters, policies and load, which takes more.
        """
        try:
            await self._see_fleet()
            if counters:
                await self._see_counters()
        except Exception as error:
            # Something answers there, but not as one of ours: whatever it says, the page goes on with what it has.
            _log.warning("an answer that is not understood: %r", error)

    def hello(self) -> dict[str, Any]:
        """Everything that a new page needs."""
        return {
            **self._about,
            "fleet": self.fleet.json(),
            "queues": self.fleet.queues(),
            "status": self.status or None,
            "models": self._models,
            "history": self._history.json(),
            "log": [entry.json() for entry in self.journal.entries],
        }

    def name_of(self, url: str) -> str:
        """What a server process is called: else, by what its servers' names have in common, or its address."""
        first = next((place.id for place in self.fleet.places if place.process == url), "")
        return self._places.name(url) or number_in(first)[0].rstrip("-") or url.partition("://")[2]

    async def _see_fleet(self) -> None:
        before, version = self.fleet.places, self.fleet.version
        if urls := await self._places.servers():
            self.fleet.see_servers(urls, await ask_all(urls, "/v1/servers", self._asks.json))
        elif routers := await self._places.routers():
            self.fleet.see_routers(await ask_all(routers, "/v1/servers", self._asks.json))
        if self.fleet.version != version:
            self.journal.add_all(fleet_changes(before, self.fleet.places))
            self.viewers.tell("fleet", self.fleet.json())
        self.viewers.tell("queues", self.fleet.queues())

    async def _see_counters(self) -> None:
        urls = await self._places.routers()
        policies = await ask_all(urls, "/v1/policy", self._asks.json)
        await self._see_routers(list(policies))
        tables = list(policies.values())
        policy = tables[0] if tables and all(table == tables[0] for table in tables) else None
        load = await self._see_load()
        rate = load["rate_total"] if load else self._rate  # a generator that does not answer has not changed it
        if (policy != self._policy and policy is not None) or rate != self._rate:
            self._window.clear()
        self.journal.add_all(policy_changes(self._policy, policy))
        self._policy = policy or self._policy
        self._see_rate(load)
        texts = await ask_all(list(policies), "/metrics", self._asks.text)
        routers = {url: router_shows(text, str(policies[url]["name"])) for url, text in texts.items()}
        texts = await ask_all(await self._places.servers(), "/metrics", self._asks.text)
        servers = {url: server_shows(text) for url, text in texts.items()}
        texts = await ask_all(await self._places.generators(), "/metrics", self._asks.text)
        generators = {url: load_shows(text) for url, text in texts.items()}
        reading = Reading(time.monotonic(), routers, servers, generators)
        self._see_losses(reading)
        self._window.add(reading)
        values = {name: round(value, 6) for name, value in self._window.values().items()}
        rates = self._window.rates()
        self._see_models()
        self.status = {
            "at_s": round(self._clock(), 3),
            "window_s": round(self._window.span_s, 2),
            "policy": policy,
            "load": load and load | {"before": self.load_before},
            "values": values,
            "doubts": self._doubts({url: rate["cpu"] for url, rate in rates.items()}),
            "routers": router_rows(reading, self._routers, policies, rates),
            "processes": process_rows(reading, self.fleet, self.name_of),
        }
        self.viewers.tell("status", self.status)
        self._history.add(self.status["at_s"], values, self._models["values"])

    def _doubts(self, cpu: dict[str, float]) -> list[str]:
        """Why the values say more of the machine than of the policy; empty: they do not.

        Rule: the limits of `herdless run`, but for that of delays, which only a run knows message by message.
        """
        by_name: dict[str, float] = {}
        for url, cores in cpu.items():
            name = self._routers.get(url) or self.name_of(url)  # which two may share: that of their pool
            by_name[name] = max(cores, by_name.get(name, 0.0))
        return invalidities(self._window.lateness_p99_units(), 0.0, by_name, 0)

    async def _see_routers(self, urls: list[str]) -> None:
        unknown = [url for url in urls if url not in self._routers]
        health = await ask_all(unknown, "/health", self._asks.json)
        names = self._routers | {url: str(answer["id"]) for url, answer in health.items()}
        now = {url: names[url] for url in urls if url in names}
        self.journal.add_all(router_changes(self._routers, now))
        self._routers = now

    async def _see_load(self) -> dict[str, Any] | None:
        """What all generators send; `None`: none is known or answers."""
        urls = await self._places.generators()
        answers = list((await ask_all(urls, "/v1/load", self._asks.json)).values())
        if not answers:
            return None
        return {key: sum(float(answer[key]) for answer in answers) for key in ("load", "rate_total", "rate_per_s")}

    def _see_rate(self, load: dict[str, Any] | None) -> None:
        if load is None:
            return
        if load["load"] > 0.0:
            self.load_before = load["load"]
        if self._rate is not None and load["rate_total"] != self._rate:
            paused = load["load"] == 0.0
            self.journal.add("load", "load paused" if paused else f"load is now {load['load']:.3g}")
        self._rate = load["rate_total"]

    def _see_losses(self, reading: Reading) -> None:
        now = {url: shown.counts["link_losses"] for url, shown in reading.servers.items()}
        for url, losses in now.items():
            if (more := losses - self._losses.get(url, losses)) > 0:
                links = "a link to a router" if more == 1 else f"{more:.0f} links to routers"
                self.journal.add("lost", f"{self.name_of(url)} lost {links}")
        self._losses = now

    def _see_models(self) -> None:
        """Show predictions only for what is in force; a model that fails is told, once."""
        watch = self._watch
        if watch.problem != self._problem:
            self._problem = watch.problem
            if watch.problem:
                self.journal.add("problem", f"the models cannot say: {watch.problem}")
        fits = watch.looked and (self._policy is None or watch.scenario.policy == self._policy)
        modelled = (fits, watch.solution if fits else None)
        if modelled != self._modelled:
            self._modelled = modelled
            self._models = models_json(modelled[1], fits)
            self.viewers.tell("models", self._models)
