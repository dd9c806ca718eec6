"""What a case of chaos is, and the register of all cases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos.stage import PROCESSES, ROUTERS, SERVERS, Stage

ALL = SERVERS * len(PROCESSES)
R1, R2 = ROUTERS
A, B, C = PROCESSES
WHILE_S = 0.5
"""How long things go on as they are, so that jobs meet them."""

Story = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """One thing that goes wrong.

    Attributes:
        name: Its name. `words`: what happens.
        story: Lets it happen, and mends it; when it returns, nothing is in the way of recovery any more.
        recovers_s: How long after that everybody is linked with everybody again, as documented, without the slack.
        loses: Reasons for which jobs may fail; no job fails for another one.
        compact: Whether it belongs to the set of about a minute.
    """

    name: str
    words: str
    story: Story
    recovers_s: float
    loses: frozenset[str]
    compact: bool


CASES: dict[str, Case] = {}


def case(words: str, *, recovers_s: float, loses: str = "", compact: bool = False) -> Callable[[Story], Story]:
    """Register a story under the name of its function."""

    def register(story: Story) -> Story:
        name = story.__name__.replace("_", " ")
        reasons = frozenset(loses.split())
        CASES[name] = Case(name, words, story, recovers_s, reasons, compact)
        return story

    return register
