"""What adding up gives: what cannot be, what has its reason, and what could not be checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


def sentence(what: str, names: Sequence[str], count: int) -> str:
    """What is wrong, with whom, and with how many more."""
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"{what}: {', '.join(names)}{more}"


@dataclass(frozen=True)
class Mismatch:
    """Something that cannot be.

    Attributes:
        what: What is wrong. `count`: with how many jobs.
        jobs: Numbers of the first ones by the generator's count, where they are known.
        names: The first ones, in words.
    """

    what: str
    count: int
    jobs: Sequence[int]
    names: Sequence[str]

    def __str__(self) -> str:
        return sentence(self.what, self.names, self.count)


@dataclass
class Audit:
    """What adding up has given.

    Attributes:
        jobs: Jobs that were sent.
        traced: Those of them whose whole way is on record: their arrival and end at a router, and of each dispatch the
            receipt and the end at its server.
        mismatches: What cannot be; none: everything adds up.
        accounted: What looks incomplete and has its reason on record, by words: how often.
        unchecked: What could not be checked, and why.
    """

    jobs: int = 0
    traced: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    accounted: dict[str, int] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything adds up, as far as it could be checked."""
        return not self.mismatches

    @property
    def complete(self) -> bool:
        """Whether everything could be checked."""
        return not self.unchecked
