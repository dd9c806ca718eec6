"""No server is passed over for ever by a policy that ought to choose it now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from router.core import PolicyChanged, ServerJoined
from router.protocol.messages import Dispatch

if TYPE_CHECKING:
    from tests.swarm.router_watch import RouterWatch
    from tests.swarm.watch import Pair

DRAWS = 28
"""A uniform draw among n misses one of them DRAWS·n times in a row with probability e^−28, or 10^−12."""

Due = Callable[["RouterWatch", "Pair"], bool]
"""Whether a server is one of those among which the next draw is uniform."""


def _always(router: RouterWatch, pair: Pair) -> bool:
    return True


def _asks(router: RouterWatch, pair: Pair) -> bool:
    return bool(pair.held)


def _seems_idle(router: RouterWatch, pair: Pair) -> bool:
    return bool(router.core.servers[pair.id].view == 0)


def _has_none(router: RouterWatch, pair: Pair) -> bool:
    return bool(router.core.servers[pair.id].outstanding == 0)


def rule_of(policy: Any, rates: set[float]) -> Due | None:
    """Who is due under a policy; `None`: it may pass over a server for ever, and be right."""
    parameters = policy.parameters
    match policy.name:
        case "random" | "round_robin":
            return _always
        case "pull" if parameters.order == "random" or len(rates) == 1:
            return _asks
        case "jsq" if parameters.ties == "random" or len(rates) == 1:
            return _seems_idle
        case "lsq" if parameters.rank == "queue" and (parameters.ties == "random" or len(rates) == 1):
            return _seems_idle
        case "sed" if parameters.rank == "present" and (parameters.ties == "random" or len(rates) == 1):
            return _seems_idle
        case "least_requests" if parameters.d == "all" and parameters.rank != "joined":
            return _has_none
    return None


class Fairness:
    """Counts how often each server was passed over while it was due."""

    def __init__(self, router: RouterWatch) -> None:
        self._router = router
        self._passed: dict[str, int] = {}
        self._most = 1
        self._rule: Due | None = None
        self._known = -1

    def look(self, event: Any, effects: list[Any]) -> None:
        """After each event of the router."""
        kind = type(event)
        if kind is ServerJoined or kind is PolicyChanged or self._known < 0:
            self._begin()
        if self._rule is None:
            return
        for effect in effects:
            if type(effect) is Dispatch:
                self._decided(effect.server)

    def _begin(self) -> None:
        core = self._router.core
        self._rule = rule_of(core.policy, {server.rate for server in core.servers.values()})
        self._known = len(core.servers)
        self._most = max(self._most, self._known)

    def _decided(self, chosen: str) -> None:
        router, passed, rule = self._router, self._passed, self._rule
        assert rule is not None
        passed.pop(chosen, None)
        unchosen = router.core.members.unchosen
        for id, pair in router.pairs.items():
            if id == chosen:
                continue
            if id in unchosen or not rule(router, pair):
                passed.pop(id, None)
                continue
            passed[id] = count = passed.get(id, 0) + 1
            if count > DRAWS * self._most:
                router.fail(f"{router.core.id} has passed over {id} {count} times, which was due each time")
