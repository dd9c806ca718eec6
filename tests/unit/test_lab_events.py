"""Where the event logs of a run lie while it lasts, and what becomes of them."""

from __future__ import annotations

import gzip
import shutil
from types import SimpleNamespace

import pytest

from router.process.eventlog import EventLog
from router.protocol.errors import SettingsError
from router.protocol.eventlog import About, Kind, code
from services.lab import events
from services.lab.errors import RunInvalid
from services.lab.events import event_logs, read_logs
from services.scenario import Scenario, parse_scenario
from services.scenarios import shipped

ABOUT = About("router-1", "router", 1, "boot")


def scenario(*changes: str) -> Scenario:
    return parse_scenario(shipped()["pull"], "pull", changes)


def write(path, records: int, about: About = ABOUT) -> None:
    log = EventLog(path, about, size_bytes=64 * 100)
    for number in range(records):
        log.append(code(Kind.ARRIVED), 0, 0, 0, float(number), number, number, -1, -1)
    log.close(5.0)


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Stands for the file system in memory."""
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(events, "IN_MEMORY", place)
    return place


def test_logs_lie_in_memory_and_come_into_the_folder(tmp_path, memory) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with event_logs(scenario(), run) as rings:
        path = rings.options("router-1")[1]
        write(path, 150)
        write(path, 3, About("router-1", "router", 2, "boot"))  # started again under the same name
        assert rings.place.parent == memory and not list((run / "events").iterdir())

    assert list(memory.iterdir()) == []
    assert sorted(path.name for path in (run / "events").iterdir()) == [
        "router-1.events.2.gz", "router-1.events.gz",
    ]  # fmt: skip
    logs = sorted(read_logs(run), key=lambda log: log.about.epoch)
    assert [(len(log.records), log.overwritten) for log in logs] == [(100, 50), (3, 0)]
    small = gzip.decompress((run / "events" / "router-1.events.2.gz").read_bytes())
    assert len(small) < (1 << 18) + 4096 + 4 * 64  # what is not in use is left out


def test_a_run_that_fails_keeps_its_logs_too(tmp_path, memory) -> None:
    def fail() -> None:
        with event_logs(scenario(), tmp_path) as rings:
            write(rings.options("servers-fast")[1], 7)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [len(log.records) for log in read_logs(tmp_path)] == [7] and list(memory.iterdir()) == []


def test_a_log_that_cannot_be_written_hides_no_other_error_and_costs_no_other_log(tmp_path, memory) -> None:
    def run(error: Exception | None) -> None:
        with event_logs(scenario(), tmp_path) as rings:
            (tmp_path / "events" / "router-1.events.gz").mkdir(exist_ok=True)
            write(rings.options("router-1")[1], 7)
            write(rings.options("servers-fast")[1], 7)
            if error is not None:
                raise error

    for error, expected in ((None, RunInvalid), (RuntimeError(), RuntimeError)):
        with pytest.raises(expected):
            run(error)
        kept = tmp_path / "events" / "servers-fast.events.gz"
        assert kept.is_file() and list(memory.iterdir()) == []
        kept.unlink()


def test_where_there_is_no_memory_the_folder_takes_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(events, "IN_MEMORY", tmp_path / "none")
    with event_logs(scenario(), tmp_path) as rings:
        assert rings.place == tmp_path / "events"
        write(rings.options("router-1")[1], 7)

    assert [path.name for path in (tmp_path / "events").iterdir()] == ["router-1.events.gz"]
    assert [len(log.records) for log in read_logs(tmp_path)] == [7]


RESTARTS = "faults=[{at=1,kind='restart',target='router-1'},{at=2,kind='restart',target='router-1'}]"


@pytest.mark.parametrize(
    ("free_mib", "changes", "mib"),
    [
        (64, (), 5),  # six processes: 32 / 6
        (64, (RESTARTS,), 4),  # and two more incarnations: 32 / 8
        (12, (), 1),
        (11, (), None),  # half of it is less than 1 MiB each
        (64, ("run.events=full",), None),  # 6 x 8 MiB alone are more than half of it
        (1024, ("run.events=full",), 8),
    ],
)
def test_where_memory_is_short_logs_are_smaller_and_only_in_the_end_on_disk(
    tmp_path, memory, monkeypatch, free_mib: int, changes: tuple[str, ...], mib: int | None
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_mib << 20))
    with event_logs(scenario(*changes), tmp_path) as rings:
        assert rings.place.parent == (tmp_path if mib is None else memory)
        assert mib in (None, rings.mib)


def test_what_a_killed_run_has_left_in_memory_is_removed_and_what_is_in_use_is_not(tmp_path, memory) -> None:
    left = memory / "herdless-left"
    left.mkdir()
    (left / "lock").touch()
    (left / "router-1.events").touch()
    (memory / "of another program").mkdir()
    with event_logs(scenario(), tmp_path) as first, event_logs(scenario(), tmp_path) as second:
        assert first.place.is_dir() and second.place.is_dir() and not left.exists()

    assert [path.name for path in memory.iterdir()] == ["of another program"]


def test_logs_are_bounded_in_all_unless_everything_is_asked_for(tmp_path, memory) -> None:
    # Four routers and two server processes: 8 MiB each. With 62 processes of routers, 64 in all: 1 MiB each.
    for changes, mib, grows in (
        ((), 8, False), (("routers.count=62",), 1, False), (("run.events=full",), 8, True)
    ):  # fmt: skip
        with event_logs(scenario(*changes), tmp_path) as rings:
            assert (rings.mib, rings.grows) == (mib, grows)
            options = rings.options("router-1")
            assert f"events_mib={mib}" in options and ("events_grow=true" in options) == grows


def test_a_log_that_cannot_be_read_is_named(tmp_path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "router-1.events.gz").write_bytes(b"nothing")

    with pytest.raises(SettingsError, match=r"router-1\.events\.gz: cannot be read"):
        read_logs(tmp_path)
