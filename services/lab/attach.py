"""A cluster that runs already: found by its routers, and checked against the scenario before it is measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import aiohttp
import numpy as np

from router.process.client import failure, open_session
from router.protocol.errors import SettingsError
from router.registry import make_policy, policy_table
from server.app.discovery import parse_target, resolve
from services.lab.cluster import Cluster
from services.lab.errors import RunInvalid
from services.measure.records import Fleet
from services.scenario import Scenario
from services.scenario_parts import Pool

_LIMIT_S = 10.0


async def addresses(targets: str) -> list[str]:
    """The URLs that a list of URLs, `host:port` and names leads to; a name may stand for several.

    Raises:
        SettingsError: An entry is none of these.
        RunInvalid: A name is not known.
    """
    urls: list[str] = []
    for text in filter(None, targets.split(",")):
        host, port, secure = parse_target(text.strip())
        try:
            urls += [address._replace(secure=secure).url for address in await resolve(host, port)]
        except OSError as error:
            raise RunInvalid("unreachable", f"{host}: no such host ({error})") from None
    if not urls:
        raise SettingsError(f'routers "{targets}": expected one URL, host:port or name, or more, with commas between')
    return list(dict.fromkeys(urls))


async def put_policy(urls: Sequence[str], table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Put a policy in force at all routers; return what each says is in force now.

    Raises:
        SettingsError: A router refuses it.
        RunInvalid: A router does not answer.
    """
    async with open_session(_LIMIT_S) as session:
        answers = await asyncio.gather(*(_ask(session, url, "/v1/policy", "PUT", table) for url in urls))
    return dict(zip(urls, answers, strict=True))


async def attach(scenario: Scenario, routers: str, servers: str = "") -> tuple[Cluster, Fleet]:
    """Find the cluster, and check that it is the one that the scenario describes.

    Args:
        scenario: What is to be measured.
        routers: Of the cluster.
        servers: Its server processes, if their counters are to be read too.

    Raises:
        SettingsError: Routers, policy or servers are not those of the scenario.
        RunInvalid: A router does not answer.
    """
    router_urls = await addresses(routers)
    server_urls = await addresses(servers) if servers else []
    async with open_session(_LIMIT_S) as session:

        async def of_all(path: str) -> list[dict[str, Any]]:
            return list(await asyncio.gather(*(_ask(session, url, path) for url in router_urls)))

        names = {url: str(health["id"]) for url, health in zip(router_urls, await of_all("/health"), strict=True)}
        _check_routers(scenario, names)
        for url, table in zip(router_urls, await of_all("/v1/policy"), strict=True):
            _check_policy(scenario, names[url], table)
        fleets = [answer["servers"] for answer in await of_all("/v1/servers")]
        for url, entries in zip(router_urls, fleets, strict=True):
            _check_servers(scenario, names[url], entries)
    expected = scenario.router_names()
    if set(names.values()) == set(expected):
        router_urls.sort(key=lambda url: expected.index(names[url]))
    names.update({url: f"servers at {url}" for url in server_urls})
    cluster = Cluster(router_urls, server_urls, names)
    return cluster, _fleet(scenario, fleets[0], [names[url] for url in router_urls])


async def _ask(session: aiohttp.ClientSession, url: str, path: str, method: str = "GET", body: Any = None) -> Any:
    try:
        async with session.request(method, url + path, json=body) as response:
            answer = await response.json()
            if response.status >= 400:
                raise SettingsError(f"router {url}: {answer['error']['message']}")
            return answer
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        why = failure(error) if isinstance(error, aiohttp.ClientError) else type(error).__name__
        message = f"{url}{path}: no answer of a router there ({why}); is one listening?"
        raise RunInvalid("unreachable", message) from None


def _check_routers(scenario: Scenario, names: Mapping[str, str]) -> None:
    if len(names) != scenario.routers.count:
        raise SettingsError(
            f"routers.count = {scenario.routers.count}, but the cluster has {len(names)} routers: "
            f"--set routers.count={len(names)}"
        )


def _check_policy(scenario: Scenario, router: str, found: Mapping[str, Any]) -> None:
    wanted = json.loads(json.dumps(policy_table(make_policy(scenario.policy, Random(0)))))
    if found != wanted:
        raise SettingsError(
            f"{router}: the policy in force is {json.dumps(found)}, the scenario's is {json.dumps(wanted)}: "
            "change the scenario by --set, or the cluster by --put-policy"
        )


def _check_servers(scenario: Scenario, router: str, entries: Sequence[Mapping[str, Any]]) -> None:
    kinds: dict[str, list[tuple[Any, ...]]] = {}
    for entry in entries:
        kind = (float(entry["rate"]), int(entry["slots"]), float(entry["capacity"]))
        kinds.setdefault(str(entry["pool"]), []).append(kind)
    for place, pool in enumerate(scenario.pools):
        found = kinds.pop(pool.name, [])
        if found != [(pool.rate, pool.slots, pool.capacity)] * pool.servers:
            there = ", ".join(_kind(kind, found.count(kind)) for kind in dict.fromkeys(found)) or "no servers"
            raise SettingsError(
                f'pools.{place}: {router} has in pool "{pool.name}" {there}, '
                f"the scenario {_kind((pool.rate, pool.slots, pool.capacity), pool.servers)}: "
                f"change the scenario by --set pools.{place}.…, or the cluster"
            )
    if kinds:
        raise SettingsError(
            f"pools: {router} has a pool {json.dumps(next(iter(kinds)))}, which the scenario does not know"
        )


def _kind(kind: tuple[Any, ...], servers: int) -> str:
    rate, slots, capacity = kind
    return f"{servers} servers of rate {rate:g}, slots {slots}, capacity {capacity:g}"


def _fleet(scenario: Scenario, entries: Sequence[Mapping[str, Any]], routers: list[str]) -> Fleet:
    """The servers by the names that they have there."""
    pools: Sequence[Pool] = scenario.pools
    names = [[str(entry["id"]) for entry in entries if entry["pool"] == pool.name] for pool in pools]
    return replace(
        scenario.fleet(),
        servers=[name for of_pool in names for name in of_pool],
        pool_of=np.repeat(np.arange(len(pools)), [len(of_pool) for of_pool in names]),
        routers=routers,
    )
