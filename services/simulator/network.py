"""How long messages take in the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw


@dataclass(frozen=True, slots=True)
class Delays:
    """One-way delays, constant for each hop, so that a link keeps its order.

    Units: time units.

    Attributes:
        generator_router: A job, from its generator to a router.
        router_server: A dispatch or probe.
        server_router: An end, report, pull-message or withdrawal.
        router_generator: The end of a job, back to its generator.
    """

    generator_router: float = 0.0
    router_server: float = 0.0
    server_router: float = 0.0
    router_generator: float = 0.0

    def by_kind(self) -> dict[type, float]:
        """The delay of each kind of message between routers and servers."""
        out, back = self.router_server, self.server_router
        return {Dispatch: out, Probe: out, End: back, Report: back, Pull: back, Withdraw: back}


NO_DELAY = Delays()
