"""What a soak run does: a small fleet at 70% of capacity, whose members come and go at random, with rests between."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from services.scenario import Scenario

UNIT_S = 0.15
LOAD = 0.7
SERVERS = 5  # of each process
STAYING = ("router-1", "servers-slow-1", "servers-fast-1")
STRUCK = ("router-2", "servers-slow-2", "servers-fast-2")
"""Nothing happens to those that stay: they live throughout, and see all others come and go."""
MEMBERS = (*STAYING, *STRUCK)

WARMUP_SHARE = 0.1
ROUND_S = 180.0
REST_SHARE = 0.25
CALM_SHARE = 0.5
"""Nothing happens for a tenth of the run. Rounds of changes follow, each with a rest at its end; the second half of a
rest is calm: what went before is over."""
GAP_S = (3.0, 9.0)
AWAY_S = (2.0, 12.0)
"""From one change to the next, and how long somebody is away, at least and at most."""
MOST_CHANGES = 400
"""A run that would have more has longer gaps."""
MOST_GUESTS = 2
STRIKE_SHARE = 2.0 / 3.0
"""The chance of each of those that may be struck that it is, in a round: else it has time to grow old."""


class Plan:
    """A soak run, before it is made.

    Units: seconds from the start of the schedule.

    Args:
        minutes: How long it takes.
        seed: Of the changes and of the jobs.
        policy: The `[policy]` table.

    Attributes:
        scenario: With all changes as its faults.
        run_s: How long it takes. `warmup_s`: how long nothing happens at first.
        calms: When everybody is there, and no guest: at the end of the warm-up, and of each round.
    """

    def __init__(self, minutes: float, seed: int, policy: dict[str, Any]) -> None:
        self.run_s = minutes * 60.0
        self.warmup_s = WARMUP_SHARE * self.run_s
        left_s = self.run_s - self.warmup_s
        rounds = max(round(left_s / ROUND_S), 1)
        round_s = left_s / rounds
        rest_s = REST_SHARE * round_s
        changes = Changes(Random(seed))
        stretch = max(1.0, self.run_s / MOST_CHANGES / GAP_S[1])
        self.calms = [(self.warmup_s * (1.0 - CALM_SHARE), self.warmup_s)]
        for number in range(1, rounds + 1):
            end_s = self.warmup_s + number * round_s
            changes.draw_round(end_s - round_s, end_s - rest_s, stretch)
            self.calms.append((end_s - rest_s * CALM_SHARE, end_s))
        self.scenario = _scenario(policy, seed, self.warmup_s, left_s, changes.faults)

    def counts(self) -> Counter[str]:
        """The changes, by what happens to whom."""
        return Counter(_words(fault.kind, fault.target or "") for fault in self.scenario.faults)


def _words(kind: str, target: str) -> str:
    if kind == "add":
        return "add a guest"
    whom = "a guest" if target not in MEMBERS else "a router" if target.startswith("router") else "a server process"
    return f"{kind} {whom}"


class Changes:
    """Draws changes of membership, and remembers who is there.

    Args:
        rng: To draw from.

    Attributes:
        faults: What was drawn, as tables of `[[faults]]`.
    """

    def __init__(self, rng: Random) -> None:
        self.faults: list[dict[str, Any]] = []
        self._rng = rng
        self._back_s: dict[str, float] = {}
        self._guests: list[str] = []
        self._added: Counter[str] = Counter()

    def draw_round(self, from_s: float, to_s: float, stretch: float) -> None:
        """Draw changes from one instant to another; then everybody is there again, and no guest."""
        rng = self._rng
        struck = [name for name in STRUCK if rng.random() < STRIKE_SHARE]
        at_s = from_s + rng.uniform(*GAP_S) * stretch
        while at_s < to_s:
            self._back_s = {name: back_s for name, back_s in self._back_s.items() if back_s > at_s}
            self._draw(at_s, min(at_s + rng.uniform(*AWAY_S), to_s), struck)
            at_s += rng.uniform(*GAP_S) * stretch
        self._back_s.clear()
        while self._guests:
            self._note(to_s, rng.choice(("kill", "drain")), target=self._guests.pop())

    def _draw(self, at_s: float, back_s: float, struck: list[str]) -> None:
        """One change; a router and a server process may be away at a time, but never two of a kind."""
        rng = self._rng
        away = {name.partition("-")[0] for name in self._back_s}
        here = [name for name in struck if name.partition("-")[0] not in away]
        choices = [("restart", name) for name in [*here, *self._guests]]
        choices += [(kind, name) for name in [*here, *self._guests] for kind in ("kill", "drain")]
        choices += [("add", pool) for pool in ("slow", "fast") if len(self._guests) < MOST_GUESTS]
        kind, name = rng.choice(choices)
        if kind == "add":
            self._added[name] += 1
            self._guests.append(f"servers-{name}-{2 + self._added[name]}")
            self._note(at_s, kind, pool=name, servers=SERVERS)
            return
        self._note(at_s, kind, target=name)
        if kind == "restart":
            return
        if name in self._guests:
            self._guests.remove(name)
        else:
            self._back_s[name] = back_s
            self._note(back_s, "restart", target=name)

    def _note(self, at_s: float, kind: str, **of: Any) -> None:
        self.faults.append({"at": round(at_s / UNIT_S, 3), "kind": kind, **of})


def _scenario(
    policy: dict[str, Any], seed: int, warmup_s: float, left_s: float, faults: list[dict[str, Any]]
) -> Scenario:
    pools = [
        {"name": name, "servers": 2 * SERVERS, "rate": rate, "processes": 2}
        for name, rate in (("slow", 1.0), ("fast", 2.0))
    ]
    return Scenario.model_validate({
        "name": "soak",
        "title": "Members that come and go at random, for a long time",
        "seed": seed,
        "time_unit_s": UNIT_S,
        "policy": policy,
        # All that routers can remember of servers is in use.
        "routers": {"count": 2, "retries": 1, "memory": {"failures": 3, "hang": 100.0}, "stale_after": 200.0},
        "pools": pools,
        "arrivals": {"law": "poisson", "load": LOAD},
        "service": {"law": "exponential"},
        "run": {"warmup": warmup_s / UNIT_S, "duration": left_s / UNIT_S, "events": "full"},
        "faults": faults,
    })  # fmt: skip
