"""What a router has asked of servers, for jobs that wait for the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from router.events import ProbesDue, Tally
from router.policy import Answer, Job, Policy, Server
from router.protocol.timer import StartTimer


class Probing:
    """A job that waits for answers, with the policy that asked.

    Attributes:
        silent: Those asked that have not answered yet.
        due: The instant at which it has waited long enough.
        answers: So far, in the order of coming.
    """

    __slots__ = ("answers", "due", "job", "policy", "silent", "tally")

    def __init__(self, job: Job, policy: Policy, tally: Tally, silent: Sequence[Server], due: float) -> None:
        self.job = job
        self.policy = policy
        self.tally = tally
        self.silent = dict.fromkeys(silent)
        self.due = due
        self.answers: list[Answer] = []


class Questions:
    """The jobs that wait for answers to their probes; whichever is handed out waits no more.

    Rule: all wait equally long, so whoever asked first is due first, and one timer serves them all.

    Args:
        timeout: How long a job waits at most, in the clock's unit.

    Attributes:
        waiting: What waits, by the number of the job, in order of asking.
    """

    def __init__(self, timeout: float) -> None:
        self.waiting: dict[int, Probing] = {}
        self._timeout = timeout
        self._timer_runs = False

    def ask(self, job: Job, policy: Policy, tally: Tally, servers: Sequence[Server], now: float) -> StartTimer | None:
        """A job begins to wait for what these servers answer; the timer, unless it runs."""
        due = now + self._timeout
        self.waiting[job.id] = Probing(job, policy, tally, servers, due)
        if self._timer_runs:
            return None
        self._timer_runs = True
        return StartTimer(due, ProbesDue())

    def answered(self, job: int, server: Server, length: int) -> Probing | None:
        """A server has answered; what has all its answers now. An answer that comes too late changes nothing."""
        probing = self.waiting.get(job)
        if probing is None or server not in probing.silent:
            return None
        del probing.silent[server]
        probing.answers.append((server, length))
        if probing.silent:
            return None
        del self.waiting[job]
        return probing

    def unask(self, server: Server) -> Iterator[Probing]:
        """Nobody waits for this server any more, nor counts on what it has answered; those that waited for no other."""
        for probing in list(self.waiting.values()):
            probing.answers = [answer for answer in probing.answers if answer[0] is not server]
            if server in probing.silent:
                del probing.silent[server]
                if not probing.silent:
                    yield self.waiting.pop(probing.job.id)

    def due(self, now: float) -> Iterator[Probing]:
        """Those that have waited long enough."""
        for probing in list(takewhile(lambda probing: probing.due <= now, self.waiting.values())):
            yield self.waiting.pop(probing.job.id)

    def next_timer(self) -> list[StartTimer]:
        """The timer has rung; the next one, if anybody waits."""
        self._timer_runs = bool(self.waiting)
        return [StartTimer(next(iter(self.waiting.values())).due, ProbesDue())] if self._timer_runs else []
