"""A sweep that is ended in the middle, and goes on where it was."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUND_S = 60.0  # far above what is needed, far below what a hanging process would take

SCENARIO = """
name = "swept"
policy = {name = "jsq"}
pools = [{name = "a", servers = 20}]
arrivals = {load = 0.8}
run = {warmup = 20, duration = 1000}
"""
POINTS = 6
OVER = "seed=1:6:1"


class Lab:
    """Runs commands with a mark in their environment, by which every process that descends from them is found."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = f"mark-{uuid.uuid4()}"
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "PRODUCT_TEST_MARK": self.mark}
        (folder / "swept.toml").write_text(SCENARIO)

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "services.cli", "sweep", "swept.toml", *arguments], cwd=self.folder, env=self.env,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def rows(self, out="out"):
        file = self.folder / out / "points.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def processes(self):
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def wait_for(self, condition):
        until = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < until, "it did not come about"
            time.sleep(0.02)


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    left = lab.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_loses_nothing(lab, number):
    whole = lab.start("--over", OVER, "--replications", "1", "--out", "whole", "--json")
    expected, _ = whole.communicate(timeout=BOUND_S)
    assert whole.returncode == 0

    process = lab.start("--over", OVER, "--replications", "1", "--out", "out")
    lab.wait_for(lambda: lab.rows() >= 1)
    process.send_signal(number)
    out, err = process.communicate(timeout=BOUND_S)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    lab.wait_for(lambda: lab.processes() == [])  # those that simulate end with it, however it ends
    kept = (lab.folder / "out" / "points.jsonl").read_bytes()
    assert 1 <= kept.count(b"\n") < POINTS

    arguments = ["--over", OVER, "--replications", "1", "--out", "out"]
    if number == signal.SIGINT:
        found = re.fullmatch(r"herdless: interrupted; (\d) points are kept. To go on: (.*)\n", err)
        assert out == "" and found and int(found[1]) == kept.count(b"\n")
        arguments = shlex.split(found[2])[3:]
    again = lab.start(*arguments, "--json")
    summary, err = again.communicate(timeout=BOUND_S)
    assert (again.returncode, err) == (0, "")
    assert (lab.folder / "out" / "points.jsonl").read_bytes().startswith(kept)
    assert lab.rows() == POINTS
    # What was interrupted and what was not say the same.
    assert json.loads(summary)["points"] == json.loads(expected)["points"]
