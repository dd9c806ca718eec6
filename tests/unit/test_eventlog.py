"""The event log: what is read is what was written, whatever ended the writer."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from router.process.eventlog import MIB, EventLog
from router.protocol.errors import RemoteProtocolError, SettingsError
from router.protocol.eventlog import FIELDS, HEAD_BYTES, NAMES_BYTES, RECORD, UNNAMED, About, Kind, code, read_head
from services.audit.log import DTYPE, read_log, used_bytes

ROOT = Path(__file__).parents[2]
ABOUT = About("router-1", "router", 17, "a boot")


def write(log, numbers):
    for number in numbers:
        log.append(code(Kind.ARRIVED), 0, 0, 0, number / 2, number, 10 * number, -1, -1)


def small(path, slots, **settings):
    return EventLog(path, ABOUT, size_bytes=slots * RECORD.size, **settings)


def test_a_record_is_the_same_read_by_numpy() -> None:
    values = (code(Kind.ENDED, 3, 2, 5), 1, 2, 3, 0.5, -1, 2**40, 7, -8, 2**63)
    record = np.frombuffer(RECORD.pack(*values), DTYPE)[0]

    assert DTYPE.itemsize == RECORD.size == 64
    assert dict(zip(FIELDS, record.tolist(), strict=True)) == dict(zip(FIELDS, values, strict=True))


def test_what_is_written_is_read_while_the_writer_lives_and_after(tmp_path) -> None:
    path = tmp_path / "log"
    log = small(path, 10)
    names = [log.name(text) for text in ("fast-1", "", "link_lost", "fast-1", "größer")]
    write(log, range(3))

    assert names == [1, 0, 2, 1, 3]
    found = read_log(path.read_bytes())
    assert found.about == ABOUT and found.names == ["", "fast-1", "link_lost", "größer"]
    assert found.records["tag"].tolist() == [0, 10, 20] and found.records["at"].tolist() == [0.0, 0.5, 1.0]
    assert found.overwritten == 0 and found.since == -math.inf and found.closed_at == 0.0
    log.close(9.5)
    assert read_log(path.read_bytes()).closed_at == 9.5
    assert found.text(2) == "link_lost" and found.text(9) == found.text(UNNAMED) == "?"


@pytest.mark.parametrize("written", [9, 10, 11, 15, 20, 21, 1003])
def test_a_full_ring_keeps_the_newest_and_counts_the_rest(tmp_path, written) -> None:
    log = small(tmp_path / "log", 10)
    write(log, range(1, written + 1))
    log.close(1.0)

    found = read_log(log.path.read_bytes())
    kept = min(written, 10)
    assert found.records["job"].tolist() == list(range(written - kept + 1, written + 1))
    assert found.overwritten == written - kept
    assert found.since == (found.records["at"][0] if found.overwritten else -math.inf)


def test_a_record_that_was_begun_is_never_taken_for_one(tmp_path) -> None:
    """A kill strikes between any two fields of the next record: its number, the last of them, is still the old one."""
    log = small(tmp_path / "log", 4)
    write(log, range(1, 7))  # 3, 4, 5, 6 are there; 7 would lie where 3 does
    data = bytearray(log.path.read_bytes())
    at = HEAD_BYTES + NAMES_BYTES + 2 * RECORD.size
    assert RECORD.unpack_from(data, at)[5] == 3
    data[at : at + 44] = RECORD.pack(code(Kind.ENDED), 0, 0, 0, 3.5, 7, 7, 7, 7, 7)[:44]

    found = read_log(bytes(data))
    assert found.records["job"].tolist() == [4, 5, 6] and found.overwritten == 3


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    ("written", "gone", "overwritten", "holes"),
    [
        (9, [4], 0, [(4, 4)]),  # no ring yet: nothing can have been overwritten
        (9, [1, 2, 7], 0, [(1, 2), (7, 7)]),
        (25, [20, 21, 24], 15, [(20, 21), (24, 24)]),  # 16 … 25 lie in the ring
        (25, [17], 15, [(17, 17)]),
        (25, [], 15, []),
    ],
)
def test_records_that_are_missing_within_are_no_overwritten_ones(
    tmp_path, closed, written, gone, overwritten, holes
) -> None:
    log = small(tmp_path / "log", 10)
    write(log, range(1, written + 1))
    if closed:
        log.close(1.0)
    data = bytearray(log.path.read_bytes())
    for number in gone:
        at = HEAD_BYTES + NAMES_BYTES + (number - 1) % 10 * RECORD.size
        data[at : at + RECORD.size] = bytes(RECORD.size)

    found = read_log(bytes(data))
    # Of a full ring whose writer was killed, the oldest record may be torn.
    assert found.overwritten == overwritten + (written > 10 and not closed) and list(found.holes) == holes
    assert found.described()["missing"] == sum(last - first + 1 for first, last in holes)


def test_a_number_that_is_damaged_makes_holes_and_nothing_overwritten(tmp_path) -> None:
    log = small(tmp_path / "log", 16)
    write(log, range(1, 8))
    log.close(1.0)
    for bit, holes in ((1, [(4, 4)]), (4, [(8, 19)]), (63, [(4, 4)])):
        data = bytearray(log.path.read_bytes())
        at = HEAD_BYTES + NAMES_BYTES + 4 * RECORD.size - 8  # the number of the fourth record
        data[at : at + 8] = (4 ^ 1 << bit).to_bytes(8, "little")
        found = read_log(bytes(data))
        assert list(found.holes) == holes  # 4 ^ 16 = 20 is in its place too, and 5, 6, 7 are there: 8 … 19 should be


def test_a_log_that_grows_keeps_everything(tmp_path) -> None:
    log = small(tmp_path / "log", 3, grows=True)
    write(log, range(1, 101))
    log.close(1.0)

    found = read_log(log.path.read_bytes())
    assert found.records["job"].tolist() == list(range(1, 101)) and found.overwritten == 0


def test_a_log_that_cannot_grow_goes_on_as_a_ring(tmp_path, monkeypatch) -> None:
    log = small(tmp_path / "log", 4, grows=True)
    write(log, range(1, 9))  # it has grown once

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    write(log, range(9, 12))

    found = read_log(log.path.read_bytes())
    assert found.records["job"].tolist() == [5, 6, 7, 8, 9, 10, 11] and found.overwritten == 4


def test_a_trimmed_file_says_the_same(tmp_path) -> None:
    for written in (3, 10, 14):
        log = small(tmp_path / f"log-{written}", 10)
        write(log, range(written))
        log.close(2.0)
        data = log.path.read_bytes()
        trimmed = data[: used_bytes(data)]
        whole, short = read_log(data), read_log(trimmed)
        assert len(trimmed) == HEAD_BYTES + NAMES_BYTES + min(written, 10) * RECORD.size
        assert (whole.records == short.records).all() and whole.overwritten == short.overwritten


def test_names_for_which_there_is_no_room_are_not_known(tmp_path) -> None:
    log = small(tmp_path / "log", 1)
    places = [log.name(f"{number:0200d}") for number in range(NAMES_BYTES // 202 + 3)]

    assert places[-3:] == [UNNAMED] * 3 and places[:-3] == list(range(1, NAMES_BYTES // 202 + 1))
    assert log.name("short") == len(places) - 2  # there is still room for a short one
    assert read_log(log.path.read_bytes()).names[-1] == "short"


def test_an_earlier_incarnation_keeps_its_file(tmp_path) -> None:
    logs = [small(tmp_path / "router-1.log", 2) for _ in range(3)]

    assert [log.path.name for log in logs] == ["router-1.log", "router-1.log.2", "router-1.log.3"]


def test_a_log_for_which_there_is_no_room_leaves_no_file(tmp_path, monkeypatch) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(SettingsError, match="No space left on device"):
        small(tmp_path / "router-1.log", 2)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_a_mistake_of_the_user(tmp_path) -> None:
    with pytest.raises(SettingsError, match=r"--events .*: cannot be written: No such file or directory"):
        small(tmp_path / "nowhere" / "log", 2)


@pytest.mark.parametrize("data", [b"", b"HERDLESS", b"\0" * 5000, b"HERDLESS" + b"\xff" * 5000])
def test_another_file_is_refused(data) -> None:
    with pytest.raises(RemoteProtocolError, match="event log"):
        read_log(data)


def test_a_record_of_an_unknown_kind_is_refused(tmp_path) -> None:
    for unknown in (77, code(Kind.ENDED, 4)):
        log = small(tmp_path / str(unknown), 10)
        log.append(unknown, 0, 0, 0, 0.0, 1, 1, -1, -1)
        with pytest.raises(RemoteProtocolError, match="unknown kinds or outcomes"):
            read_log(log.path.read_bytes())


WRITER = """
import sys
from router.process.eventlog import EventLog
from router.protocol.eventlog import About
log = EventLog(sys.argv[1], About("server", "server", 1, ""), size_bytes=64 * 1000)
number = 0
while True:
    number += 1
    log.append(1, 0, 0, 0, float(number), number, number, number, number)
    if number == 5000:
        print("well on", flush=True)
"""


def test_a_writer_that_is_killed_leaves_everything_but_the_record_in_hand(tmp_path) -> None:
    """Whenever the kill comes: each record that is read is whole, and none between the oldest and the newest lacks."""
    for attempt in range(3):
        path = tmp_path / f"log-{attempt}"
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == b"well on\n"
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
        child.stdout.close()

        found = read_log(path.read_bytes())
        jobs = found.records["job"].tolist()
        assert len(jobs) == 999 and jobs[-1] > 5000 - 1000
        assert [job - jobs[0] for job in jobs] == list(range(999)) and found.overwritten == jobs[0] - 1
        for column in ("tag", "dispatch", "number", "sequence", "at"):
            assert found.records[column].tolist() == jobs
        assert found.closed_at == 0.0


def test_the_head_says_who_wrote_it(tmp_path) -> None:
    log = EventLog(tmp_path / "log", ABOUT)
    head = read_head(log.path.read_bytes())

    assert head.about == ABOUT and head.slots == 8 * MIB // 64
    assert head.records_at == HEAD_BYTES + NAMES_BYTES
