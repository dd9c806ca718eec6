"""A digest of everything that all cores of a simulated run take in and give out, in order.

As a program it prints the digests of all policies, so that runs in two processes can be compared.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from services.scenario import Scenario, parse_scenario
from services.simulator.network import NO_DELAY, Delays
from services.simulator.run import simulate
from tests.property.variants import label, tables

DELAYS = Delays(0.01, 0.03, 0.05, 0.02)


def scenario() -> Scenario:
    """Three routers, two pools, patience and finite capacity: about 350 jobs that meet everything there is."""
    text = """
        name = "digest"
        policy = {name = "random"}
        routers = {count = 3}
        patience = {rate = 0.3}
        pools = [
            {name = "a", servers = 4, capacity = 3},
            {name = "b", servers = 3, rate = 2.0, slots = 2, capacity = 5},
        ]
        arrivals = {load = 0.9}
        run = {warmup = 0, duration = 25}
    """
    return parse_scenario(text, "here")


def digest_of(table: dict[str, Any], delays: Delays = NO_DELAY, replication: int = 0) -> str:
    """Run the scenario under a policy; digest events and effects of all cores."""
    trace = hashlib.sha256()

    class Traced:
        def __init__(self, core: Any) -> None:
            self._core = core
            self._name = core.id if hasattr(core, "id") else core.spec.id

        def handle(self, event: Any, now: float) -> list[Any]:
            trace.update(f"{now!r} {self._name} {event!r}\n".encode())
            effects: list[Any] = self._core.handle(event, now)
            trace.update(f"{effects!r}\n".encode())
            return effects

    simulate(scenario().with_policy(table), delays=delays, replication=replication, wrap=Traced)
    return trace.hexdigest()


def digests() -> dict[str, str]:
    """Of every policy with every alternative of its parameters, with and without delay."""
    networks = {"no delay": NO_DELAY, "delay": DELAYS}
    return {
        f"{label(table)} {name}": digest_of(table, delays) for table in tables() for name, delays in networks.items()
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))
