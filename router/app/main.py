"""A router process, from its settings to its exit code."""

from __future__ import annotations

import gc
from random import Random
from time import monotonic

from router.app.counts import Counts
from router.app.driver import RouterDriver
from router.app.keys import Keys
from router.app.links import Links
from router.app.metrics import router_metrics
from router.app.settings import RouterSettings, policy_in_time
from router.app.stream import Streams
from router.app.web import RouterWeb
from router.core import RouterCore
from router.policy import Policy
from router.process import serve as process
from router.process.access import Access, access_from_environment
from router.process.eventlog import open_log
from router.process.identity import make_identity
from router.process.limits import Connections
from router.process.logs import log_to_standard_error
from router.protocol.errors import SettingsError
from router.registry import policy_names


class RouterApp:
    """All parts of one router, put together; create it inside the running loop.

    Args:
        settings: The settings.
        policy: The policy in force at first.
        rng: The random stream of the policies.
        access: Whom to let in; left out: everybody.
    """

    def __init__(self, settings: RouterSettings, policy: Policy, rng: Random, access: Access | None = None) -> None:
        access = access or Access(None)
        policies = policy_names()
        counts = Counts(policies, settings.time_unit_s, settings.max_pools)
        core = RouterCore(
            settings.id,
            policy,
            probe_timeout=settings.probe_timeout_s,
            retries=settings.retries,
            memory=settings.memory,
            stale_after=settings.stale_after,
            stale=settings.stale,
            time_unit=settings.time_unit_s,
            ceiling=settings.ceiling,
            on_error=counts.policy_failed,
        )
        identity = make_identity(settings.id)
        self.log = open_log(settings, identity, "router")
        self.driver = RouterDriver(core, counts, self.log)
        self.links = Links(self.driver, identity, settings)
        self.streams = Streams(self.driver, identity, settings)
        connections = Connections(settings.http, counts.http_refusals)
        keys = Keys(settings.max_keys, settings.keys_kept_s)
        metrics = router_metrics(self.driver, policies, access, connections, keys)
        web = RouterWeb(settings, self.driver, self.links, self.streams, connections, keys, metrics, rng)
        self.web = web.application(access)

    async def drain(self) -> None:
        """Take no further job, and wait for the end of those that are here."""
        self.driver.drain()
        await self.driver.emptied()


def run(settings: RouterSettings, as_json: bool = False) -> int:
    """Run a router until it is told to end; returns the exit code.

    Args:
        settings: The settings.
        as_json: Whether mistakes are told as JSON.
    """
    log_to_standard_error(settings.id)
    rng = Random(f"{settings.seed}:{settings.id}:policy")
    try:
        policy = policy_in_time(settings.policy, rng, settings.time_unit_s)
        access = access_from_environment()
    except SettingsError as error:
        return process.give_up(settings.id, "settings", str(error), as_json)
    listen = process.Listen(
        role="router",
        id=settings.id,
        host=settings.host,
        port=settings.port,
        drain_limit_s=settings.drain_limit_s,
        end_with_parent=settings.end_with_parent,
        as_json=as_json,
        access=access,
    )

    async def main() -> int:
        app = RouterApp(settings, policy, rng, access)
        gc.freeze()  # what is there now stays: the collector need not look at it again
        try:
            return await process.serve(app.web, listen, app.drain)
        finally:
            if app.log is not None:
                app.log.close(monotonic())

    return process.run(main)
