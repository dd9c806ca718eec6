"""`herdless compare`: how policies are written, what is said of them, and how sure that is."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from router.protocol.errors import SettingsError
from services.cli.main import run_command
from services.lab.contest import Contest
from services.lab.experiment import Experiment
from services.lab.rivals import Outcome, Rival, read_rivals
from services.measure.differences import difference
from services.measure.quantities import Quantity
from services.measure.stationarity import Stationarity
from services.scenario import parse_scenario

SMALL = """
name = "small"
policy = {name = "random"}
routers = {count = 2}
pools = [{name = "a", servers = 4}]
arrivals = {load = 0.5}
run = {warmup = 50, duration = 2000}
"""
STEADY = Stationarity("steady", 1.0, 0.0, 1.0)
UNSTABLE = Stationarity("unstable", 2.0, 50.0, 1.0, "unstable: jobs in the system grow")


def experiment():
    return Experiment(parse_scenario(SMALL, "small"), None)


def quantity(batches):
    return Quantity(np.asarray(batches.mean()), batches)


def contest_of(**means):
    """Policies with a shared noise that cancels, and little of their own; `None` for an unstable one."""
    rng = np.random.default_rng(5)
    shared = rng.normal(size=(2, 40))
    rivals = read_rivals(experiment(), [",".join(means)])
    outcomes = []
    for rival, mean in zip(rivals, means.values(), strict=True):
        runs = [
            {"sojourn_mean": quantity((9.0 if mean is None else mean) + row + 0.01 * rng.normal(size=40))}
            for row in shared
        ]
        outcomes.append(Outcome(rival, runs, UNSTABLE if mean is None else STEADY, 1000))
    return Contest(experiment().scenario, "simulated", outcomes, 0.05)


def contest_with_failures(*shares):
    """Policies that are alike but for the share of jobs that fail."""
    rng = np.random.default_rng(7)
    labels = [f"power_of_d:d={place + 1}" for place in range(len(shares))]
    shared = rng.normal(size=(2, 40))
    outcomes = []
    for place, (rival, share) in enumerate(zip(read_rivals(failing(), [",".join(labels)]), shares, strict=True)):
        runs = [
            {
                "sojourn_mean": quantity(9.0 - place + row + 0.01 * rng.normal(size=40)),
                "failed_probability": quantity(share + 0.001 * row + 1e-5 * rng.normal(size=40)),
            }
            for row in shared
        ]
        outcomes.append(Outcome(rival, runs, STEADY, 1000))
    return Contest(failing().scenario, "simulated", outcomes, 0.05)


def failing():
    faults = "faults=[{at = 60, kind = 'kill', target = 'servers-a'}]"
    return Experiment(parse_scenario(SMALL, "small", [faults]), None)


def test_jobs_that_fail_decide_where_they_tell_policies_apart():
    assert contest_with_failures(0.02, 0.02).criterion == "sojourn_mean"
    told_apart = contest_with_failures(0.02, 0.05)
    assert told_apart.criterion == "failed_probability"
    assert [outcome.rival.label for outcome in told_apart.ranking] == ["power_of_d:d=1", "power_of_d:d=2"]
    assert told_apart.json()["faults"] == [{"at": 60.0, "what": "kill servers-a"}]
    assert "faults" not in contest_of(random=1.0, pull=2.0).json()


# -- how policies are written -----------------------------------------------------------------------------------------


def test_policies_carry_their_parameters():
    texts = ["pull, lsq:refresh=idle:p=0.5", "pull:fallback=view:order=fastest", "weighted_random:weights=[1.5]"]
    rivals = read_rivals(experiment(), texts)
    assert {rival.label: rival.scenario.policy for rival in rivals} == {
        "pull": {"name": "pull"},
        "lsq:refresh=idle:p=0.5": {"name": "lsq", "refresh": "idle", "p": 0.5},
        "pull:fallback=view:order=fastest": {"name": "pull", "fallback": "view", "order": "fastest"},
        "weighted_random:weights=[1.5]": {"name": "weighted_random", "weights": [1.5]},
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["pull"], "expected 2 or more, found 1"),
        (["pull,pull"], "pull stands there twice"),
        (["pull,nonesuch"], "no such policy; known are"),
        (["pull,lsq:refresh"], "expected NAME:KEY=VALUE:KEY=VALUE, found 'refresh'"),
        (["pull,lsq:speed=3"], "policy.speed: no such key; known keys: refresh, "),
        (["pull,power_of_d:d=9"], "policy.d = 9"),
    ],
)
def test_mistakes_in_policies(texts, message):
    with pytest.raises(SettingsError) as caught:
        read_rivals(experiment(), texts)
    assert str(caught.value).startswith("--policies") and message in str(caught.value)


# -- differences ------------------------------------------------------------------------------------------------------


def test_intervals_of_differences_miss_as_rarely_as_promised():
    rng = np.random.default_rng(6)
    missed = 0
    for _ in range(1000):
        shared = 3.0 * rng.normal(size=(4, 40))
        first, second = ([quantity(row + rng.normal(size=40)) for row in shared] for _ in range(2))
        missed += difference("sojourn_mean", first, second, 0.05, 1).word in ("more", "less")
    # Binomial(1000, 0.05) lies above 78 with probability 1e-4.
    assert missed <= 78


def test_what_is_shared_cancels_and_the_family_widens():
    rng = np.random.default_rng(7)
    shared = 3.0 * rng.normal(size=(4, 40))
    first, second = ([quantity(mean + row + 0.1 * rng.normal(size=40)) for row in shared] for mean in (5.0, 5.1))
    found = difference("sojourn_mean", first, second, 0.05, 1)
    # Its error is 0.1·√2/√160 = 0.011, and Student's quantile is near 2; unpaired it would be 3·√2/√160 = 0.34.
    assert found.word == "less" and found.value == pytest.approx(-0.1, abs=0.04)
    assert found.half == pytest.approx(0.022, rel=0.5)
    assert difference("sojourn_mean", first, second, 0.05, 20).half > 1.3 * found.half


def test_no_difference_seen_says_how_much_longer_to_run():
    rng = np.random.default_rng(8)
    first, second = ([quantity(5.0 + rng.normal(size=40))] for _ in range(2))
    found = difference("sojourn_mean", first, second, 1e-3, 1)
    assert found.word == "no_difference_seen"
    # Noise falls with the root of the length; 1% of the value matters, if the difference itself is not larger.
    matters = max(abs(found.value), 0.01 * max(float(first[0].value), float(second[0].value)))
    assert found.longer == pytest.approx((found.half / matters) ** 2)


def test_a_difference_that_cannot_matter_is_called_alike():
    rng = np.random.default_rng(9)
    first, second = ([quantity(5.0 + 1e-3 * rng.normal(size=40))] for _ in range(2))
    found = difference("sojourn_mean", first, second, 1e-9, 1)
    assert found.word == "alike"


# -- what is said -----------------------------------------------------------------------------------------------------


def test_the_order_is_told_in_honest_words():
    contest = contest_of(random=3.0, pull=2.0, jsq=2.0)
    assert contest.baseline.rival.label == "random"
    assert sorted(contest.leaders) == ["jsq", "pull"]
    statements = contest.statements()
    assert statements[0].startswith("pull is better than random by 0.99")
    assert re.search(r"by 0[.]\d{4} ± 0[.]00\d\d [(]mean sojourn time[)]", statements[0])
    assert statements[-1].startswith("best by mean sojourn time: ") and "not told apart from it" in statements[-1]


def test_an_unstable_policy_gets_no_mean():
    found = contest_of(random=None, pull=2.0, jsq=1.5).json()
    assert found["baseline"] == "pull" and found["ranking"] == ["jsq", "pull"]
    assert found["policies"]["random"]["values"] == {} == found["policies"]["random"]["quantities"]
    assert found["policies"]["random"]["stationarity"]["growth"] == 2.0
    assert found["statements"][0] == "random: unstable: jobs in the system grow"
    assert list(found["differences"]) == ["jsq"]


def test_if_all_are_unstable_nothing_is_compared():
    contest = contest_of(random=None, pull=None)
    found = contest.json()
    assert found["baseline"] is None and found["differences"] == {} and found["leaders"] == []
    assert "no policy has a steady state" in found["statements"][-1] and contest.exit_code == 0


def test_an_invalid_run_makes_the_comparison_invalid():
    sound = contest_of(random=3.0, pull=2.0)
    first, second = sound.outcomes
    invalid = Outcome(second.rival, second.runs, second.steady, 10, invalid=["the generator was late"])
    contest = Contest(sound.scenario, "live", [first, invalid], 0.05)
    assert contest.exit_code == 3 and contest.json()["invalid"] == ["pull: the generator was late"]


def test_rivals_know_their_scenario():
    rival = Rival("pull", experiment())
    assert rival.scenario.name == "small"


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_one_object_and_keeps_it(tmp_path, capsys):
    (tmp_path / "small.toml").write_text(SMALL)
    arguments = ["compare", str(tmp_path / "small.toml"), "--simulate", "--json", "--replications", "2",
                 "--policies", "random,jsq", "--policies", "lsq:p=0.5", "--out", str(tmp_path / "out")]  # fmt: skip
    assert run_command(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["policies"]) == ["random", "jsq", "lsq:p=0.5"] and found["column"] == "simulated"
    # M/M/1 at 0.5 has a mean of 2; four servers with one queue have 1.09.
    assert found["ranking"][0] == "jsq" and found["differences"]["jsq"]["sojourn_mean"]["word"] == "less"
    low, high = found["differences"]["jsq"]["sojourn_mean"]["interval"]
    assert low < found["differences"]["jsq"]["sojourn_mean"]["difference"] < high < 0.0
    jobs = {policy["jobs"] for policy in found["policies"].values()}
    assert len(jobs) == 1
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == found
    assert run_command(arguments) == 2  # the folder holds a run already
    capsys.readouterr()


def test_the_command_says_it_in_words(tmp_path, capsys):
    (tmp_path / "small.toml").write_text(SMALL)
    arguments = ["compare", str(tmp_path / "small.toml"), "--simulate", "--policies", "random,jsq",
                 "--out", str(tmp_path / "out")]  # fmt: skip
    assert run_command(arguments) == 0
    out = capsys.readouterr().out
    assert "jsq is better than random by" in out and "messages/job" in out
