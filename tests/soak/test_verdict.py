"""The arithmetic of the verdict: what counts as growth, what as a leak, and what must be there to be judged."""

from __future__ import annotations

from math import isnan, nan

import pytest

from tests.soak.sampler import Sample, kib_of
from tests.soak.table import table
from tests.soak.verdict import Found, Life, held, lives

WARMUP_S = 10.0
LIFE_S = 110


def sample(at_s: float, private: int = 100, *, name: str = "router-1", pid: int = 1, files: int = 7,
           tasks: float = 5.0) -> Sample:  # fmt: skip
    return Sample(at_s, name, pid, private, 10 * private, 5 * private, files, 3, tasks)


def grown(before: int, after: int, *, spike: int = 0) -> list[Sample]:
    """One look a second for 110 s: little during the warm-up, `before` until half of what is left, then `after`."""
    private = [10] * 10 + [before] * 50 + [after] * 50 + [after]
    if spike:
        private[12] = private[105] = spike
    return [sample(float(at_s), bytes_) for at_s, bytes_ in enumerate(private)]


def found(**given: object) -> Found:
    usual: dict[str, object] = {"lives": [], "held": {}, "staying": (), "ledgers": []}
    return Found(**{**usual, **given})  # type: ignore[arg-type]


def test_growth_is_that_of_the_medians_of_the_first_and_last_tenth_after_the_warm_up() -> None:
    # 100 s are left after the warm-up: looks from 10 to 20 s against those from 100 to 110 s.
    [life] = lives(grown(100, 104), WARMUP_S)
    assert (life.before, life.after, life.lived_s) == (100.0, 104.0, LIFE_S)
    assert life.growth == pytest.approx(0.04)


def test_one_look_that_stands_out_changes_nothing() -> None:
    [life] = lives(grown(100, 104, spike=1000), WARMUP_S)
    assert life.growth == pytest.approx(0.04)


@pytest.mark.parametrize(("after", "wrong"), [(104, 0), (105, 1), (90, 0)])
def test_growth_of_five_percent_is_wrong(after: int, wrong: int) -> None:
    assert len(found(lives=lives(grown(100, after), WARMUP_S), staying=("router-1",)).wrong()) == wrong


def test_each_incarnation_has_a_warm_up_of_its_own() -> None:
    second = [each._replace(at_s=each.at_s + 200.0, pid=2) for each in grown(300, 330)]
    first, again = lives(grown(100, 100) + second, WARMUP_S)
    assert (first.number, again.number) == (1, 2)
    assert first.growth == 0.0
    assert again.growth == pytest.approx(0.1)
    [why] = found(lives=[first, again]).wrong()
    assert "router-1 (incarnation 2) grew by 10.0%" in why


def test_who_does_not_live_for_two_warm_ups_is_not_judged() -> None:
    [short] = lives([sample(float(at_s), 100 + at_s) for at_s in range(20)], WARMUP_S)
    assert short.lived_s == 19.0
    assert isnan(short.growth)
    assert found(lives=[short]).wrong() == []


def test_who_should_live_throughout_must_be_judged() -> None:
    twice = [Life("router-1", number, 110.0, 1.0, 1.0) for number in (1, 2)]
    assert len(found(lives=twice, staying=("router-1",)).wrong()) == 1
    assert len(found(lives=[Life("router-1", 1, 15.0, nan, nan)], staying=("router-1",)).wrong()) == 1
    assert len(found(staying=("router-1",)).wrong()) == 1


def test_what_a_process_holds_in_a_calm_is_the_least_that_was_seen_in_it() -> None:
    looks = [sample(1.0, files=9), sample(2.0, files=7), sample(5.0, files=1), sample(11.0, files=8)]
    looks += [sample(1.5, name="router-2", files=2)]
    assert held(looks, [(0.0, 3.0), (10.0, 12.0)], "router-1", "files") == [7.0, 8.0]


def test_a_look_at_which_a_process_did_not_answer_does_not_count() -> None:
    looks = [sample(1.0, tasks=nan), sample(2.0, tasks=6.0), sample(11.0, tasks=nan)]
    first, second = held(looks, [(0.0, 3.0), (10.0, 12.0)], "router-1", "tasks")
    assert first == 6.0
    assert isnan(second)


@pytest.mark.parametrize(
    ("counts", "wrong"), [([7.0, 7.0, 6.0], 0), ([7.0, 8.0, 7.0], 1), ([7.0, 8.0, 9.0], 2), ([7.0, nan], 1)]
)
def test_more_than_in_the_first_calm_is_a_leak(counts: list[float], wrong: int) -> None:
    assert len(found(held={("router-1", "files"): counts}).wrong()) == wrong


def test_what_does_not_add_up_is_wrong() -> None:
    assert found(ledgers=["job 3 has two ends"]).wrong() == ["job 3 has two ends"]


def test_the_table_has_a_row_for_what_is_judged_and_one_for_the_rest() -> None:
    judged = Life("router-2", 1, 120.0, 2.0 * (1 << 20), 2.5 * (1 << 20))
    short = [Life("router-2", number, 30.0 * number, nan, nan) for number in (2, 3)]
    guests = [Life("servers-slow-3", 1, 30.0, nan, nan), Life("servers-slow-4", 1, 150.0, 1 << 20, 1 << 20),
              Life("servers-slow-4", 2, 60.0, nan, nan)]  # fmt: skip
    rows = table(found(lives=[judged, *short, *guests], held={("router-2", "files"): [7.0, 6.0, 8.0]}))
    assert rows[2:] == [
        "| router-2, incarnation 1 | 2.0 min | 2.0 → 2.5 | +25.0% | 7 → 8 |  |  |",
        "| router-2, 2 others | at most 1.5 min |  |  |  |  |  |",
        "| servers-slow-4 | 2.5 min | 1.0 → 1.0 | +0.0% |  |  |  |",
        "| 2 guests, 2 incarnations | at most 1.0 min |  |  |  |  |  |",
    ]


def test_memory_is_read_from_what_the_kernel_says() -> None:
    text = (
        "00400000-7fff000 ---p 00000000 00:00 0    [rollup]\nRss:     1000 kB\nAnonymous:      40 kB\nSwap:    2 kB\n"
    )
    assert kib_of(text) == {"Rss": 1000, "Anonymous": 40, "Swap": 2}
