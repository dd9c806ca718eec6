"""Mistakes of routers in what they do about servers that fail or fall silent, and about too many jobs."""

from __future__ import annotations

from typing import Any

from router.core import RouterCore
from router.freshness import Freshness
from router.memory import FailureMemory
from router.policy import Server
from tests.swarm.mutant import Patch, mutant

# -- too many jobs ---------------------------------------------------------------------------------------


def _other(patch: Patch, kind: type, name: str, change: Any) -> None:
    """Change a number that is set when a part is made."""
    right: Any = kind.__init__  # type: ignore[misc]  # of a type known only when it runs

    def init(self: Any, *arguments: Any, **more: Any) -> None:
        right(self, *arguments, **more)
        setattr(self, name, change(getattr(self, name)))

    patch.setattr(kind, "__init__", init)


@mutant
def the_ceiling_is_ignored(patch: Patch) -> None:
    """All jobs are taken."""
    _other(patch, RouterCore, "_ceiling", lambda ceiling: 1_000_000)


@mutant
def the_ceiling_is_too_low(patch: Patch) -> None:
    """The last job that there is room for is refused."""
    _other(patch, RouterCore, "_ceiling", lambda ceiling: ceiling - 1)


# -- servers that fail -----------------------------------------------------------------------------------


@mutant
def nobody_is_set_aside(patch: Patch) -> None:
    """Whatever a server does."""
    patch.setattr(FailureMemory, "_set_aside", lambda self, server, standing, why, now: [])


@mutant
def one_failure_more_is_allowed(patch: Patch) -> None:
    """Than the rule says."""
    _other(patch, FailureMemory, "_failures", lambda failures: failures + 1)


@mutant
def one_failure_less_is_allowed(patch: Patch) -> None:
    """Than the rule says, if that is not the first one."""
    _other(patch, FailureMemory, "_failures", lambda failures: max(1, failures - 1))


@mutant
def no_trial_begins(patch: Patch) -> None:
    """Who is let back may fail as often as at first."""
    right = FailureMemory.forgive

    def forgive(self: FailureMemory, event: Any) -> None:
        right(self, event)
        if event.server in self._standings:
            self._standings[event.server].on_trial = False

    patch.setattr(FailureMemory, "forgive", forgive)


@mutant
def no_time_aside_is_longer_than_the_first(patch: Patch) -> None:
    """However often a server fails its trial."""
    right = FailureMemory._set_aside

    def set_aside(self: FailureMemory, server: Server, standing: Any, *rest: Any) -> Any:
        standing.doublings = 0
        return right(self, server, standing, *rest)

    patch.setattr(FailureMemory, "_set_aside", set_aside)


@mutant
def a_lost_link_is_forgotten(patch: Patch) -> None:
    """Whoever comes back by a new link begins with a clean slate."""
    right = FailureMemory.leaves

    def leaves(self: FailureMemory, server: Server, now: float) -> None:
        right(self, server, now)
        self._gone.clear()

    patch.setattr(FailureMemory, "leaves", leaves)


@mutant
def a_lost_link_is_taken_for_a_drain(patch: Patch) -> None:
    """Since its servers are said to drain before they leave."""
    right = FailureMemory.leaves

    def leaves(self: FailureMemory, server: Server, now: float) -> None:
        self._standings[server].drains = now, False
        right(self, server, now)

    patch.setattr(FailureMemory, "leaves", leaves)


@mutant
def a_new_link_ends_the_time_aside(patch: Patch) -> None:
    """And a trial begins at once, at each router."""
    right = FailureMemory.drains

    def drains(self: FailureMemory, server: Server, now: float) -> None:
        right(self, server, now)
        self._standings[server].until = now

    patch.setattr(FailureMemory, "drains", drains)


# -- servers that fall silent ----------------------------------------------------------------------------


@mutant
def a_stale_view_counts_as_ever(patch: Patch) -> None:
    """Whatever the rule is."""
    patch.setattr(Freshness, "_judge", lambda self, draining: [])


@mutant
def a_stale_view_counts_as_none(patch: Patch) -> None:
    """The server that was not heard of for longest is the best."""

    def judge(self: Freshness, draining: set[str]) -> list[Server]:
        for server in self.stale:
            server.view = 0
        return list(self.stale)

    patch.setattr(Freshness, "_judge", judge)


@mutant
def views_keep_twice_as_long(patch: Patch) -> None:
    """Than they were said to."""
    _other(patch, Freshness, "_after", lambda after: 2.0 * after)
