"""What a server has, as a test of the router's core knows it, and all that a caller can see of that core."""

from __future__ import annotations

import copy
from typing import Any

from router.core import RouterCore
from router.policy import Server
from router.protocol.messages import Dispatch


class Truth:
    """What one server has, as the test knows it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.received: list[Dispatch] = []  # not ended
        self.seen = 0
        self.to_come: list[Dispatch] = []  # dispatched, and still on the wire
        self.lost: list[Dispatch] = []  # ended, but the end was lost
        self.draining = False
        self.pulls: list[int] = []


def picture(core: RouterCore) -> Any:
    """All that a caller can see, and the draws to come."""
    return copy.deepcopy(
        (
            {name: tuple(getattr(s, slot) for slot in Server.__slots__) for name, s in core.servers.items()},
            sorted(core.draining),
            {name: (aside.whys, aside.pulls) for name, aside in core.members.aside.items()},
            sorted(core.in_flight),
            core.probing,
            core.unheld_withdrawals,
            core.held_total,
            core.policy.rng.getstate(),
            {name: (t.arrivals, t.dispatches, t.probes, t.ends, t.stale) for name, t in core.tallies.items()},
        )
    )
