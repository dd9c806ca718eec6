"""The truth about one server: a queue of pencil and paper, as slow and as simple as can be."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class Truth(NamedTuple):
    """What became of a job."""

    job: int
    outcome: str
    arrived: float
    waiting: float
    service: float


class PaperQueue:
    """First come, first served, by the book: every instant is on one list, and the earliest is crossed off."""

    def __init__(self, slots: int, capacity: float, in_service: bool) -> None:
        self.slots, self.capacity, self.in_service = slots, capacity, in_service
        self.agenda: list[tuple[float, int, str, int]] = []
        self.written = 0
        self.queue: list[int] = []
        self.serving: dict[int, float] = {}
        self.arrived: dict[int, float] = {}
        self.length_of_service: dict[int, float] = {}
        self.at_length: dict[int, float] = defaultdict(float)
        self.now = 0.0
        self.truths: list[Truth] = []
        self.closed = self.failing = self.hung = False
        self.slow = 1.0
        self.over: list[int] = []

    @property
    def length(self) -> int:
        return len(self.queue) + len(self.serving)

    def write(self, at: float, what: str, job: int) -> None:
        self.written += 1
        self.agenda.append((at, self.written, what, job))

    def advance(self, to: float) -> None:
        while self.agenda and min(self.agenda)[0] <= to:
            entry = min(self.agenda)
            self.agenda.remove(entry)
            at, _, what, job = entry
            self.pass_time(at)
            if what == "end" and job in self.serving and self.hung:
                self.over.append(job)
            elif what == "end" and job in self.serving:
                self.leave(job, "served")
            elif what == "patience" and (job in self.queue or (job in self.serving and self.in_service)):
                self.leave(job, "abandoned")
        self.pass_time(to)

    def pass_time(self, to: float) -> None:
        self.at_length[self.length] += to - self.now
        self.now = to

    def arrive(self, job: int, service: float, patience: float | None) -> None:
        self.arrived[job], self.length_of_service[job] = self.now, service
        turned_away = self.closed or self.failing
        if turned_away or self.length == self.capacity:
            self.truths.append(Truth(job, "failed" if turned_away else "blocked", self.now, 0.0, 0.0))
            return
        at_once = len(self.serving) < self.slots
        if at_once:
            self.start(job)
        else:
            self.queue.append(job)
        if patience is not None and (self.in_service or not at_once):
            self.write(self.now + patience, "patience", job)

    def start(self, job: int) -> None:
        self.serving[job] = self.now
        self.write(self.now + self.length_of_service[job] * self.slow, "end", job)

    def disturb(self, slow: float, failing: bool, hung: bool) -> None:
        self.slow, self.failing, self.hung = slow, failing, hung
        while self.over and not hung:
            job = self.over.pop(0)
            if job in self.serving:
                self.leave(job, "served")

    def leave(self, job: int, outcome: str) -> None:
        started = self.serving.pop(job, self.now)
        if job in self.queue:
            self.queue.remove(job)
        elif self.queue:
            self.start(self.queue.pop(0))
        arrived = self.arrived[job]
        self.truths.append(Truth(job, outcome, arrived, started - arrived, self.now - started))
