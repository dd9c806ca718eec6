"""A sweep that is ended in the middle, and goes on where it was."""

from __future__ import annotations

import json
import re
import shlex
import signal

import pytest

from tests.live.lab import BOUND_S

SCENARIO = """
name = "swept"
policy = {name = "jsq"}
pools = [{name = "a", servers = 20}]
arrivals = {load = 0.8}
run = {warmup = 20, duration = 1000}
"""
POINTS = 6
OVER = "seed=1:6:1"


def rows(folder):
    """How many points the sweep has written down."""
    file = folder / "out" / "points.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_loses_nothing(lab, number):
    (lab.folder / "swept.toml").write_text(SCENARIO)
    whole = lab.start("sweep", "swept.toml", "--over", OVER, "--replications", "1", "--out", "whole", "--json")
    expected, _ = whole.communicate(timeout=BOUND_S)
    assert whole.returncode == 0

    process = lab.start("sweep", "swept.toml", "--over", OVER, "--replications", "1", "--out", "out")
    lab.wait_for(lambda: rows(lab.folder) >= 1)
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
    again = lab.start("sweep", "swept.toml", *arguments, "--json")
    summary, err = again.communicate(timeout=BOUND_S)
    assert (again.returncode, err) == (0, "")
    assert (lab.folder / "out" / "points.jsonl").read_bytes().startswith(kept)
    assert rows(lab.folder) == POINTS
    # What was interrupted and what was not say the same.
    assert json.loads(summary)["points"] == json.loads(expected)["points"]
