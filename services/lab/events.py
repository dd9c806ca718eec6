"""Where the processes of a run write their event logs, and how these come into the run's folder."""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from router.protocol.errors import RemoteProtocolError, SettingsError
from services.audit.log import Log, read_log, used_bytes
from services.lab.errors import RunInvalid, writing
from services.scenario import Scenario

IN_MEMORY = Path("/dev/shm")  # a file system without a disk, on Linux
LARGEST_MIB, ALL_MIB = 8, 64
"""What a process keeps, and all of a run together, where logs are bounded."""
BYTES_A_JOB = 512
"""What a job leaves in all logs together, about: eight records."""
PREFIX = "herdless-"
ENDING = ".events"
FOLDER = "events"
DAMAGED = "take another copy of the run, or move this file away: what it told is then not checked"


@dataclass(frozen=True)
class Rings:
    """How the processes of one run write their logs.

    Attributes:
        place: The folder. `mib`: how much each keeps, or begins with. `grows`: all is kept.
    """

    place: Path
    mib: int
    grows: bool

    def options(self, process: str) -> list[str]:
        """What a process is told; each of its incarnations takes a file of its own."""
        grows = ["--set", "events_grow=true"] if self.grows else []
        return ["--events", str(self.place / (process + ENDING)), "--set", f"events_mib={self.mib}", *grows]


@contextmanager
def event_logs(scenario: Scenario, folder: Path) -> Iterator[Rings]:
    """Make room for logs; when the processes are gone, keep what they wrote.

    Rule: while a run lasts the logs are in memory, so that no process waits for a disk on account of its log; where
    memory is short they are smaller. Only if it is too short for 1 MiB each, or for all that is to be kept, they are in
    the run's folder. Afterwards the part of each file that is in use goes, compressed, into `events` of that folder.

    Args:
        scenario: How many processes there are, and whether all is to be kept.
        folder: The run's.
    """
    grows = scenario.run.events == "full"
    processes = scenario.routers.count + len(scenario.processes())
    files = processes + sum(fault.kind == "restart" for fault in scenario.timeline())
    mib = max(1, min(LARGEST_MIB, ALL_MIB // processes))
    room = _room()
    if not grows:
        mib = max(1, min(mib, (room // files) >> 20))
    needs = (files * mib << 20) + (BYTES_A_JOB * _jobs(scenario) if grows else 0)
    kept = folder / FOLDER
    kept.mkdir(exist_ok=True)
    with _in_memory() if needs <= room else nullcontext(kept) as place:
        try:
            yield Rings(place, mib, grows)
        except BaseException:  # which matters more than what cannot be written on account of it
            _keep_all(place, kept)
            raise
        if unkept := _keep_all(place, kept):
            raise unkept[0]


def read_logs(folder: Path) -> list[Log]:
    """All logs that a run has kept, or those of processes that were started by hand with files in this folder.

    Raises:
        SettingsError: One of them cannot be read.
    """
    kept = folder / FOLDER
    if kept.exists() and not kept.is_dir():
        raise SettingsError(f"{kept}: expected the folder of the event logs, found a file: {DAMAGED}")
    logs = []
    for path in sorted((kept if kept.exists() else folder).glob(f"*{ENDING}*")):
        try:
            data = path.read_bytes()
            logs.append(read_log(gzip.decompress(data) if path.suffix == ".gz" else data))
        except (OSError, EOFError, zlib.error, RemoteProtocolError) as error:
            raise SettingsError(
                f"{path}: cannot be read: {error}: expected an event log as the run left it: {DAMAGED}"
            ) from None
    return logs


def _jobs(scenario: Scenario) -> int:
    try:
        return int(scenario.rate_total * scenario.horizon)
    except SettingsError:  # the trace decides; nobody asks for more than it could have
        return 10_000_000


def _keep_all(place: Path, kept: Path) -> list[RunInvalid]:
    """Keep what can be kept; why the rest could not."""
    unkept = []
    for path in sorted(place.glob(f"*{ENDING}*")):
        if path.suffix != ".gz":
            try:
                _keep(path, kept)
            except RunInvalid as error:
                unkept.append(error)
    return unkept


def _keep(path: Path, kept: Path) -> None:
    data = path.read_bytes()
    with suppress(RemoteProtocolError):  # killed before it had written the first bytes: there is nothing in it
        used, place = data[: used_bytes(data)], kept / f"{path.name}.gz"
        with writing(place):
            place.write_bytes(gzip.compress(used, 1, mtime=0))
    path.unlink()


def _room() -> int:
    """Bytes of memory that logs may take: half of what is free, for others want some too."""
    if not os.access(IN_MEMORY, os.W_OK):
        return 0
    return shutil.disk_usage(IN_MEMORY).free // 2


@contextmanager
def _in_memory() -> Iterator[Path]:
    """A new folder in memory that is gone afterwards."""
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=IN_MEMORY))
    lock = os.open(made / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = made.rename(IN_MEMORY / made.name[1:])  # visible only when it is locked
        _remove_what_others_left()
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def _remove_what_others_left() -> None:
    """A run that was killed leaves its folder in memory; nobody holds its lock any more."""
    for folder in IN_MEMORY.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
