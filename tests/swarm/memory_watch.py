"""Watches a router's memory of failures: who is set aside, for how long, and who comes back on trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from router.core import JobArrived, ProbesDue, ServerDraining, ServerJoined, ServerLeft
from router.freshness import NO_JOB, ViewsDue
from router.memory import Forgiven, MemoryRule, WatchDue
from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw
from router.protocol.timer import StartTimer

if TYPE_CHECKING:
    from tests.swarm.router_watch import RouterWatch

SLACK = 1e-9

NO_FAILURE = ("draining", "ceiling")
"""Reasons of servers that take nothing new, or are full."""

QUIET = frozenset((JobArrived, ProbesDue, Pull, Report, Withdraw))
"""Events that set nobody aside."""


class Past:
    """What a server has done.

    Attributes:
        row: Failures in a row. `trial`: it was let back, and has served nothing since.
        times: How often it was set aside since it last served a job.
        jobs: The dispatches that are there, and since when.
        drained: When it began to drain, and whether it had jobs then and was not set aside.
        until: By reason, until when it is set aside, and the timer that says so.
        rest: Until when it is set aside for failures by whatever link it comes.
    """

    def __init__(self) -> None:
        self.row = self.times = 0
        self.trial = False
        self.jobs: dict[int, float] = {}
        self.drained: tuple[float, bool] | None = None
        self.until: dict[str, tuple[float, Forgiven]] = {}
        self.rest = 0.0

    def suffices(self, failures: int) -> bool:
        """Whether it is to be set aside."""
        return self.row >= (1 if self.trial else failures)


class MemoryWatch:
    """Keeps the past of each server, and demands that those who deserve it are set aside, and nobody else is."""

    def __init__(self, router: RouterWatch, rule: MemoryRule) -> None:
        self._router = router
        self._rule = rule
        self._longest = max(rule.longest, rule.forgive)
        self._here: dict[str, Past] = {}
        self._gone: dict[str, tuple[float, Past]] = {}
        self._aside: dict[str, set[str]] = {}  # why, as of the event before

    def before(self, event: Any) -> None:
        """Before each event of the router there is nothing to be seen."""

    def look(self, event: Any, effects: list[Any], now: float) -> None:
        """After each event of the router."""
        self._looks(event, effects, now)
        for effect in effects:
            if type(effect) is Dispatch:
                self._here[effect.server].jobs[effect.job] = now

    def _looks(self, event: Any, effects: list[Any], now: float) -> None:
        kind = type(event)
        if not (self._aside or self._router.core.members.aside):
            if kind in QUIET:
                return
            if kind is End and event.outcome == "served":
                self._happens(event, now)
                return
        chosen = {id for id, past in self._here.items() if past.drained is None and id not in self._aside}
        deserving = self._happens(event, now)
        late = [effect.server for effect in effects if type(effect) is Probe and effect.job == NO_JOB]
        late = late if kind is WatchDue else []
        aside = {id: set(aside.whys) for id, aside in self._router.core.members.aside.items()}
        begun = self._begin([effect for effect in effects if type(effect) is StartTimer], now)
        if aside or self._aside or deserving is not None or begun or late:
            wanted = {deserving} if deserving is not None else set(late)
            if kind is ServerDraining or kind is ServerLeft:
                wanted = {event.server}
            spared = chosen <= wanted or kind is ViewsDue  # nobody else was left, so all came back
            self._goes(deserving, late, aside, begun, spared, now)
            self._comes_back(event, aside, spared, now)
            self._aside = aside

    # -- what happens -------------------------------------------------------------------------

    def _happens(self, event: Any, now: float) -> str | None:
        """Note it; the server that must be set aside for it."""
        kind = type(event)
        if kind is End:
            past = self._here[event.server]
            del past.jobs[event.job]
            if event.outcome == "served":
                past.row = past.times = 0
                past.trial = False
            elif event.outcome == "failed" and event.reason not in NO_FAILURE:
                past.row += 1
                return str(event.server) if past.suffices(self._rule.failures) else None
        elif kind is ServerJoined:
            since, past = self._gone.pop(event.server.id, (now, Past()))
            past = past if now - since <= self._longest else Past()
            self._here[event.server.id] = past
            return str(event.server.id) if past.suffices(self._rule.failures) or now < past.rest else None
        elif kind is ServerDraining:
            self._drains(event.server, now)
        elif kind is ServerLeft:
            self._leaves(event.server, now)
        return None

    def _drains(self, id: str, now: float) -> None:
        past = self._here[id]
        if past.drained is None:
            aside = bool(past.until)
            if aside:
                past.row, past.trial = 0, True
            past.rest, _ = past.until.get("failed", (now, None))
            past.until.clear()
            past.drained = now, bool(past.jobs) and not aside

    def _leaves(self, id: str, now: float) -> None:
        """Drivers say of all servers of a lost link, first, that they drain."""
        self._drains(id, now)
        past = self._here.pop(id)
        assert past.drained is not None
        since, failure = past.drained
        past.row += failure and since == now
        past.drained = None
        past.jobs.clear()
        if past.row or past.trial:
            self._gone[id] = now, past

    # -- what must come of it -----------------------------------------------------------------

    def _begin(self, timers: list[StartTimer], now: float) -> set[tuple[str, str]]:
        """The first time lasts for `forgive`, each further one for twice as long; whose time begins, and why."""
        begun: set[tuple[str, str]] = set()
        for at, event in timers:
            if type(event) is Forgiven:
                id, why = event.server.id, event.why
                past = self._here[id]
                lasts = min(self._rule.forgive * 2.0 ** min(past.times, 100), self._longest)
                goes_on = now < past.rest
                lasts = past.rest - now if goes_on else lasts
                if abs(at - now - lasts) > SLACK * max(1.0, at):
                    self._fail(f"{id} is set aside as {why} until {at!r}, not for {lasts!r} from {now!r}")
                past.times += not goes_on
                past.trial = past.trial and goes_on
                past.until[why] = at, event
                begun.add((id, why))
        return begun

    def _goes(self, deserving: str | None, late: list[str], aside: dict[str, set[str]], begun: set[tuple[str, str]],
              spared: bool, now: float) -> None:  # fmt: skip
        failures = self._rule.failures
        if deserving is not None:
            past = self._here[deserving]
            if "failed" not in aside.get(deserving, ()) and past.drained is None and not spared:
                why = f"has failed {past.row} times in a row" if past.row else "has not had its time aside"
                self._fail(f"{deserving} {why}, and is not set aside")
            past.row, past.rest = 0, now
        for id in late:
            past = self._here[id]
            longest = now - min(past.jobs.values(), default=now)
            if self._rule.hang is None or longest < self._rule.hang * (1.0 - SLACK):
                self._fail(f"{id} is taken to hang after {longest}, {self._rule.hang} are allowed")
            past.row = 0
        for id, whys in aside.items():
            for why in whys - self._aside.get(id, set()) - {"stale"}:
                if id != deserving and id not in late:
                    past = self._here[id]
                    self._fail(f"{id} is set aside as {why}, but failed {past.row} times, not {failures}")
                if (id, why) not in begun:
                    self._fail(f"{id} is set aside as {why} for ever")

    def _comes_back(self, event: Any, aside: dict[str, set[str]], spared: bool, now: float) -> None:
        for id, whys in self._aside.items():
            past = self._here.get(id)
            for why in whys - {"stale"} if past is not None and past.drained is None else ():
                assert past is not None
                back = why not in aside.get(id, ())
                due = self._is_over(past, why, event, now) or (
                    why == "hung" and type(event) is End and event.server == id
                )
                if due and not back:
                    self._fail(f"{id} is not let back, though it is set aside as {why} no longer")
                if back and not due and not spared:
                    self._fail(f"{id} is let back, though it is set aside as {why}")
                if back:
                    over = past.until.pop(why, None)
                    past.trial = past.trial or (over is not None and type(event) is Forgiven and due)
        for id in [id for id, past in self._here.items() if past.until and id not in aside]:
            self._here[id].until.clear()  # all came back at once

    def _is_over(self, past: Past, why: str, event: Any, now: float) -> bool:
        at, timer = past.until.get(why, (0.0, None))
        return timer is not None and event is timer and now >= at

    def _fail(self, what: str) -> None:
        self._router.fail(what)
