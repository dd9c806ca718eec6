"""From the bytes of a trace file to the raw values of the columns asked for, with every row accounted for."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from services.loadgen.trace_options import TraceError

LARGEST_TEXT_BYTES = 1 << 31
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_FIRST_LINES = 3


@dataclass(frozen=True)
class LeftOut:
    """Rows that were not used, for one reason.

    Attributes:
        reason: Why.
        rows: How many.
        first_lines: The first few line numbers, counted from 1 with the header.
    """

    reason: str
    rows: int
    first_lines: tuple[int, ...]

    def text(self) -> str:
        """Return it as text for people."""
        more = ", …" if self.rows > len(self.first_lines) else ""
        where = ", ".join(map(str, self.first_lines)) + more
        one = self.rows == 1
        return f"{self.reason}: {self.rows} {'row' if one else 'rows'} ({'line' if one else 'lines'} {where})"


class Tally:
    """Counts the rows left out, by reason, in the order in which the reasons came up."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}
        self._rows: dict[str, int] = {}

    def add(self, reason: str, line: int) -> None:
        """Count one row."""
        lines = self._lines.setdefault(reason, [])
        if len(lines) < _FIRST_LINES:
            lines.append(line)
        self._rows[reason] = self._rows.get(reason, 0) + 1

    def result(self) -> tuple[LeftOut, ...]:
        """Return what was counted."""
        return tuple(LeftOut(reason, rows, tuple(self._lines[reason])) for reason, rows in self._rows.items())


@dataclass
class RawRows:
    """The rows of a trace file, restricted to some columns.

    Attributes:
        format: "csv" or "jsonl".
        left_out: The rows that are no rows of this table.
        lines: The line number of each row.
        values: For each row, the raw value of each column asked for: text, a JSON value, or None if absent.
        rows_read: All rows, those left out included; blank lines are not rows.
    """

    format: str
    left_out: Tally = field(default_factory=Tally)
    lines: list[int] = field(default_factory=list)
    values: list[tuple[Any, ...]] = field(default_factory=list)
    rows_read: int = 0


def read_rows(data: bytes, name: str, form: str, wanted: Sequence[str], limit: int | None) -> RawRows:
    """Read the wanted columns of a trace file.

    Args:
        data: The file's bytes, gzip-compressed or not.
        name: What to call the file in messages.
        form: "auto", "csv" or "jsonl".
        wanted: The columns, in any case.
        limit: Read at most that many rows; None: all.

    Returns:
        The rows; there is at least one.

    Raises:
        TraceError: The file is not what it should be, has no row, or lacks a column.
    """
    text = _decoded(data, name)
    if form == "auto":
        # No header line of a CSV file starts with a bracket.
        form = "jsonl" if text.lstrip()[:1] in ("{", "[") else "csv"
    rows = RawRows(form)
    read = _json_rows if form == "jsonl" else _csv_rows
    for line, values in read(text, name, wanted, rows.left_out):
        rows.rows_read += 1
        if values is not None:
            rows.lines.append(line)
            rows.values.append(values)
        if rows.rows_read == limit:
            break
    if rows.rows_read == 0:
        raise TraceError(f"{name}: there is a header but no row below it: the trace holds no job")
    return rows


def find_column(wanted: str, names: Sequence[str], name: str) -> str:
    """Return the one of `names` that is meant: spelled alike, else alike but for case and outer spaces.

    Raises:
        TraceError: None is, or several are.
    """
    if wanted in names:
        return wanted
    alike = [found for found in names if found.strip().lower() == wanted.strip().lower()]
    if len(alike) == 1:
        return alike[0]
    listed = ", ".join(f'"{found.strip()}"' for found in names)
    if alike:
        raise TraceError(f'{name}: {len(alike)} columns are called "{wanted}" (columns found: {listed})')
    hint = ""
    if all(_is_number(found) for found in names):
        hint = "; these are numbers, so the header line seems to be missing: add one"
    raise TraceError(f'{name}: no column "{wanted}"; columns found: {listed or "none"}{hint}')


def _decoded(data: bytes, name: str) -> str:
    if data[:2] == b"\x1f\x8b":
        data = _gunzipped(data, name)
    if data.startswith(_LFS_POINTER):
        raise TraceError(
            f"{name}: this is a Git LFS pointer of {len(data)} bytes, not the data: get the data with "
            f'"git lfs pull" or download the file itself'
        )
    try:
        # "utf-8-sig" takes a byte-order mark away.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(
            f"{name}: byte {error.start} is not UTF-8 text: expected CSV or JSON lines, plain or in gzip"
        ) from None
    if not text.strip():
        raise TraceError(f"{name}: the file is empty")
    return text


def _gunzipped(data: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            unpacked = packed.read(LARGEST_TEXT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{name}: the gzip data is damaged or cut off ({error}): get the file anew") from None
    if len(unpacked) > LARGEST_TEXT_BYTES:
        raise TraceError(f"{name}: more than {LARGEST_TEXT_BYTES} bytes when unpacked: cut the trace")
    return unpacked


Row = tuple[int, tuple[Any, ...] | None]


def _csv_rows(text: str, name: str, wanted: Sequence[str], left_out: Tally) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""))
    width = 0
    positions: list[int] = []
    try:
        for row in reader:
            if not any(value.strip() for value in row):
                continue
            if not positions:
                width = len(row)
                positions = [row.index(find_column(column, row, name)) for column in wanted]
            elif len(row) < width or any(row[width:]):
                left_out.add(f"not {width} fields", reader.line_num)
                yield reader.line_num, None
            else:
                yield reader.line_num, tuple([row[position] for position in positions])
    except csv.Error as error:
        raise TraceError(f"{name}, line {reader.line_num}: {error}: is there a quotation mark too many?") from None


def _json_rows(text: str, name: str, wanted: Sequence[str], left_out: Tally) -> Iterator[Row]:
    if text.lstrip()[:1] == "[":
        raise TraceError(f"{name}: a JSON array: write one JSON object a line instead")
    spelled = list(wanted)
    seen: dict[str, None] = {}
    missing = set(wanted)
    # Not splitlines(): it would also split at marks that JSON texts may contain.
    for line, written in enumerate(text.split("\n"), start=1):
        if not written.strip():
            continue
        row = _json_object(written)
        if row is None:
            left_out.add("not a JSON object", line)
            yield line, None
            continue
        for index, column in enumerate(wanted):
            if spelled[index] not in row:
                seen.update(dict.fromkeys(row))
                spelled[index] = _spelling(column, row)
            if spelled[index] in row:
                missing.discard(column)
        yield line, tuple([row.get(spelling) for spelling in spelled])
    for column in wanted:
        if column in missing and seen:
            find_column(column, list(seen), name)


def _spelling(wanted: str, row: dict[str, Any]) -> str:
    """How this row spells the wanted key; keys may be absent from one row and present in the next."""
    return next((key for key in row if key.strip().lower() == wanted.strip().lower()), wanted)


def _json_object(written: str) -> dict[str, Any] | None:
    try:
        # Decimal keeps all digits of an epoch time; NaN and Infinity are unknown values.
        row = json.loads(written, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
