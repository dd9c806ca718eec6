"""Follows a cluster that runs: its policy, load and size, and what the models predict of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from router.process.client import open_session
from router.protocol.errors import HerdlessError, SettingsError
from services.lab.attach import addresses
from services.lab.errors import RunInvalid
from services.scenario import Scenario
from services.scenario_parts import MOST_ROUTERS, Pool, Routers
from services.solver import Solution, predict

LOOK_EVERY_S = 2.0
LIMIT_S = 5.0
CAUSES = ("unreachable", "policies_differ", "scenario", "model")
"""Why a look may fail."""

_log = logging.getLogger(__name__)


class Watch:
    """Looks at a cluster again and again, and asks the models whenever it has changed.

    Rule: the policy is the one in force at all routers that answer, at least one; the servers are those that the first
    of them knows and that take jobs; the arrival rate is the sum of what the generators that answer have been asked for
    (exact, while a measured rate would make the models' values flicker), and the scenario's where none answers. The
    jobs of a router that does not answer reach no server: its share is taken off the rate.

    Args:
        scenario: Service law, patience, time unit and the order of the pools come from it.
        routers: Of the cluster: URLs, `host:port` or names, with commas between.
        load: Endless generators, in the same way; empty: the load is the scenario's.
        look_every_s: The pause between two looks.

    Attributes:
        scenario: The situation that was seen last. `solution`: what is predicted of it; `None`: nothing.
        looked: Whether the last look succeeded. `problem`: why the last model that was asked failed; empty: it did not.
        solves: Situations so far. `solve_s`: what the last one took.
        failures: Looks that failed, by cause.
    """

    def __init__(self, scenario: Scenario, routers: str, load: str = "", *, look_every_s: float = LOOK_EVERY_S) -> None:
        self.scenario = scenario
        self.solution: Solution | None = None
        self.looked = False
        self.problem = ""
        self.solves = 0
        self.solve_s = 0.0
        self.failures = dict.fromkeys(CAUSES, 0)
        self._planned, self._routers, self._load = scenario, routers, load
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
        except SettingsError as error:
            self._fail("scenario", error)
        except Exception as error:  # whatever it is that answers there: nothing that it says ends the watch
            self._fail("unreachable", str(error) or repr(error))
        else:
            if seen is None:
                self._fail("policies_differ", "routers follow different policies")
            elif seen != self.scenario or not self.looked:
                await self._ask(seen)

    async def _ask(self, seen: Scenario) -> None:
        started = time.perf_counter()
        try:
            # In a thread: a mean field may take seconds, in which the metrics are still to be answered.
            # Of a pause nothing is predicted.
            solution = None if seen.arrivals.rate_total == 0.0 else await asyncio.to_thread(predict, seen)
        except Exception as error:  # a mistake of ours, which another situation may not meet
            self.problem = str(error) or repr(error)
            self._fail("model", self.problem, error)
        else:
            self.scenario, self.solution, self.looked, self.problem = seen, solution, True, ""
            self.solves += 1
            self.solve_s = time.perf_counter() - started

    def _fail(self, cause: str, why: object, mistake: Exception | None = None) -> None:
        if self.looked or not self.failures[cause]:
            _log.warning("%s: %s", cause, why, exc_info=mistake)
        self.failures[cause] += 1
        self.solution, self.looked = None, False

    async def _see(self, session: aiohttp.ClientSession) -> Scenario | None:
        """The scenario as it is now; `None`: the routers' policies differ."""
        listed = await addresses(self._routers)
        answers = await asyncio.gather(*(_answer(session, f"{url}/v1/policy") for url in listed))
        policies = {place: answer for place, answer in enumerate(answers) if not isinstance(answer, Exception)}
        if not policies:
            raise RunInvalid("unreachable", f"no router answers, of {len(listed)}: {answers[0]!r}")
        first, *_ = policies
        if any(policy != policies[first] for policy in policies.values()):
            return None
        there = (await _get(session, f"{listed[first]}/v1/servers"))["servers"]
        scenario = self._planned
        update: dict[str, Any] = {"pools": _pools(scenario, there)}
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
        if not self._load:
            return None
        with suppress(HerdlessError):
            urls = await addresses(self._load)
            answers = await asyncio.gather(*(_get(session, f"{url}/v1/load") for url in urls), return_exceptions=True)
            rates = [float(answer["rate_total"]) for answer in answers if not isinstance(answer, BaseException)]
            return sum(rates) if rates else None
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
    """The pools that have servers which take jobs: those of the scenario first, in its order.

    Raises:
        SettingsError: There is no such server, of which no model says anything.
    """
    found: dict[str, list[Mapping[str, Any]]] = {pool.name: [] for pool in scenario.pools}
    for entry in there:
        if entry["state"] == "live":
            found.setdefault(str(entry["pool"]), []).append(entry)
    if not any(found.values()):
        raise SettingsError("no server takes jobs: nothing is predicted until one does")
    return [
        Pool(name=name, servers=len(servers), rate=float(servers[0]["rate"]), slots=int(servers[0]["slots"]),
             capacity=float(servers[0]["capacity"]))
        for name, servers in found.items() if servers
    ]  # fmt: skip
