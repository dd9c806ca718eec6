"""Watches what a router makes of views that nobody has renewed for long."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from router.core import PolicyChanged, ServerDraining, ServerJoined, ServerLeft
from router.freshness import NO_JOB, Stale, ViewsDue
from router.protocol.messages import Dispatch, End, Probe, Report
from router.protocol.timer import StartTimer

if TYPE_CHECKING:
    from tests.swarm.router_watch import RouterWatch

SLACK = 1e-9


class FreshnessWatch:
    """Keeps when each view was renewed, and demands of each look, two of which are due in `after`, what is right."""

    def __init__(self, router: RouterWatch, after: float, rule: Stale) -> None:
        self._router = router
        self._after = after
        self._rule = rule
        self._renewed: dict[str, float] = {}  # of servers that do not drain
        self._stale: dict[str, None] = {}
        self._next: float | None = None  # when the next look is due
        self._views: dict[str, int | None] = {}
        self._aside: set[str] = set()

    def before(self, event: Any) -> None:
        """Before each event of the router."""
        if type(event) is ViewsDue:
            core = self._router.core
            self._views = {id: server.view for id, server in core.servers.items()}
            self._aside = set(core.members.aside)
            self._next = None

    def look(self, event: Any, effects: list[Any], now: float) -> None:
        """After each event of the router."""
        kind = type(event)
        if kind is Report or (kind is End and event.length is not None):
            self._is_renewed(event.server, now)
        elif kind is ServerJoined:
            self._renewed[event.server.id] = now
        elif kind is ServerDraining or kind is ServerLeft:
            self._renewed.pop(event.server, None)
            self._stale.pop(event.server, None)
        elif kind is PolicyChanged:
            self._renewed = dict.fromkeys(self._renewed, now)
            self._stale.clear()
        if kind is ServerJoined or kind is ViewsDue:
            for effect in effects:
                if type(effect) is StartTimer and type(effect.event) is ViewsDue:
                    self._goes_on(effect.at, now)
            if self._next is None and self._renewed:
                self._router.fail("nobody looks for views that are stale")
        if kind is ViewsDue:
            self._asks({effect.server for effect in effects if type(effect) is Probe and effect.job == NO_JOB}, now)
            self._judges(Counter(effect.server for effect in effects if type(effect) is Dispatch), now)
        for id, aside in self._router.core.members.aside.items():
            if "stale" in aside.whys and (self._rule != "full" or id not in self._stale):
                self._router.fail(f"{id} is set aside as stale, but was renewed at {self._renewed.get(id)}")

    def _is_renewed(self, id: str, now: float) -> None:
        if id in self._renewed:
            self._renewed[id] = now
            self._stale.pop(id, None)

    def _goes_on(self, at: float, now: float) -> None:
        if self._next is not None or abs(at - now - self._after / 2.0) > SLACK * max(1.0, at):
            self._router.fail(f"views are looked at again at {at!r}, not half of {self._after} from {now!r}")
        self._next = at

    def _old(self, age: float, now: float) -> dict[str, None]:
        """Servers that have not told anything for so long, if the policy asks them to."""
        needs = self._router.core.policy.needs
        matters = needs.reports is not None or needs.probes
        return {id: None for id, renewed in self._renewed.items() if matters and now - renewed >= age}

    def _asks(self, asked: set[str], now: float) -> None:
        old = set(self._old(self._after / 2.0, now))
        if asked != old:
            self._router.fail(f"{sorted(asked)} are asked for their lengths, old are the views of {sorted(old)}")

    def _judges(self, sent: Counter[str], now: float) -> None:
        servers, views, aside = self._router.core.servers, self._views, self._router.core.members.aside
        self._stale |= self._old(self._after, now)
        fresh = [id for id in self._renewed if id not in self._stale]
        known = [length for length in (views[id] for id in fresh) if length is not None]
        for id in self._renewed:
            view = servers[id].view
            if view is not None:
                view -= sent[id]  # jobs that waited for the answer of a server which is set aside
            if id in self._stale and self._rule == "average" and known:
                mean = sum(known) / len(known)
                if view is None or abs(view - mean) > 0.5:
                    self._router.fail(f"the stale view of {id} counts as {view}, the fresh ones are {known}")
            elif view != views[id]:
                self._router.fail(f"the view of {id} was {views[id]}, and becomes {view} of itself")
        if self._rule == "full":
            chosen = [id for id in fresh if id not in self._aside]
            for id in self._stale:
                is_aside = id in aside and "stale" in aside[id].whys
                if is_aside != bool(chosen) and (chosen or not fresh):
                    self._router.fail(f"the view of {id} is stale, set aside: {is_aside}, fresh are those of {fresh}")
