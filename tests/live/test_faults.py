"""A run in which everything goes wrong that can, from the command line to the audit."""

from __future__ import annotations

import json

import pytest

from tests.live.lab import Lab

BOUND_S = 110

# So busy that each fault finds jobs, but for once in a million runs. On a busy machine a restart may take seconds, so
# those that fail are the servers which no earlier fault has touched.
SCENARIO = """
name = "faults"
time_unit_s = 0.1
[policy]
name = "POLICY"
[routers]
count = 2
[[pools]]
name = "slow"
servers = 9
processes = 3
[arrivals]
load = 0.8
[run]
warmup = 10
duration = 80
"""

FAULTS = [
    (12, "kill", 'target = "router-2"'),
    (16, "restart", 'target = "router-2"'),
    (20, "restart", 'target = "servers-slow-2"'),
    (30, "cut", 'half_open = true\nbetween = ["router-1", "servers-slow-1"]'),
    (50, "heal", 'between = ["router-1", "servers-slow-1"]'),
    (53, "fail", 'target = "servers-slow-3"'),
    (61, "resume", 'target = "servers-slow-3"'),
    (62, "slow", 'target = "servers-slow-3"\nfactor = 3'),
    (62, "add", 'pool = "slow"\nservers = 3'),
    (64, "hang", 'target = "router-1"'),
    (67, "resume", 'target = "router-1"'),
    (75, "drain", 'target = "servers-slow-3"'),
    (80, "hang", 'target = "slow-2"'),
]


@pytest.mark.parametrize("policy", ["pull", pytest.param("power_of_d", marks=pytest.mark.long)])
def test_a_run_survives_what_goes_wrong_and_adds_up(lab: Lab, policy: str) -> None:
    faults = "".join(f'[[faults]]\nat = {at}\nkind = "{kind}"\n{more}\n' for at, kind, more in FAULTS)
    (lab.folder / "faults.toml").write_text(SCENARIO.replace("POLICY", policy) + faults, encoding="utf-8")
    process = lab.start("run", "faults.toml", "--json", "--out", "out", "--replications", "2")
    out, err = process.communicate(timeout=BOUND_S)
    assert err == ""
    report = json.loads(out)
    assert "error" not in report, report
    # A machine that is busy makes a run late, which is no fault of the run; the books balance all the same.
    assert [why for why in report["invalid"] if "books" in why or "no answer" in why] == []
    assert all(check["holds"] for check in report["identities"])
    assert report["audit"]["holds"] and report["audit"]["jobs"] == report["jobs"]
    happened = [each["what"] for each in report["happened"]]
    for _, kind, _ in FAULTS:
        assert any(what.startswith(kind) for what in happened), kind
    assert happened.index("kill servers-slow-2") < happened.index("restart servers-slow-2")
    assert set(report["reasons"]) >= {"link_lost", "no_router", "server"}
    assert report["faults"][0]["what"] == "kill router-2"
