"""The server's half of queue-length reports: when to send one, and to whom."""

from __future__ import annotations

from random import Random

from router.protocol.messages import Report, build
from router.protocol.needs import ReportNeeds
from server.session import Session


class Reporter:
    """Decides which routers hear of a change of the queue length.

    Attributes:
        on_change: The sessions that hear of each change.
        on_departure: Whether any router asks to hear of departures.
    """

    __slots__ = ("_listeners", "_rng", "_rule", "_server", "on_change", "on_departure")

    def __init__(self, server: str, rng: Random) -> None:
        self.on_change: list[Session] = []
        self.on_departure = False
        self._server = server
        self._rng = rng
        self._listeners: list[Session] = []
        self._rule: ReportNeeds | None = None

    def set_listeners(self, sessions: list[Session]) -> None:
        """Only these want reports; the last one to say what it needs sets the rule for departures."""
        self.on_change = [s for s in sessions if s.needs.reports is not None and s.needs.reports.change]
        self._listeners = [
            s for s in sessions
            if s.needs.reports is not None and (s.needs.reports.departure > 0 or s.needs.reports.idle)
        ]  # fmt: skip
        self._rule = self._listeners[-1].needs.reports if self._listeners else None
        self.on_departure = self._rule is not None

    def changed(self, length: int) -> list[Report]:
        """A job came or went: tell those that hear of each change."""
        return [self.report(session, length) for session in self.on_change]

    def departed(self, length: int) -> list[Report]:
        """A job went: tell those whom the departure rule names.

        Rule: the most wrong view is the one with the largest absolute error, ties at random. What LSQ's stability asks
        for is that errors stay bounded, and this keeps the largest of them down. Both signs count because both harm:
        who believes too much leaves this server idle, who believes too little floods it. Telling only the ones or the
        others does worse than telling a random router; the absolute error does as well, to within a percent or two.
        """
        rule = self._rule
        if rule is None:
            return []
        if not (rule.idle and length == 0) and not self._chance(rule.departure):
            return []
        if rule.to == "all":
            return [self.report(session, length) for session in self._listeners]
        if rule.to == "one":
            return [self.report(self._pick(self._listeners), length)]
        errors = [abs(session.believed - length) for session in self._listeners]
        worst = max(errors)
        wrong = [session for session, error in zip(self._listeners, errors, strict=True) if error == worst]
        return [self.report(self._pick(wrong), length)]

    def report(self, session: Session, length: int) -> Report:
        """One report, to one router, that answers no probe."""
        session.believed = length
        return build(Report, (self._server, session.router, length, session.seen, None))

    def _chance(self, probability: float) -> bool:
        return probability >= 1.0 or (probability > 0.0 and self._rng.random() < probability)

    def _pick(self, sessions: list[Session]) -> Session:
        if len(sessions) == 1:
            return sessions[0]
        return sessions[int(self._rng.random() * len(sessions))]
