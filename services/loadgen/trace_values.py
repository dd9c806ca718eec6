"""Single values of a trace: numbers, unknown values, and times as whole nanoseconds.

Whole nanoseconds, because a float loses the digits of an epoch time: ties would appear that are not there.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any

from services.loadgen.trace_options import TraceError

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_UNKNOWN = {"", "-", "--", "null", "none", "nan", "na", "n/a", "unknown"}
_LARGEST = Decimal(10) ** 20
# ±146 years in nanoseconds: sums and differences of two such times stay below 2⁶³.
_LARGEST_TIME_NS = 1 << 62
_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)


class Missing(Enum):
    """Why there is no value."""

    UNKNOWN = "unknown"
    NOT_A_NUMBER = "not a number"
    NOT_A_DATE_TIME = "not a date-time"
    OUT_OF_RANGE = "out of range"


Clock = Callable[[Any], int | Missing]


def number(raw: Any) -> Decimal | Missing:
    """Read a number from CSV text or a JSON value; −1, "-" and nothing are how traces write "unknown"."""
    if isinstance(raw, str):
        text = raw.strip()
        if text.lower() in _UNKNOWN:
            return Missing.UNKNOWN
        try:
            value = Decimal(text)
        except InvalidOperation:
            return Missing.NOT_A_NUMBER
    elif raw is None:
        return Missing.UNKNOWN
    elif isinstance(raw, int | Decimal) and not isinstance(raw, bool):
        value = Decimal(raw)
    else:
        return Missing.NOT_A_NUMBER
    if not value.is_finite():
        return Missing.UNKNOWN
    if value == -1:
        return Missing.UNKNOWN
    # Compared, not abs(): arithmetic with an absurd exponent overflows.
    return value if -_LARGEST < value < _LARGEST else Missing.OUT_OF_RANGE


def number_clock(unit: str) -> Clock:
    """Return the function that reads a number of that unit as nanoseconds."""
    scale = NANOSECONDS[unit]

    def read(raw: Any) -> int | Missing:
        value = number(raw)
        if isinstance(value, Missing):
            return value
        at_ns = round(value * scale)
        return at_ns if abs(at_ns) < _LARGEST_TIME_NS else Missing.OUT_OF_RANGE

    return read


class DateTimeClock:
    """Reads ISO date-times as nanoseconds since 1970, in UTC if they state an offset.

    Attributes:
        states_offset: Whether they do; None as long as none was read.
    """

    def __init__(self, name: str) -> None:
        self.states_offset: bool | None = None
        self._name = name
        self._days: dict[str, int] = {}

    def __call__(self, raw: Any) -> int | Missing:
        """Read one date-time, with any number of fractional digits (those below a nanosecond are cut)."""
        if raw is None or (isinstance(raw, str) and raw.strip().lower() in _UNKNOWN):
            return Missing.UNKNOWN
        match = _DATE_TIME.fullmatch(raw.strip()) if isinstance(raw, str) else None
        if match is None:
            return Missing.NOT_A_DATE_TIME
        day, hour, minute, second, fraction, offset = match.groups()
        # 60: a leap second, which most clocks show as the first second of the next minute.
        if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 60:
            return Missing.NOT_A_DATE_TIME
        days = self._days_since_1970(day)
        if days is None:
            return Missing.NOT_A_DATE_TIME
        self._check_offset(offset is not None, raw)
        seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second or 0) - _offset_s(offset)
        at_ns = seconds * 10**9 + int((fraction or "").ljust(9, "0")[:9])
        return at_ns if abs(at_ns) < _LARGEST_TIME_NS else Missing.OUT_OF_RANGE

    def _days_since_1970(self, day: str) -> int | None:
        # A trace holds many times of few days.
        days = self._days.get(day)
        if days is None:
            try:
                days = date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()
            except ValueError:
                return None
            self._days[day] = days
        return days

    def _check_offset(self, states_offset: bool, raw: str) -> None:
        if self.states_offset is None:
            self.states_offset = states_offset
        if self.states_offset is not states_offset:
            raise TraceError(
                f'{self._name}: some times state an offset from UTC and some do not (for instance "{raw}"): '
                f"write all of them alike"
            )


def clock_for(unit: str, column: str, raws: Sequence[Any], name: str) -> Clock:
    """Return the function that reads the times.

    Args:
        unit: "s", "ms", "us", "ns", "datetime", or "auto", which takes nothing but date-times.
        column: The column of the times, for messages.
        raws: Its raw values.
        name: What to call the file in messages.

    Raises:
        TraceError: "auto", and the times are numbers, of which only the user knows the unit.
    """
    if unit in NANOSECONDS:
        return number_clock(unit)
    if unit == "auto":
        known = [value for raw in raws if isinstance(value := number(raw), Decimal)]
        if known and not any(isinstance(raw, str) and _DATE_TIME.fullmatch(raw.strip()) for raw in raws):
            span = max(known) - min(known)
            spans = ", ".join(f'"{u}" ({_duration(span * scale)})' for u, scale in NANOSECONDS.items())
            first = ", ".join(f"{value:f}" for value in known[:3])
            raise TraceError(
                f'{name}: the times in "{column}" are numbers ({first}, …), and a file does not say of which '
                f"unit: state time_unit, one of {spans}; in brackets how long the trace would be"
            )
    return DateTimeClock(name)


def date_time_text(at_ns: int, states_offset: bool | None) -> str:
    """Write a time as `DateTimeClock` read it."""
    seconds, fraction_ns = divmod(at_ns, 10**9)
    days, second_of_day = divmod(seconds, 86_400)
    day = date.fromordinal(days + date(1970, 1, 1).toordinal())
    hour, rest = divmod(second_of_day, 3_600)
    minute, second = divmod(rest, 60)
    fraction = f".{fraction_ns:09d}".rstrip("0").rstrip(".")
    zone = " UTC" if states_offset else ""
    return f"{day.isoformat()} {hour:02d}:{minute:02d}:{second:02d}{fraction}{zone}"


def number_text(at_ns: int, unit: str) -> str:
    """Write a time in its unit."""
    text = f"{Decimal(at_ns) / NANOSECONDS[unit]:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}"


def _offset_s(offset: str | None) -> int:
    if offset is None or offset in ("Z", "z", "UTC"):
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3_600 + int(digits[2:]) * 60
    return -seconds if offset[0] == "-" else seconds


def _duration(span_ns: Decimal) -> str:
    seconds = float(span_ns) / 1e9
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
