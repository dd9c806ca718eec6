"""What a generator keeps of each job's end."""

from __future__ import annotations

import numpy as np

from router.protocol.messages import Outcome
from router.protocol.stream import Answer
from services.loadgen.client.ledger import Ledger
from services.loadgen.workload import Workload

ENDS: list[tuple[Outcome, str, str, bool]] = [
    ("served", "", "a-1", False),
    ("blocked", "", "a-1", False),
    ("failed", "server", "a-1", True),
    ("failed", "out of memory", "a-1", True),  # a server process may have reasons of its own
    ("failed", "draining", "a-1", False),
    ("failed", "ceiling", "a-1", False),
    ("failed", "link_lost", "a-1", False),
    ("failed", "unaccounted", "a-1", False),
    ("failed", "draining", "", False),
    ("failed", "policy", "", False),
]
"""Outcome, reason, server, and whether that server has failed the job by its own doing."""


def test_of_each_job_is_known_whether_its_server_has_failed_it() -> None:
    jobs = len(ENDS)
    ledger = Ledger(Workload(np.arange(jobs, dtype=float), np.zeros(jobs, int), np.ones(jobs), np.full(jobs, np.nan)))
    for job, (outcome, reason, server, _) in enumerate(ENDS):
        ledger.sends(job, float(job))
        ledger.ends(Answer(job, outcome, reason, server, "a", "jsq", 0.0, 0.0, 0.0, False, False), job + 1.0)

    assert ledger.close(0.0, 1.0, 0.0).records.faulted.tolist() == [faulted for *_, faulted in ENDS]
