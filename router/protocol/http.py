"""What HTTP clients may rely on in numbers: limits of bodies, and the status that tells how a job ended."""

from __future__ import annotations

from router.protocol.messages import Outcome

MAX_BODY_BYTES = 64 << 10
MAX_JOB_BYTES = 1024  # a job is some tens of bytes
MAX_KEY = 200

STATUS: dict[Outcome, int] = {"served": 200, "blocked": 503, "abandoned": 504, "failed": 502}
TURNED_AWAY = ("no_server", "draining", "ceiling")
"""Reasons of failure for which the job may be tried again: this router or its servers had no place now."""
OUR_MISTAKE = ("policy",)
"""Reasons of failure that are ours."""


def end_status(outcome: Outcome, reason: str) -> int:
    """The HTTP status that answers this end of a job."""
    if reason in TURNED_AWAY:
        return 503
    return 500 if reason in OUR_MISTAKE else STATUS[outcome]
