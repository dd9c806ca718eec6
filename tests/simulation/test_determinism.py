"""The same scenario, seed and replication give the same run, in every process; anything else gives another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.registry import policy_names
from services.loadgen.workload import draw_workload
from services.simulator.run import simulate
from tests.simulation.digest import digest_of, scenario

ROOT = Path(__file__).resolve().parents[2]

PLAIN = [{"name": name} for name in policy_names()]


def in_another_process(hash_seed: int) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.digest"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
        timeout=100,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_two_processes_with_other_hash_seeds_give_the_same_trace() -> None:
    one, other = in_another_process(1), in_another_process(2)
    assert one == other
    assert {name for key in one for name in policy_names() if key.startswith(name)} == set(policy_names())
    # The digest sees what happens: policies differ, and so do runs with and without delay.
    assert len({one[f"{name} {network}"] for name in policy_names() for network in ("delay", "no delay")}) == 2 * len(
        policy_names()
    )


@pytest.mark.parametrize("table", PLAIN, ids=lambda table: table["name"])
def test_a_trace_repeats_and_another_replication_gives_another(table: dict[str, Any]) -> None:
    assert digest_of(table) == digest_of(table)
    assert digest_of(table) != digest_of(table, replication=1)


@pytest.mark.parametrize("table", PLAIN, ids=lambda table: table["name"])
def test_jobs_do_not_depend_on_the_policy(table: dict[str, Any]) -> None:
    jobs = draw_workload(scenario())
    records = simulate(scenario().with_policy(table), replication=1).records
    for drawn, recorded in (
        (jobs.instants, records.intended),
        (jobs.routers, records.router),
        (jobs.sizes, records.size),
        (jobs.patience, records.patience),
    ):
        assert np.array_equal(drawn, recorded)
