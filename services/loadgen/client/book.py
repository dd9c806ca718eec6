"""The book of a generator that runs for ever: counts and histograms, and the jobs that are under way."""

from __future__ import annotations

from collections.abc import Sequence

from router.process.metrics import Histogram
from router.protocol.messages import OUTCOMES
from router.protocol.stream import Answer

# Lateness is shown from 10 µs to 100 ms, as the lag of the servers' timers is.
_USUAL_LATENESS_S = 1e-3

REASONS = ("no_router", "no_server", "link_lost", "ceiling", "draining", "policy", "server", "backlog")

MOST_ENDS = 50
"""Kinds of end that are told apart; reasons come from routers and servers, and each has a series of its own."""

MOST_POLICIES = 50
"""Their names come from routers too."""


class RunningBook:
    """Counts jobs without keeping them: at every instant sent = ended + under way.

    Args:
        policies: The names of all policies that may decide a job.
        time_unit_s: Seconds in a time unit.

    Attributes:
        sent: Jobs so far. `ends`: those that have ended, by outcome and reason.
        doubled: Ends of jobs that had one already; they change nothing.
        lateness_s: How late jobs went out, against their schedule.
        sojourn_units: From the intended instant to the end, of served jobs, by policy.
        one_clock, delay_s, delays: As in `Book`.
    """

    def __init__(self, policies: Sequence[str], time_unit_s: float) -> None:
        self.sent = 0
        self.doubled = 0
        self.counts: dict[tuple[str, ...], float] = {(outcome, ""): 0 for outcome in OUTCOMES if outcome != "failed"}
        self.counts.update({("failed", reason): 0 for reason in REASONS})
        self.lateness_s = Histogram(_USUAL_LATENESS_S)
        self.sojourn_units = {policy: Histogram(1.0) for policy in policies}
        self.one_clock = True
        self.delay_s = 0.0
        self.delays = 0
        self._time_unit_s = time_unit_s
        self._under_way: dict[int, float] = {}

    @property
    def under_way(self) -> int:
        """Jobs sent and not ended."""
        return len(self._under_way)

    def sends(self, due_s: float, now: float) -> int:
        """A job goes out that was due at `due_s`; returns its number."""
        self.sent += 1
        self._under_way[self.sent] = due_s
        self.lateness_s.observe(now - due_s)
        return self.sent

    def ends(self, answer: Answer, now: float) -> None:
        """The job has come back."""
        due_s = self._under_way.pop(answer.id, None)
        if due_s is None:
            self.doubled += 1
            return
        end = answer.outcome, answer.reason
        if end not in self.counts and len(self.counts) >= MOST_ENDS:
            end = answer.outcome, "other"
        self.counts[end] = self.counts.get(end, 0) + 1
        if answer.outcome == "served":
            policy = answer.policy
            if policy not in self.sojourn_units and len(self.sojourn_units) >= MOST_POLICIES:
                policy = "other"
            histogram = self.sojourn_units.get(policy)
            if histogram is None:
                histogram = self.sojourn_units[policy] = Histogram(1.0)
            histogram.observe((now - due_s) / self._time_unit_s)
