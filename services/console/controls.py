"""What a page may change: policy, load, servers. Bodies are checked here, before anybody is asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from router.protocol.errors import HerdlessError, SettingsError
from services.console.collector import Collector
from services.console.journal import policy_words
from services.console.places import Asks, Places
from services.lab.watch import Watch
from services.solver import with_weights

MOST_ADDED = 200
HIGHEST_LOAD = 10.0
SHORT = 200

KINDS = {400: "request", 403: "may_not", 404: "not_found", 502: "cluster"}
"""What is wrong, by HTTP status: the request, this console, what is named, or an answer of the cluster."""

Action = Callable[[Any], Awaitable[dict[str, Any]]]
"""Takes the body of the request."""


class Refused(Exception):
    """Why something was not done.

    Args:
        status: One of `KINDS`. `message`: what was expected, what was found, what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, KINDS[status]


class Owned(Protocol):
    """A cluster whose processes are the console's own."""

    async def kill(self, url: str) -> str:
        """End a server process at once; return its name."""

    async def add(self, pool: str, servers: int) -> str:
        """Start so many servers of a pool; return the name of their process."""


class Controls:
    """Carries out what a page asks for.

    Args:
        places: Where the processes are. `asks`: how they are asked.
        watch: Knows the scenario as it is now. `collector`: knows what is shown, and keeps the log.
        owned: The cluster, if the console runs it.
        can: What may be done: see `allowed`.
    """

    def __init__(
        self, places: Places, asks: Asks, watch: Watch, collector: Collector, owned: Owned | None, can: dict[str, bool]
    ) -> None:
        self._places, self._asks, self._watch, self._collector = places, asks, watch, collector
        self._owned = owned
        self._can = can

    async def carry_out(self, action: str, body: Any) -> dict[str, Any]:
        """Do one thing.

        Raises:
            Refused: There is no such thing, it may not be done, or was not.
        """
        if action not in self._can:
            raise Refused(404, f"no {action:.40}; there are {', '.join(self._can)}")
        if not self._can[action]:
            raise Refused(403, f"{action}: this console may not do that: see docs/console.md")
        try:
            act: Action = getattr(self, action)  # by the names that `allowed` gives, and no other
            return await act(body)
        except SettingsError as error:
            raise Refused(400, str(error)) from None
        except HerdlessError as error:
            raise Refused(502, str(error)) from None

    async def policy(self, body: Any) -> dict[str, Any]:
        """Put a policy in force at all routers: `{"name": …, …}`."""
        if type(body) is not dict or type(body.get("name")) is not str:
            raise Refused(400, f'expected {{"name": …}} and parameters, found {body!r:.{SHORT}}')
        table = with_weights(self._watch.scenario.with_policy(body)).policy
        answers = await self._send_all("PUT", await self._places.routers(), "/v1/policy", table)
        self._collector.journal.add("asked", f"asked for: policy {policy_words(table)}")
        return {"policy": answers[0]}

    async def load(self, body: Any) -> dict[str, Any]:
        """Change the load, shared equally by the generators: `{"load": …}`; 0: a pause."""
        load = _only(body, "load")
        if type(load) not in (int, float) or not (0.0 <= load <= HIGHEST_LOAD and math.isfinite(load)):
            raise Refused(400, f"load = {load!r:.{SHORT}}: expected a number from 0 to {HIGHEST_LOAD:g}")
        generators = await self._places.generators()
        answers = await self._send_all("PUT", generators, "/v1/load", {"load": load / max(len(generators), 1)})
        self._collector.journal.add("asked", f"asked for: {f'load {load:g}' if load else 'a pause'}")
        return {"load": sum(float(answer["load"]) for answer in answers)}

    async def drain(self, body: Any) -> dict[str, Any]:
        """Let servers take nothing new: `{"process": URL}`, or `{"server": NAME}`."""
        if type(body) is dict and list(body) == ["server"]:
            name = body["server"]
            found = [place for place in self._collector.fleet.places if place.id == name and place.process]
            if not found:
                raise Refused(404, f"{name!r:.{SHORT}}: there is no such server, or its process is not known")
            await self._send_all("POST", [found[0].process], "/v1/drain", {"servers": [name]})
            self._collector.journal.add("asked", f"asked for: drain {name}")
            return {"draining": [name]}
        url = await self._process(body)
        await self._send_all("POST", [url], "/v1/drain", None)
        self._collector.journal.add("asked", f"asked for: drain {self._collector.name_of(url)}")
        return {"draining": [place.id for place in self._collector.fleet.of_process(url)]}

    async def kill(self, body: Any) -> dict[str, Any]:
        """End a server process at once, with the jobs that it has: `{"process": URL}`."""
        assert self._owned is not None
        name = await self._owned.kill(await self._process(body))
        self._collector.journal.add("asked", f"asked for: kill {name}")
        return {"killed": name}

    async def add(self, body: Any) -> dict[str, Any]:
        """Start servers, in a process of their own: `{"pool": …, "servers": …}`."""
        assert self._owned is not None
        if type(body) is not dict or sorted(body) != ["pool", "servers"]:
            raise Refused(400, f'expected {{"pool": …, "servers": …}}, found {body!r:.{SHORT}}')
        pool, servers = body["pool"], body["servers"]
        known = self._collector.fleet.pools
        if pool not in known:
            raise Refused(400, f"pool = {pool!r:.{SHORT}}: expected one of {', '.join(known)}")
        if type(servers) is not int or not 1 <= servers <= MOST_ADDED:
            raise Refused(400, f"servers = {servers!r:.{SHORT}}: expected a whole number from 1 to {MOST_ADDED}")
        name = await self._owned.add(pool, servers)
        self._collector.journal.add("asked", f"asked for: {servers} more servers of pool {pool}")
        return {"process": name}

    async def _process(self, body: Any) -> str:
        url = _only(body, "process")
        if url not in await self._places.servers():
            raise Refused(404, f"process = {url!r:.{SHORT}}: there is no such server process")
        return str(url)

    async def _send_all(self, method: str, urls: Sequence[str], path: str, body: Any) -> list[Mapping[str, Any]]:
        if not urls:
            raise Refused(502, f"{path}: nobody is there to be asked")
        answers = await asyncio.gather(*(self._asks.send(method, url + path, body) for url in urls))
        for status, answer in answers:
            if status != 200:
                raise Refused(status if status == 400 else 502, str(answer["error"]["message"]))
        return [answer for _, answer in answers]


def allowed(owned: bool, read_only: bool, loads: bool) -> dict[str, bool]:
    """All that a console can do, each the name of a method of `Controls`, and whether it may."""
    may = not read_only
    return {"policy": may, "load": may and loads, "drain": may, "kill": may and owned, "add": may and owned}


def _only(body: Any, key: str) -> Any:
    if type(body) is not dict or list(body) != [key]:
        raise Refused(400, f'expected {{"{key}": …}}, found {body!r:.{SHORT}}')
    return body[key]
