"""What a router remembers of the failures of each server, and for how long: off unless it is asked for."""

from __future__ import annotations

from collections import deque
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from router.jobs import InFlight
from router.members import Members, Why
from router.policy import Server
from router.protocol.messages import End
from router.protocol.needs import Positive
from router.protocol.timer import StartTimer

HARMLESS = frozenset(("draining", "ceiling"))
"""Reasons with which a server turns a job away that are no failure: it takes nothing new, or is full."""

TICKS = 4
"""How often a server that may hang is looked at, within the time that it is allowed."""


class MemoryRule(BaseModel):
    """When a server is set aside, and for how long.

    Units: times in time units.

    Attributes:
        failures: So many jobs in a row that the server ended as failed set it aside.
        forgive: For how long, at first.
        longest: For how long at most: each time that it fails its trial takes twice as long as the one before.
        hang: A job that is there for longer sets its server aside too, until that ends a job; leave out: never.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    failures: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    forgive: Positive = 20.0
    longest: Positive = 320.0
    hang: Positive | None = None


class Forgiven(NamedTuple):
    """Timer: the time of a server that was set aside is over, unless it came back before."""

    server: Server
    why: Why
    times: int


class WatchDue(NamedTuple):
    """Timer: look for servers that hang."""


class Standing:
    """What is remembered of a server.

    Attributes:
        failed: Jobs that it failed in a row.
        on_trial: It came back, and has not served a job since.
        doublings: How often its time aside was doubled.
        times: How often it was set aside, by reason; tells an old timer from a new one.
        until: When its time aside for failures is over.
        since: Jobs dispatched up to this number are not held against it again.
        drains: Since when it takes nothing new, and whether it is a failure if that is because its link is lost.
    """

    __slots__ = ("doublings", "drains", "failed", "on_trial", "since", "times", "until")

    def __init__(self) -> None:
        self.failed = 0
        self.on_trial = False
        self.doublings = 0
        self.times: dict[Why, int] = {"failed": 0, "hung": 0}
        self.until = 0.0
        self.since = 0
        self.drains: tuple[float, bool] | None = None


class FailureMemory:
    """Sets servers aside that fail or hang, and lets them back.

    Rule: `failures` jobs in a row that a server itself ended as failed, for another reason than that it drains or is
    full, set it aside; a job that it serves ends the row. After `forgive` time units it is let back on trial: one
    failure sets it aside again, for twice as long, and at most `longest`; a job that it serves ends the trial, and all
    is forgotten. A server with a job of ours that is there for longer than `hang` is set aside likewise, and let back
    as soon as it ends a job, or after the same time; the jobs that it had then are not held against it again.

    A link that is lost with jobs of ours is one failure, however many they were, unless its server drains or is set
    aside. Whoever loses a link says first that all its servers drain, so that none of them is chosen while the others
    leave; one that drains at the instant at which it leaves was therefore lost. What was remembered waits for the
    server to come back under its name, for `longest` at most: one whose failures suffice is set aside at once, one that
    was set aside for failures is so for what is left of its time, and one that hung is on trial.

    Units: instants and durations in the clock's unit, of which `time_unit` make one time unit.

    Args:
        rule: When, and for how long.
        members: Where servers are set aside.
        time_unit: Clock units in a time unit.
    """

    def __init__(self, rule: MemoryRule, members: Members, time_unit: float = 1.0) -> None:
        self._failures = rule.failures
        self._members = members
        self._forgive = rule.forgive * time_unit
        self._longest = max(rule.longest * time_unit, self._forgive)
        self._period = None if rule.hang is None else rule.hang * time_unit / TICKS
        self._standings: dict[Server, Standing] = {}
        self._gone: dict[str, tuple[float, Standing]] = {}  # by name, in the order of leaving; only who was not well
        self._marks: deque[int] = deque(maxlen=TICKS + 1)
        self._watching = False

    @property
    def remembered(self) -> int:
        """Servers that are gone and may come back, of which something is remembered."""
        return len(self._gone)

    def joined(self, server: Server, now: float) -> list[StartTimer]:
        """A server is here, perhaps again."""
        self._forget(now)
        _, standing = self._gone.pop(server.id, (now, Standing()))
        self._standings[server] = standing
        if now < standing.until:
            timers = self._keep_aside(server, standing, "failed", standing.until)
        else:
            timers = self._judge(server, standing, now)
        if self._period is not None and not self._watching:
            self._watching = True
            self._marks.clear()
            timers.append(StartTimer(now + self._period, WatchDue()))
        return timers

    def drains(self, server: Server, now: float) -> None:
        """It takes nothing new. Call it while its jobs, and whether it is set aside, are still known."""
        standing = self._standings[server]
        if standing.drains is not None:
            return
        failed = self._members.is_aside(server, "failed")
        if not failed:
            standing.until = now
        if aside := failed or self._members.is_aside(server, "hung"):
            standing.failed = 0
            standing.on_trial = True
        standing.drains = now, server.outstanding > 0 and not aside

    def leaves(self, server: Server, now: float) -> None:
        """Its link is lost; as `drains`, if it did not drain."""
        self.drains(server, now)
        standing = self._standings.pop(server)
        assert standing.drains is not None
        since, is_failure = standing.drains
        standing.drains = None
        standing.failed += is_failure and since == now
        if standing.failed or standing.on_trial:
            self._gone[server.id] = now, standing
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Keep nothing for good of servers that never come back."""
        while self._gone:
            id = next(iter(self._gone))
            if now - self._gone[id][0] <= self._longest:
                break
            del self._gone[id]

    def ended(self, server: Server, end: End, now: float) -> list[StartTimer]:
        """A server has ended a job of ours; it may be set aside for that, or let back."""
        standing = self._standings[server]
        if self._members.is_aside(server, "hung"):
            self._members.let_back(server, "hung")
        if end.outcome == "served":
            standing.failed = standing.doublings = 0
            standing.on_trial = False
        elif end.outcome == "failed" and end.reason not in HARMLESS:
            standing.failed += 1
            return self._judge(server, standing, now)
        return []

    def watch(self, in_flight: dict[int, InFlight], now: float) -> tuple[list[Server], list[StartTimer]]:
        """Look for servers that hang. The numbers of dispatches rise, so they tell how old a job is.

        Args:
            in_flight: Jobs that have no end yet, by the numbers of their dispatches, in order.
            now: The instant.

        Returns:
            The servers that were found to hang, whether or not they could be set aside; timers.
        """
        assert self._period is not None
        marks = self._marks
        latest = next(reversed(in_flight), 0)
        marks.append(latest)
        timers: list[StartTimer] = []
        late: dict[Server, None] = {}
        if len(marks) > TICKS:
            for number, record in in_flight.items():
                if number > marks[0]:
                    break
                server = record.server
                if number > self._standings[server].since and server.id not in self._members.draining:
                    late[server] = None
            for server in late:
                standing = self._standings[server]
                standing.since = latest
                timers += self._set_aside(server, standing, "hung", now)
        self._watching = bool(self._standings)
        if self._watching:
            timers.append(StartTimer(now + self._period, WatchDue()))
        return list(late), timers

    def forgive(self, event: Forgiven) -> None:
        """The time of a server is over: it may show what it can do now."""
        server, why, times = event
        standing = self._standings.get(server)
        if standing is not None and standing.times[why] == times and self._members.is_aside(server, why):
            standing.on_trial = True
            self._members.let_back(server, why)

    def _judge(self, server: Server, standing: Standing, now: float) -> list[StartTimer]:
        if standing.failed >= (1 if standing.on_trial else self._failures):
            return self._set_aside(server, standing, "failed", now)
        return []

    def _set_aside(self, server: Server, standing: Standing, why: Why, now: float) -> list[StartTimer]:
        standing.failed = 0
        if self._members.is_aside(server, why):
            return []
        lasts = min(self._forgive * 2.0**standing.doublings, self._longest)
        timers = self._keep_aside(server, standing, why, now + lasts)
        if timers:
            standing.doublings += lasts < self._longest
            standing.on_trial = False
        return timers

    def _keep_aside(self, server: Server, standing: Standing, why: Why, until: float) -> list[StartTimer]:
        if not self._members.set_aside(server, why):
            return []
        if why == "failed":
            standing.until = until
        standing.times[why] += 1
        return [StartTimer(until, Forgiven(server, why, standing.times[why]))]
