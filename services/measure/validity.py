"""Whether a live run says anything of the theory: a machine that could not keep up says something of itself."""

from __future__ import annotations

from collections.abc import Mapping

LATENESS_LIMIT_UNITS = 0.10
DELAY_LIMIT_UNITS = 0.50
"""The simulation that a live run is compared with knows mean delays; stalls of the machine are no network."""
CPU_LIMIT = 0.90


def invalidities(
    lateness_p99_units: float, delay_p99_units: float, cpu: Mapping[str, float], unanswered: int
) -> list[str]:
    """Why a run says nothing about the theory; empty: it is valid."""
    reasons = []
    if not lateness_p99_units <= LATENESS_LIMIT_UNITS:
        reasons.append(
            f"the generator was late: p99 {lateness_p99_units:.3g} time units, allowed {LATENESS_LIMIT_UNITS:g}: "
            "choose a larger time_unit_s or a smaller load"
        )
    if not delay_p99_units <= DELAY_LIMIT_UNITS:
        reasons.append(
            f"messages were held up: p99 {delay_p99_units:.3g} time units, allowed {DELAY_LIMIT_UNITS:g}: the machine "
            "was too busy: end other work on it, or choose a larger time_unit_s"
        )
    reasons += [
        f"{name} used {share:.0%} of a core, allowed {CPU_LIMIT:.0%}: choose a larger time_unit_s, or fewer jobs"
        for name, share in cpu.items()
        if share > CPU_LIMIT
    ]
    if unanswered:
        reasons.append(f"{unanswered} jobs got no answer: the run did not drain")
    return reasons
