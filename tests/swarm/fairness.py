"""No server is passed over for ever by a policy that ought to choose it now and then."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from router.core import EndJob, JobArrived, PolicyChanged, ServerJoined
from router.protocol.messages import Dispatch, Probe, Report
from tests.swarm.watch import job_of

if TYPE_CHECKING:
    from tests.swarm.router_watch import RouterWatch
    from tests.swarm.watch import Pair

DRAWS = 28
"""A server whose chances, of one draw after another, add up to so much is missed by all with probability e^−28."""

Due = Callable[["RouterWatch", "Pair"], bool]
"""Whether a server is one of those among which the next draw is uniform."""

BY_ANSWERS = ("power_of_d", "max_vacancy")


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


def weights_of(router: RouterWatch, weights: Any) -> dict[str, float]:
    """What `weighted_random` draws by: of all servers that may be chosen."""
    servers = [server for id, server in router.core.servers.items() if id not in router.core.members.unchosen]
    if isinstance(weights, list):
        return {server.id: weights[server.pool_index] if server.pool_index < len(weights) else 0.0
                for server in servers}  # fmt: skip
    return {server.id: getattr(server, weights) for server in servers}


def best_of(policy: Any, answers: dict[str, int], servers: dict[str, Any]) -> list[str]:
    """Those among which a policy draws uniformly, when these have answered with their lengths."""
    parameters = policy.parameters
    if policy.name == "max_vacancy":
        ranks = {id: length - servers[id].capacity for id, length in answers.items()}
    else:
        ranks = {id: float(length) for id, length in answers.items()
                 if parameters.full == "ignore" or length < servers[id].capacity}  # fmt: skip
    return [id for id, rank in ranks.items() if rank == min(ranks.values())]


class Fairness:
    """Adds up the chances at which each server was passed over since it was chosen."""

    def __init__(self, router: RouterWatch) -> None:
        self._router = router
        self._passed: dict[str, float] = {}
        self._unasked: dict[str, float] = {}
        self._answers: dict[int, dict[str, int]] = {}  # by job, of those that were asked for it
        self._unchosen: set[str] = set()
        self._most = 1
        self._name = ""
        self._rule: Due | None = None
        self._known = -1

    def look(self, event: Any, effects: list[Any]) -> None:
        """After each event of the router."""
        kind = type(event)
        if kind is ServerJoined or kind is PolicyChanged or self._known < 0:
            self._begin()
        if self._rule is not None:
            for effect in effects:
                if type(effect) is Dispatch:
                    self._decided(effect.server)
        elif self._name in BY_ANSWERS:
            self._by_answers(kind, event, effects)
        elif self._name == "weighted_random" and kind is JobArrived:
            self._by_weight([effect.server for effect in effects if type(effect) is Dispatch])

    def _begin(self) -> None:
        core = self._router.core
        self._name = core.policy.name
        self._rule = rule_of(core.policy, {server.rate for server in core.servers.values()})
        self._known = len(core.servers)
        self._most = max(self._most, self._known)

    def _by_weight(self, chosen: list[str]) -> None:
        weights = weights_of(self._router, self._router.core.policy.parameters.weights)
        total = sum(weights.values())
        for id in chosen:
            for other, weight in weights.items():
                self._draw(self._passed, other, other == id, weight / total if 0.0 < total < inf else 0.0)

    def _by_answers(self, kind: type, event: Any, effects: list[Any]) -> None:
        """Whom to ask is drawn uniformly, whatever else is; so is the best, among those of equal answers."""
        core = self._router.core
        gone = core.members.unchosen - self._unchosen | ({event.server.id} if kind is ServerJoined else set())
        for answers in self._answers.values() if gone else ():
            for id in gone:
                answers.pop(id, None)  # when it is back, what it has answered before counts no longer
        self._unchosen = set(core.members.unchosen)
        if kind is JobArrived:
            asked = [effect.server for effect in effects if type(effect) is Probe]
            for id in self._router.pairs if asked else ():
                if id not in core.members.unchosen:
                    self._draw(self._unasked, id, id in asked, 1.0 / self._most)
            self._answers[event.job.id] = {}
        elif kind is Report and event.job in self._answers:
            sent = core.servers[event.server].sent - sum(
                type(effect) is Dispatch and effect.server == event.server for effect in effects
            )
            self._answers[event.job][event.server] = event.length + sent - event.seen
        for effect in effects:
            if type(effect) is Dispatch:
                self._is_best(job_of(core, effect).id, effect.server)
            elif type(effect) is EndJob:
                self._answers.pop(effect.job.id, None)

    def _is_best(self, job: int, chosen: str) -> None:
        core = self._router.core
        answers = {id: length for id, length in self._answers.pop(job, {}).items()
                   if id in core.servers and id not in core.members.unchosen}  # fmt: skip
        if chosen in answers and not getattr(core.policy.parameters, "memory", 0):
            best = best_of(core.policy, answers, core.servers)
            for id in best:
                self._draw(self._passed, id, id == chosen, 1.0 / len(best))

    def _draw(self, passed: dict[str, float], id: str, chosen: bool, chance: float) -> None:
        """Somebody was drawn, perhaps this server, which had that chance at least."""
        if chosen:
            passed.pop(id, None)
            return
        passed[id] = chances = passed.get(id, 0.0) + chance
        if chances > DRAWS:
            self._router.fail(f"{self._router.core.id} has passed over {id}, whose chances add up to {chances:.1f}")

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
            self._draw(passed, id, False, 1.0 / self._most)
