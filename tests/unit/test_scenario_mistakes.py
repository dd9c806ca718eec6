"""Whatever is wrong, missing or contradictory in a scenario gets one exact message."""

from __future__ import annotations

import tomllib

import pytest

from router.protocol.errors import SettingsError
from router.registry import policy_names
from services.scenario import parse_scenario
from services.scenario_text import read_table
from tests.unit.scenario_texts import BASE, TRACE


def mistake(text: str, *overrides: str) -> str:
    with pytest.raises(SettingsError) as caught:
        parse_scenario(text, "x.toml", overrides)
    return str(caught.value)


def without(line: str, text: str = BASE) -> str:
    assert line + "\n" in text
    return text.replace(line + "\n", "", 1)


NUMBER_ABOVE_0 = "expected a number above 0"
A_NAME = "expected a name: at most 100 letters, digits and . _ : -, the first a letter or digit"
KNOWN_LAWS = 'expected "exponential", "deterministic", "hyperexponential", "lognormal" or "pareto"'
ONE_RATE = "arrivals: give exactly one of load, rate_per_server, rate_total"
TOO_DEEP = "expected at most 10 tables and lists inside one another, found more"
SPLIT = 'expected "equal" or a list of shares, one number >= 0 a router'

OVERRIDDEN = {
    # plain keys
    'name=""': f'name = "", {A_NAME}',
    "name=a b": f'name = "a b", {A_NAME}',
    "name=3": f"name = 3, {A_NAME}",
    "title=3": "title = 3, expected text in quotes, of at most 1000 characters",
    "source=[]": "source = [], expected text in quotes, of at most 1000 characters",
    "seed=1.5": "seed = 1.5, expected a whole number >= 0, below 2^63",
    "seed=-1": "seed = -1, expected a whole number >= 0, below 2^63",
    "seed=9223372036854775808": "seed = 9223372036854775808, expected a whole number >= 0, below 2^63",
    "time_unit_s=0": "time_unit_s = 0, expected a number >= 1e-06",
    "time_unit_s=1e9": "time_unit_s = 1000000000.0, expected a number from 1e-06 to 1e+06",
    "time_unit_s=nan": "time_unit_s = nan, expected a finite number >= 1e-06",
    "tiem_unit_s=1": 'tiem_unit_s: no such key; did you mean "time_unit_s"?',
    "zzz=1": (
        "zzz: no such key; known keys: name, title, source, seed, time_unit_s, policy, routers, pools, arrivals, "
        "service, patience, run, faults"
    ),
    # routers
    "routers=3": "routers = 3, expected a table",
    "routers.count=0": "routers.count = 0, expected a whole number from 1 to 64",
    "routers.count=65": "routers.count = 65, expected a whole number from 1 to 64",
    'routers.count="4"': 'routers.count = "4", expected a whole number from 1 to 64',
    "routers.cuont=4": 'routers.cuont: no such key; did you mean "count"?',
    "routers.split=fair": f'routers.split = "fair", {SPLIT}',
    "routers.split=[1, -2]": f"routers.split = [1, -2], {SPLIT}",
    "routers.split=[1, true]": f"routers.split = [1, true], {SPLIT}",
    "routers.split=[0, 0.0]": "routers.split = [0.0, 0.0], expected at least one share above 0",
    "routers.split=[]": f"routers.split = [], {SPLIT}",
    "routers={count = 3, split = [1, 2]}": (
        'routers.split = [1.0, 2.0], but count = 3: give one share a router, or "equal"'
    ),
    # pools
    "pools=[]": "pools = [], expected one [[pools]] or more, with name and servers",
    "pools={name = 'a'}": 'pools = {name = "a"}, expected one [[pools]] or more, with name and servers',
    "pools=[3]": "pools.0 = 3, expected a table",
    "pools.1.name=-": f'pools.1.name = "-", {A_NAME}',
    "pools.1.name=slow": 'pools.1.name = "slow", but pools.0 is called so too: give each pool a name of its own',
    "pools.0.name=router": (
        'pools.0.name = "router", but the routers are called router-1, router-2, …: choose another name'
    ),
    "pools.0.servers=0": "pools.0.servers = 0, expected a whole number from 1 to 10000",
    "pools.0.servers=2.0": "pools.0.servers = 2.0, expected a whole number from 1 to 10000",
    "pools.0.servers=10000": "pools: 10003 servers in all, expected at most 10000",
    "pools.0.severs=1": 'pools.0.severs: no such key; did you mean "servers"?',
    "pools.1.rate=-2": f"pools.1.rate = -2, {NUMBER_ABOVE_0}",
    "pools.1.rate=0": f"pools.1.rate = 0, {NUMBER_ABOVE_0}",
    "pools.1.rate=true": f"pools.1.rate = true, {NUMBER_ABOVE_0}",
    "pools.1.rate=fast": f'pools.1.rate = "fast", {NUMBER_ABOVE_0}',
    "pools.1.rate=inf": "pools.1.rate = inf, expected a finite number above 0",
    "pools.1.rate=2e9": "pools.1.rate = 2000000000.0, expected a number above 0 and <= 1e+09",
    "pools.1.rate=2020-01-01": f"pools.1.rate = 2020-01-01, {NUMBER_ABOVE_0}",
    "pools.1.slots=0": "pools.1.slots = 0, expected a whole number from 1 to 100000",
    "pools.1.capacity=0": 'pools.1.capacity = 0, expected a whole number >= 1, or "inf"',
    "pools.1.capacity=10.5": 'pools.1.capacity = 10.5, expected a whole number >= 1, or "inf"',
    "pools.1.capacity=nan": 'pools.1.capacity = nan, expected a whole number >= 1, or "inf"',
    "pools.1.capacity=-inf": 'pools.1.capacity = -inf, expected a whole number >= 1, or "inf"',
    "pools.1.capacity=true": 'pools.1.capacity = true, expected a whole number >= 1, or "inf"',
    "pools.1.capacity=none": 'pools.1.capacity = "none", expected a whole number >= 1, or "inf"',
    "pools.1.capacity=3": (
        "pools.1.capacity = 3, but slots = 4, and jobs in service count: choose capacity >= 4, or fewer slots"
    ),
    # arrivals
    "arrivals=0.8": "arrivals = 0.8, expected [arrivals] with law and one of load, rate_per_server or rate_total",
    "arrivals={}": f"{ONE_RATE}; found none",
    "arrivals={load = 1, rate_total = 2}": f"{ONE_RATE}; found load and rate_total",
    "arrivals={load = 1, rate_total = 2, rate_per_server = 1}": (
        f"{ONE_RATE}; found load, rate_per_server and rate_total"
    ),
    "arrivals.laod=0.5": 'arrivals.laod: no such key; did you mean "load"?',
    "arrivals.load=0": f"arrivals.load = 0, {NUMBER_ABOVE_0}",
    "arrivals.load=0,8": f'arrivals.load = "0,8", {NUMBER_ABOVE_0}',
    "arrivals.rate_total=-1": f"arrivals.rate_total = -1, {NUMBER_ABOVE_0}",
    "arrivals.rate_per_server=nan": "arrivals.rate_per_server = nan, expected a finite number above 0",
    "arrivals.law=pareto": 'arrivals.law = "pareto", expected "poisson", "deterministic", "mmpp" or "trace"',
    "arrivals.law=[]": 'arrivals.law = [], expected "poisson", "deterministic", "mmpp" or "trace"',
    "arrivals.burst=3": ('arrivals.burst: only law = "mmpp" has it, found law = "poisson": leave one of them out'),
    "arrivals.law=mmpp": "arrivals.burst: missing, expected a number above 1",
    "arrivals={law = 'mmpp', burst = 3, cycle = 1, load = 1}": (
        "arrivals.share: missing, expected a number above 0 and below 1"
    ),
    "arrivals={law = 'mmpp', burst = 3, share = 0.5, load = 1}": f"arrivals.cycle: missing, {NUMBER_ABOVE_0}",
    "arrivals={law = 'mmpp', burst = 1, share = 0.5, cycle = 1, load = 1}": (
        "arrivals.burst = 1, expected a number above 1"
    ),
    "arrivals={law = 'mmpp', burst = inf, share = 0.5, cycle = 1, load = 1}": (
        "arrivals.burst = inf, expected a finite number above 1"
    ),
    "arrivals={law = 'mmpp', burst = 3, share = 1, cycle = 1, load = 1}": (
        "arrivals.share = 1, expected a number above 0 and below 1"
    ),
    "arrivals={law = 'mmpp', burst = 3, share = nan, cycle = 1, load = 1}": (
        "arrivals.share = nan, expected a number above 0 and below 1"
    ),
    "arrivals={law = 'mmpp', burst = 3, share = 0.5, cycle = 0, load = 1}": (f"arrivals.cycle = 0, {NUMBER_ABOVE_0}"),
    "arrivals={law = 'mmpp', burst = 3, share = 0.5, cycle = 1}": f"{ONE_RATE}; found none",
    "arrivals={law = 'mmpp', burst = 3, share = 0.5, cycle = 1, load = 1, path = 'a'}": (
        'arrivals.path: only law = "trace" has it, found law = "mmpp": leave one of them out'
    ),
    "arrivals={law = 'mmpp', burst = 3, share = 0.5, cylce = 1, load = 1}": (
        'arrivals.cylce: no such key; did you mean "cycle"?'
    ),
    "arrivals.path=jobs.csv": (
        'arrivals.path: only law = "trace" has it, found law = "poisson": leave one of them out'
    ),
    "arrivals={law = 'deterministic', load = 1, repeat = true}": (
        'arrivals.repeat: only law = "trace" has it, found law = "deterministic": leave one of them out'
    ),
    # service
    "service=3": "service = 3, expected a table",
    "service.law=normal": f'service.law = "normal", {KNOWN_LAWS}',
    "service.law=3": f"service.law = 3, {KNOWN_LAWS}",
    "service.law=pareto": 'service.shape: missing, law "pareto" needs it: expected a number above 1 and <= 1e+06',
    "service={law = 'pareto', shape = 1}": "service.shape = 1, expected a number above 1 and <= 1e+06",
    "service={law = 'lognormal', scv = true}": "service.scv = true, expected a number above 0 and <= 1e+06",
    "service={law = 'lognormal', scv = nan}": "service.scv = nan, expected a number above 0 and <= 1e+06",
    "service.scv=2": 'service.scv: no such key; known keys: law (law "exponential")',
    "service={law = 'pareto', shpae = 3}": 'service.shpae: no such key; did you mean "shape"? (law "pareto")',
    # patience
    "patience=1": "patience = 1, expected a table",
    "patience.rate=-1": "patience.rate = -1, expected a number >= 0",
    "patience.in_service=true": "patience.rate: missing, expected a number >= 0",
    "patience={rate = 1, in_service = 1}": "patience.in_service = 1, expected true or false",
    "patience.law=exponential": "patience.law: no such key; known keys: rate, in_service",
    # run
    "run.warmup=-1": "run.warmup = -1, expected a number >= 0",
    "run.duration=0": f"run.duration = 0, {NUMBER_ABOVE_0}",
    "run.duration=inf": "run.duration = inf, expected a finite number above 0",
    "run.time=discrete": 'run.time = "discrete", expected "continuous" or "slotted"',
    "run.time=slotted": (
        'pools.1.slots = 4, expected 1 for run.time = "slotted", where rate is the mean capacity of a slot'
    ),
    # policy
    "policy=random": 'policy = "random", expected [policy] with name, and parameters of that policy',
    # the override itself
    "seed": "--set seed: expected KEY=VALUE, for instance policy.d=3 or pools.0.servers=10",
    "=3": "--set =3: expected KEY=VALUE, for instance policy.d=3 or pools.0.servers=10",
    "a..b=3": "--set a..b=3: expected KEY=VALUE, for instance policy.d=3 or pools.0.servers=10",
    "pools.2.rate=1": "--set pools.2.rate: pools has 2 entries, counted from 0, and no 2",
    "pools.slow.rate=1": "--set pools.slow.rate: pools has 2 entries, counted from 0, and no slow",
    "name.x=1": '--set name.x: name is "x", no table or list: set name itself',
    "name.x.y=1": '--set name.x.y: name is "x", no table or list: set name itself',
    f"policy.{'a.' * 20}b=1": TOO_DEEP,
}


@pytest.mark.parametrize(("override", "expected"), OVERRIDDEN.items(), ids=OVERRIDDEN)
def test_a_wrong_value_gets_one_exact_message(override: str, expected: str) -> None:
    assert mistake(BASE, override) == f"{expected} (x.toml)"


MISSING = {
    'name = "x"': f"name: missing, {A_NAME}",
    'name = "slow"': f"pools.0.name: missing, {A_NAME}",
    "servers = 3": "pools.1.servers: missing, expected a whole number from 1 to 10000",
    "load = 0.5": f"{ONE_RATE}; found none",
    "[arrivals]\nload = 0.5": (
        "arrivals: missing, expected [arrivals] with law and one of load, rate_per_server or rate_total"
    ),
    '[policy]\nname = "pull"\nstale = "keep"\n': (
        "policy: missing, expected [policy] with name, and parameters of that policy"
    ),
}


@pytest.mark.parametrize(("lines", "expected"), MISSING.items())
def test_a_missing_key_gets_one_exact_message(lines: str, expected: str) -> None:
    assert mistake(without(lines)) == f"{expected} (x.toml)"


def test_without_pools_there_is_nobody_to_serve() -> None:
    text = 'name = "x"\npolicy.name = "random"\narrivals.load = 0.5\n'
    assert mistake(text) == "pools: missing, expected one [[pools]] or more, with name and servers (x.toml)"


TRACE_MISTAKES = {
    "arrivals.path=3": "arrivals.path = 3, expected the path of a trace file",
    "arrivals={law = 'trace', time_column = 'a', load = 1}": (
        "arrivals.path: missing, expected the path of a trace file"
    ),
    "arrivals={law = 'trace', path = 'a', load = 1}": "arrivals.time_column: missing, expected text in quotes",
    "arrivals={law = 'trace', path = 'a', time_column = 'b'}": (
        "arrivals: give exactly one of load, rate_per_server, rate_total, speedup; found none"
    ),
    "arrivals={law = 'trace', path = 'a', time_column = 'b', speedup = 1, load = 1}": (
        "arrivals: give exactly one of load, rate_per_server, rate_total, speedup; found load and speedup"
    ),
    "arrivals.speedup=0": f"arrivals.speedup = 0, {NUMBER_ABOVE_0}",
    "arrivals.repeat=yes": 'arrivals.repeat = "yes", expected true or false',
    "arrivals.time_unit=h": 'arrivals.time_unit = "h", expected "auto", "s", "ms", "us", "ns" or "datetime"',
    "arrivals.duration_unit=h": 'arrivals.duration_unit = "h", expected "s", "ms", "us" or "ns"',
    "arrivals.limit_rows=0": "arrivals.limit_rows = 0, expected a whole number >= 1",
    "arrivals.tiem_column=at": 'arrivals.tiem_column: no such key; did you mean "time_column"?',
    "arrivals.size_columns={a = 'b'}": 'arrivals.size_columns.a = "b", expected a number',
    "arrivals.size_columns={a = 0}": (
        "arrivals: size_columns = {'a': 0.0}: weights are numbers >= 0, not all of them 0"
    ),
    "arrivals.time_is=end": ('arrivals: time_is = "end" and duration_column go together: arrival = end − duration'),
    "run.time=slotted": 'arrivals.law = "trace", expected "poisson" for run.time = "slotted"',
}


@pytest.mark.parametrize(("override", "expected"), TRACE_MISTAKES.items(), ids=TRACE_MISTAKES)
def test_a_wrong_trace_gets_one_exact_message(override: str, expected: str) -> None:
    assert mistake(TRACE, override) == f"{expected} (x.toml)"


def test_sizes_from_a_trace_contradict_a_law_of_service() -> None:
    expected = "service: the sizes come from the trace: leave [service] out, or the size columns of arrivals (x.toml)"
    assert mistake(f'{TRACE}size_column = "a"\n[service]\nlaw = "exponential"\n') == expected
    assert mistake(TRACE, "arrivals.size_column=a", "service.law=exponential") == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["arrivals.law=deterministic"], 'arrivals.law = "deterministic", expected "poisson"'),
        (["service.law=deterministic"], 'service.law = "deterministic", expected "exponential"'),
        (["pools.0.capacity=5"], 'pools.0.capacity = 5, expected "inf"'),
    ],
)
def test_slotted_time_has_its_own_laws(overrides: list[str], expected: str) -> None:
    found = mistake(BASE, "run.time=slotted", "pools.1.slots=1", *overrides)
    assert found == f'{expected} for run.time = "slotted" (x.toml)'


def test_slotted_jobs_do_not_abandon() -> None:
    assert mistake(BASE, "run.time=slotted", "pools.1.slots=1", "patience.rate=1") == (
        'patience: for run.time = "slotted" jobs wait for ever: leave [patience] out (x.toml)'
    )


def test_two_overrides_may_contradict_each_other() -> None:
    assert mistake(BASE, "arrivals.load=1", "arrivals.rate_total=1") == (
        f"{ONE_RATE}; found load and rate_total (x.toml)"
    )


def test_an_unknown_policy_gets_the_known_ones() -> None:
    found = mistake(BASE, "policy.name=pul")
    assert found.startswith('policy.name = "pul"') and found.endswith(" (x.toml)")
    assert all(name in found for name in policy_names())


@pytest.mark.parametrize(
    ("override", "start"),
    [
        ("policy.stale=never", 'policy.stale = "never"'),
        ("policy.d=2", "policy.d: no such key"),
        ("policy={}", "policy.name"),
    ],
)
def test_parameters_of_a_policy_are_checked_with_their_key(override: str, start: str) -> None:
    found = mistake(BASE, override)
    assert found.startswith(start) and found.endswith(" (x.toml)")


def test_a_policy_must_fit_the_pools() -> None:
    found = mistake(BASE, "policy.name=power_of_d", "policy.d=6")
    assert found.startswith("policy.d = 6, but ") and "d <= 5" in found and found.endswith(" (x.toml)")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("name = \n", "line 1, column 8: "),
        ('name = "x"\nname = "y"\n', "line 2, column 11: "),
        ("a = " + "[" * 100_000, TOO_DEEP),
        ("a = " + "9" * 5000, "no valid TOML: "),
        ("policy" + ".a" * 3_000 + " = 1", TOO_DEEP),
    ],
)
def test_what_is_no_toml_is_refused_with_its_place(text: str, start: str) -> None:
    found = mistake(text)
    assert found.startswith(start) and found.endswith(" (x.toml)")


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("a." * 20_000 + "a = 1", []),
        ("[" + "a . " * 20_000 + "a]", []),
        ("x = {" + "'a'." * 20_000 + "a = 1}", []),
        ("", ["a." * 20_000 + "a=1"]),
        ("", ["a={" + "a." * 20_000 + "a=1}"]),
    ],
    ids=["key", "head", "quoted", "override", "value"],
)
def test_a_key_of_many_parts_is_never_read(text: str, overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Reading it would take as long as the number of its parts squared.
    read: list[str] = []

    def loads(text: str) -> dict[str, int]:
        read.append(text)
        return {"a": 0}

    monkeypatch.setattr(tomllib, "loads", loads)
    with pytest.raises(SettingsError, match=TOO_DEEP):
        read_table(text, overrides)
    assert max(map(len, read), default=0) < 100


def test_lists_of_numbers_and_sentences_have_as_many_dots_as_they_like() -> None:
    text = f'weights = {[n + 0.5 for n in range(5000)]}\ntitle = "{"One. Two. " * 20}"'
    assert len(read_table(text)["weights"]) == 5000


def test_a_file_that_is_no_scenario_is_not_read() -> None:
    with pytest.raises(SettingsError, match="at most 262,144 letters, found 300,000"):
        read_table(" " * 300_000)


def test_absurd_numbers_do_not_break_the_message() -> None:
    found = mistake(BASE, "pools.0.rate=0x" + "f" * 10_000)
    assert found.startswith("pools.0.rate = 0xfff") and len(found) < 200
