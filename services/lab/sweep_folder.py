"""The folder of a sweep: what was asked for, and each row as soon as it is known, so that nothing is done twice."""

from __future__ import annotations

import csv
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any

from router.protocol.errors import SettingsError
from services.solver import METHODS

ASKED, ROWS, RESULTS = "sweep.json", "points.jsonl", "results.csv"

Row = dict[str, Any]


def key_of(point: Mapping[str, Any], label: str) -> str:
    """What tells rows apart."""
    return json.dumps([dict(point), label], sort_keys=True)


class SweepFolder:
    """An open folder.

    Attributes:
        path: Where it is.
        rows: What is known already, by `key_of`.
    """

    def __init__(self, path: Path, file: BufferedRandom) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._file = file
        self._read()

    def add(self, row: Row) -> None:
        """Keep a row; when this returns, it is on the disk."""
        self._file.write(json.dumps(row, allow_nan=False, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows[key_of(row["point"], row["policy"])] = row

    def kept(self) -> int:
        """How many rows the file holds: one more than `rows`, if it was interrupted while it added one."""
        self._file.flush()
        self._file.seek(0)
        return sum(line.endswith(b"\n") for line in self._file)

    def _read(self) -> None:
        """Read what is there; of a line that was cut off while it was written, nothing is kept."""
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            row = json.loads(line)
            self.rows[key_of(row["point"], row["policy"])] = row
            whole += len(line)
        self._file.truncate(whole)
        self._file.seek(whole)


@contextmanager
def open_sweep_folder(path: Path, asked: Mapping[str, Any]) -> Iterator[SweepFolder]:
    """Begin a sweep in a folder, or go on with the one that is there.

    Args:
        path: The folder; it exists.
        asked: What is asked for.

    Raises:
        SettingsError: Another sweep is there, or one is at work on it.
    """
    try:
        with (path / ROWS).open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SettingsError(f"--out {path}: another sweep is at work there: wait for it, or end it") from None
            _agree(path, asked)
            file.seek(0)
            yield SweepFolder(path, file)
    except OSError as error:
        raise SettingsError(f"--out {path}: cannot be written: {error.strerror}") from None


def _agree(path: Path, asked: Mapping[str, Any]) -> None:
    """Write down what is asked for; if something else was, say what."""
    file = path / ASKED
    text = json.dumps(asked, indent=1, allow_nan=False)
    if not file.exists():
        fresh = path / f"{ASKED}.new"
        fresh.write_text(text + "\n", encoding="utf-8")
        fresh.replace(file)
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    changed = [name for name in asked if before.get(name) != json.loads(text)[name]]
    if changed:
        raise SettingsError(
            f"--out {path}: holds a sweep of another {changed[0]}: go on as {file} says, or choose another folder"
        )


def write_csv(path: Path, keys: Sequence[str], rows: Sequence[Row]) -> None:
    """Write one line for each row: the point, the policy, its state, and each quantity that is one number.

    A quantity has its simulated value as NAME, its 95% interval as NAME.low and NAME.high, and the first prediction
    of exact, closed, meanfield and limit as NAME.model.
    """
    named = [(name, quantity) for row in rows for name, quantity in row["quantities"].items()]
    names = list(dict.fromkeys(name for name, quantity in named if set(_numbers(quantity)) != {""}))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        columns = [f"{name}{part}" for name in names for part in ("", ".low", ".high", ".model")]
        writer.writerow([*keys, "policy", "jobs", "state", "growth", *columns])
        for row in rows:
            state = row["stationarity"] or {"state": "", "growth": ""}
            numbers = [number for name in names for number in _numbers(row["quantities"].get(name, {}))]
            point = [row["point"][key] for key in keys]
            writer.writerow([*point, row["policy"], row["jobs"], state["state"], state["growth"], *numbers])


def _numbers(quantity: Mapping[str, Any]) -> list[Any]:
    simulated = quantity.get("simulated", {"value": None, "ci95": [None, None]})
    models = quantity.get("models", {})
    model = next((models[method]["value"] for method in METHODS if method in models), None)
    found = [simulated["value"], *simulated["ci95"], model]
    return ["" if number is None or isinstance(number, list) else number for number in found]
