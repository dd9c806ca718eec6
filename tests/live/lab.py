"""The `herdless` command in a folder of its own, and whatever processes it starts: for tests that run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.marked import Mark

ROOT = Path(__file__).parents[2]
BOUND_S = 60.0  # far above what is needed, far below what a hanging process would take

SMALL = """
name = "small"
seed = 3
time_unit_s = 0.1

[policy]
name = "pull"

[routers]
count = 2

[[pools]]
name = "slow"
servers = 3
rate = 1.0

[[pools]]
name = "fast"
servers = 3
rate = 2.0

[arrivals]
load = 0.6

[run]
warmup = 10
duration = 50
"""


class Lab:
    """Runs commands with a mark in their environment, by which every process that descends from them is found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = Mark()
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), **self.mark.environment}
        (folder / "small.toml").write_text(SMALL)

    def start(self, *arguments: str) -> Any:
        return subprocess.Popen(
            [sys.executable, "-m", "services.cli", *arguments], cwd=self.folder, env=self.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code, standard output, standard error."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=BOUND_S)
        return process.returncode, out, err

    def run_valid(self, *arguments: str) -> tuple[int, Any]:
        """Exit code and report of a run; one that a busy machine has made invalid is repeated, twice at most."""
        for _ in range(3):
            code, out, err = self.run(*arguments)
            assert err == ""
            report = json.loads(out)
            if code != 3:
                return code, report
        pytest.skip(f"the machine is too busy for a live run: {'; '.join(report['invalid'])}")

    def processes(self, word: str = "") -> list[int]:
        """Process ids of those with the mark whose command line has `word` among its arguments."""
        return [pid for pid, arguments in self.mark.alive().items() if not word or word in arguments]

    def wait_for(self, condition: Callable[..., Any]) -> Any:
        """Wait until the condition holds; return what it gives."""
        until = time.monotonic() + BOUND_S
        while not (found := condition()):
            assert time.monotonic() < until, "it did not come about"
            time.sleep(0.02)
        return found


@contextmanager
def laboratory(folder: Path) -> Iterator[Lab]:
    """A lab that may leave no process behind."""
    made = Lab(folder)
    try:
        yield made
    finally:
        left = made.mark.kill_all()
    assert left == []
