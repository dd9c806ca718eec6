"""Jobs that carry a key: each is served at most once, and whoever repeats it is told the same end."""

from __future__ import annotations

from asyncio import Future
from collections import OrderedDict
from typing import NamedTuple

from router.app.replies import BadRequest
from router.events import EndJob

_UNKNOWN_IF_BEGUN = frozenset(("link_lost", "unaccounted"))


class Answer(NamedTuple):
    """The answer to a job: the HTTP status, and the body."""

    status: int
    body: bytes


class Keyed:
    """A job with a key.

    Attributes:
        job: Its size and patience; a repetition must have the same.
        answer: Its answer, when it has ended.
        kept_until: When that is forgotten.
    """

    __slots__ = ("answer", "job", "kept_until")

    def __init__(self, job: tuple[float, float | None], answer: Future[Answer]) -> None:
        self.job = job
        self.answer = answer
        self.kept_until = float("inf")


class Keys:
    """The keys of the jobs in the system, and of those that ended not long ago.

    Rule: an answer is kept for `kept_s`, and for less if more than `most` are kept: the oldest goes first. That of a
    job whose service certainly never began is not kept: it may be tried again.

    Units: seconds of a monotonic clock.

    Attributes:
        repeated: Jobs whose key was known.
    """

    def __init__(self, most: int, kept_s: float) -> None:
        self.repeated = 0
        self._most = most
        self._kept_s = kept_s
        self._in_system: dict[str, Keyed] = {}
        self._ended: OrderedDict[str, Keyed] = OrderedDict()

    def __len__(self) -> int:
        """How many keys are known."""
        return len(self._in_system) + len(self._ended)

    def find(self, key: str, job: tuple[float, float | None], now: float) -> Future[Answer] | None:
        """The answer to the job of this key, which may be still to come; `None`: the key is new.

        Raises:
            BadRequest: The key is that of another job.
        """
        self._forget_old(now)
        known = self._in_system.get(key) or self._ended.get(key)
        if known is None:
            return None
        if known.job != job:
            raise BadRequest(
                409, "key", f"key {key!r:.80} belongs to a job of size {known.job[0]:g} and patience {known.job[1]}"
            )
        self.repeated += 1
        return known.answer

    def begin(self, key: str, job: tuple[float, float | None], answer: Future[Answer]) -> None:
        """A job with a new key."""
        self._in_system[key] = Keyed(job, answer)

    def drop(self, key: str) -> None:
        """The job was not taken."""
        self._in_system.pop(key, None)

    def ended(self, key: str, effect: EndJob, answer: Answer, now: float) -> None:
        """The job of this key has its end."""
        keyed = self._in_system.pop(key)
        keyed.answer.set_result(answer)
        if may_have_begun(effect):
            keyed.kept_until = now + self._kept_s
            self._ended[key] = keyed
        self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        ended = self._ended
        while ended and (len(ended) > self._most or next(iter(ended.values())).kept_until <= now):
            ended.popitem(last=False)


def may_have_begun(effect: EndJob) -> bool:
    """Whether the service of a job that has ended so may have begun."""
    if effect.outcome == "served" or effect.reason in _UNKNOWN_IF_BEGUN:
        return True
    return effect.end is not None and effect.end.service > 0.0
