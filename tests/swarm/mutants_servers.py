"""Mistakes that servers make."""

from __future__ import annotations

from typing import Any

from router.protocol.messages import Report
from server.announcer import Announcer
from server.core import PatienceEnded, RouterLeft, ServerCore, ServiceEnded
from server.reporter import Reporter
from tests.swarm.mutant import Patch, mutant

# -- ends and counts -----------------------------------------------------------------------------------


@mutant
def an_end_is_lost(patch: Patch) -> None:
    """Of one job in seventeen no router is told."""
    right = ServerCore._end

    def end(self: ServerCore, work: Any, *rest: Any) -> list[Any]:
        effects = right(self, work, *rest)
        return [] if work.job % 17 == 0 else effects

    patch.setattr(ServerCore, "_end", end)


@mutant
def an_end_is_told_twice(patch: Patch) -> None:
    """Now and then."""
    right = ServerCore._end

    def end(self: ServerCore, work: Any, *rest: Any) -> list[Any]:
        return right(self, work, *rest) * (2 if work.job % 17 == 0 else 1)

    patch.setattr(ServerCore, "_end", end)


@mutant
def an_end_of_a_lost_link_is_told(patch: Patch) -> None:
    """Although the router that had sent the job is gone, or is another incarnation."""
    right = ServerCore._end

    def end(self: ServerCore, work: Any, *rest: Any) -> list[Any]:
        was_up, work.session.up = work.session.up, True
        effects = right(self, work, *rest)
        work.session.up = was_up
        return effects

    patch.setattr(ServerCore, "_end", end)


# -- pull-messages ---------------------------------------------------------------------------------------


@mutant
def a_pull_message_is_not_withdrawn(patch: Patch) -> None:
    """When a job comes that did not use it."""
    right = Announcer.risen
    patch.setattr(Announcer, "risen", lambda self, length: [] if self.outstanding else right(self, length))


@mutant
def messages_of_a_lost_router_stay_out(patch: Patch) -> None:
    """So the server believes that it has asked somebody."""
    patch.setattr(Announcer, "lost", lambda self, session: None)


# -- incarnations ----------------------------------------------------------------------------------------


@mutant
def a_session_outlives_its_link(patch: Patch) -> None:
    """The server goes on telling a router that is gone."""
    right = ServerCore._HANDLERS[RouterLeft]

    def left(self: ServerCore, event: Any, now: float) -> Any:
        session = self.sessions[event.router]
        effects = right(self, event, now)
        session.up = True
        return effects

    patch.setitem(ServerCore._HANDLERS, RouterLeft, left)


# -- queues and services ---------------------------------------------------------------------------------


@mutant
def last_come_first_served(patch: Patch) -> None:
    """The line is a stack."""
    right = ServerCore._leave

    def leave(self: ServerCore, *rest: Any) -> Any:
        self._waiting.reverse()
        effects = right(self, *rest)
        self._waiting.reverse()
        return effects

    patch.setattr(ServerCore, "_leave", leave)


@mutant
def one_job_too_many(patch: Patch) -> None:
    """The capacity is off by one."""
    right = ServerCore.__init__

    def init(self: ServerCore, *arguments: Any, **more: Any) -> None:
        right(self, *arguments, **more)
        self._room += 1

    patch.setattr(ServerCore, "__init__", init)


@mutant
def patience_is_ignored(patch: Patch) -> None:
    """Jobs wait for ever."""
    patch.setitem(ServerCore._HANDLERS, PatienceEnded, lambda self, event, now: [])


@mutant
def a_slow_server_is_as_fast_as_ever(patch: Patch) -> None:
    """What was to slow it down is forgotten with the first service."""
    right = ServerCore._start

    def start(self: ServerCore, work: Any, now: float) -> Any:
        self._service_unit = self._time_unit / self.spec.rate
        return right(self, work, now)

    patch.setattr(ServerCore, "_start", start)


# -- reports and memory ----------------------------------------------------------------------------------


@mutant
def dispatches_under_way_are_counted_twice(patch: Patch) -> None:
    """Reports do not say how many dispatches they have counted."""
    right = Reporter.report

    def report(self: Reporter, session: Any, length: int) -> Report:
        found = right(self, session, length)
        return found._replace(seen=max(0, found.seen - 1))

    patch.setattr(Reporter, "report", report)


@mutant
def a_length_comes_before_the_end_that_it_counts(patch: Patch) -> None:
    """So the router believes that an end was lost."""
    right = ServerCore._leave
    patch.setattr(ServerCore, "_leave", lambda self, *rest: right(self, *rest)[::-1])


@mutant
def a_table_grows_for_ever(patch: Patch) -> None:
    """The server remembers every job that it has served."""
    right = ServerCore._HANDLERS[ServiceEnded]

    def ended(self: ServerCore, event: Any, now: float) -> Any:
        self.time_at_length.append(0.0)
        return right(self, event, now)

    patch.setitem(ServerCore._HANDLERS, ServiceEnded, ended)
