"""Trace files: what they may contain, what is said about them, and the schedule made of them."""

import gzip
import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from services.loadgen.trace import Trace, read_trace
from services.loadgen.trace_options import TraceError, TraceOptions
from services.loadgen.trace_report import describe_column


def read(text: str | bytes, /, **options: Any) -> Trace:
    data = text.encode() if isinstance(text, str) else text
    return read_trace(data, "t", TraceOptions(**({"time_column": "time", "time_unit": "s"} | options)))


def left_out(trace: Trace) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {item.reason: (item.rows, item.first_lines) for item in trace.report.left_out}


def refusal(text: str | bytes, /, **options: Any) -> str:
    with pytest.raises(TraceError) as caught:
        read(text, **options)
    return str(caught.value)


# --- What files look like


def test_csv_with_carriage_returns_and_no_final_newline() -> None:
    trace = read("time,size\r\n10,1\r\n11,2\r\n14,3", size_column="size")
    assert trace.instants_s.tolist() == [0.0, 1.0, 4.0]
    assert trace.instants_s.dtype == np.float64
    assert trace.sizes is not None
    assert trace.sizes.tolist() == [0.5, 1.0, 1.5]
    assert trace.report.rows_read == trace.report.rows_used == 3


@pytest.mark.parametrize("form", ["auto", "jsonl"])
def test_json_lines_with_unknown_keys(form: str) -> None:
    text = '{"time": 0, "ids": [1, 2], "size": 4}\n\n{"size": 4, "time": 2.5, "extra": {"a": null}}\n'
    trace = read(text, size_column="size", format=form)
    assert trace.instants_s.tolist() == [0.0, 2.5]
    assert trace.report.rows_read == 2


@pytest.mark.parametrize("wanted", ["time", "TIME", " Time "])
@pytest.mark.parametrize("text", ["\ufeff Time ,x\n0,1\n1,1\n", '\ufeff{" Time ":0}\n{" Time ":1}'])
def test_byte_order_mark_case_and_spaces_in_names(text: str, wanted: str) -> None:
    assert read(text, time_column=wanted).instants_s.tolist() == [0.0, 1.0]


def test_keys_may_change_their_spelling_and_be_absent() -> None:
    trace = read('{"x": 1}\n{"time": 0}\n{"Time": 1}\n{"time": 2}\n')
    assert trace.instants_s.tolist() == [0.0, 1.0, 2.0]
    assert left_out(trace) == {"time unknown": (1, (1,))}


def test_a_name_spelled_alike_is_preferred() -> None:
    assert read("TIME,time\n5,0\n5,1\n").instants_s.tolist() == [0.0, 1.0]
    assert refusal("TIME,Time\n5,0\n5,1\n") == 't: 2 columns are called "time" (columns found: "TIME", "Time")'


def test_gzip_is_unpacked() -> None:
    assert read(gzip.compress(b"time\n0\n3\n")).instants_s.tolist() == [0.0, 3.0]
    assert "damaged or cut off" in refusal(gzip.compress(b"time\n0\n3\n")[:-6])


def test_quoted_fields_and_lines_counted_with_the_header() -> None:
    trace = read('a,time\n"x,\ny",0\n,1\n,bad\n,2\n')
    assert trace.instants_s.tolist() == [0.0, 1.0, 2.0]
    # The quoted field takes lines 2 and 3.
    assert left_out(trace) == {"time not a number": (1, (5,))}


def test_line_separators_inside_json_texts_do_not_end_a_line() -> None:
    assert read('{"a": "x\u2028y\u0085", "time": 0}\r\n{"time": 1}\r\n').report.rows_used == 2


# --- Times


def test_more_fractional_digits_than_parsers_take() -> None:
    trace = read("time\n2023-11-16 18:17:03.9799600\n2023-11-16 18:17:04.0319600123456\n", time_unit="auto")
    assert trace.instants_s.tolist() == [0.0, 0.052000012]
    assert trace.report.first == "2023-11-16 18:17:03.97996"
    assert trace.report.last == "2023-11-16 18:17:04.031960012"


@pytest.mark.parametrize(
    ("first", "second", "gap_s"),
    [
        ("2024-02-28 23:59:59", "2024-03-01 00:00:00", 86_401.0),  # 2024 has a 29 February
        ("2024-06-01T12:00:00+02:00", "2024-06-01T10:00:01Z", 1.0),
        ("2024-06-01T12:00:00-0330", "2024-06-01T15:30:00.5+00", 0.5),
        ("2024-06-01 12:00", "2024-06-01 12:01", 60.0),
        ("2016-12-31 23:59:60", "2017-01-01 00:00:01", 1.0),  # a leap second
        ("1969-12-31 23:59:59,75", "1970-01-01 00:00:00", 0.25),
    ],
)
def test_date_times(first: str, second: str, gap_s: float) -> None:
    text = f'time\n"{first}"\n"{second}"\n'
    assert read(text, time_unit="datetime").instants_s.tolist() == [0.0, gap_s]
    assert read(text, time_unit="auto").report.times.span_s == gap_s


def test_offsets_in_some_times_only_are_refused() -> None:
    message = refusal("time\n2024-01-01 00:00:00\n2024-01-01 00:00:00Z\n", time_unit="auto")
    assert "some times state an offset from UTC and some do not" in message


@pytest.mark.parametrize("bad", ["2024-02-30 00:00:00", "2024-01-01 24:00:00", "yesterday", "12"])
def test_what_is_no_date_time(bad: str) -> None:
    trace = read(f"time\n2024-01-01 00:00:00\n{bad}\n2024-01-01 00:00:09\n", time_unit="auto")
    assert left_out(trace) == {"time not a date-time": (1, (3,))}


@pytest.mark.parametrize(
    ("unit", "first", "second", "gap_s"),
    [
        ("s", "0", "0.5", 0.5),
        ("ms", "0", "1172999", 1172.999),
        ("us", "1700223423979960", "1700223423979961", 1e-6),
        ("ns", "1700223423979960000", "1700223423979960001", 1e-9),
        ("s", "1700223423.979960001", "1700223423.979960002", 1e-9),
        ("s", "-5", "1.5e1", 20.0),
    ],
)
def test_units_and_digits_are_kept(unit: str, first: str, second: str, gap_s: float) -> None:
    # An epoch in nanoseconds or with nine fractional digits does not fit into a float.
    for text in (f"time\n{first}\n{second}\n", f'{{"time": {first}}}\n{{"time": {second}}}\n'):
        assert read(text, time_unit=unit).instants_s.tolist() == [0.0, gap_s]


def test_the_unit_of_numbers_is_never_guessed() -> None:
    assert refusal("time\n0\n27482\n1172999\n", time_unit="auto") == (
        't: the times in "time" are numbers (0, 27482, 1172999, …), and a file does not say of which unit: '
        'state time_unit, one of "s" (13.6 days), "ms" (19.5 minutes), "us" (1.17 s), "ns" (0.00117 s); '
        "in brackets how long the trace would be"
    )
    assert "state time_unit" in refusal('{"time": 0}\n{"time": 1.5}\n', time_unit="auto")


def test_times_out_of_order_are_sorted_with_their_sizes() -> None:
    trace = read("time,size\n5,1\n2,2\n9,3\n2,4\n7,5\n", size_column="size")
    assert trace.instants_s.tolist() == [0.0, 0.0, 3.0, 5.0, 7.0]
    assert trace.sizes is not None
    assert (3.0 * trace.sizes).tolist() == pytest.approx([2.0, 4.0, 1.0, 5.0, 3.0])
    assert trace.report.rows_out_of_order == 2
    assert "2 rows out of order were sorted; 1 ties" in "\n".join(trace.report.lines())


def test_end_times_become_arrivals() -> None:
    text = "end,took\n10,10\n12,3\n13,-1\n14,-2\n"
    options = {"time_column": "end", "time_is": "end", "duration_column": "took", "size_column": "took"}
    trace = read(text, **options)
    assert trace.instants_s.tolist() == [0.0, 9.0]
    assert left_out(trace) == {"duration unknown": (1, (4,)), "duration negative": (1, (5,))}
    assert read(text, **options, duration_unit="ms").instants_s.tolist() == pytest.approx([0.0, 2.007])


def test_end_times_as_date_times_need_the_unit_of_the_duration() -> None:
    text = "end,took\n2024-01-01 00:00:10,10\n2024-01-01 00:00:12,3\n"
    options = {"time_column": "end", "time_is": "end", "duration_column": "took", "time_unit": "auto"}
    assert refusal(text, **options) == 't: the times are date-times: state duration_unit of "took"'
    assert read(text, **options, duration_unit="s").instants_s.tolist() == [0.0, 9.0]


# --- Ties


def test_ties_are_kept_and_counted() -> None:
    trace = read("time\n0\n0\n0\n3\n3\n6\n")
    assert trace.instants_s.tolist() == [0.0, 0.0, 0.0, 3.0, 3.0, 6.0]
    assert trace.report.ties == 3
    assert "3 ties (60%), left as they are" in "\n".join(trace.report.lines())


def test_ties_spread_within_the_step_but_not_into_a_silence() -> None:
    trace = read("time\n0\n0\n0\n3\n3\n6\n6\n100\n100\n103\n103\n", spread_ties=True)
    expected = [0.0, 1.0, 2.0, 3.0, 4.5, 6.0, 7.5, 100.0, 101.5, 103.0, 104.5]
    assert trace.instants_s.tolist() == expected
    assert trace.report.ties == 6
    assert trace.report.spread_step_s == 3.0
    assert "spread evenly within the step of 3 s" in "\n".join(trace.report.lines())


# --- Sizes


@pytest.mark.parametrize("unknown", ["-", "", "-1", " -1.0 ", "nan", "NULL", "inf"])
def test_unknown_sizes_are_left_out_and_counted(unknown: str) -> None:
    trace = read(f"time,size\n0,1\n1,{unknown}\n2,3\n", size_column="size")
    assert trace.instants_s.tolist() == [0.0, 2.0]
    assert left_out(trace) == {"size unknown": (1, (3,))}


@pytest.mark.parametrize("unknown", ["null", "-1", '"-"', "NaN"])
def test_unknown_sizes_in_json(unknown: str) -> None:
    text = f'{{"time": 0, "size": 1}}\n{{"time": 1, "size": {unknown}}}\n{{"time": 2, "size": 3}}\n'
    assert left_out(read(text, size_column="size")) == {"size unknown": (1, (2,))}


def test_every_row_is_accounted_for() -> None:
    rows = ["0,1", "x,1", "-,1", "2", "3,1,", "4,1,9", "5,-7", "6,two", "7,1e30", "1e30,1", "", "9,1", "x,1"]
    trace = read("time,size\n" + "\n".join(rows) + "\n", size_column="size")
    assert left_out(trace) == {
        "time not a number": (2, (3, 14)),
        "time unknown": (1, (4,)),
        "not 2 fields": (2, (5, 7)),
        "size negative": (1, (8,)),
        "size not a number": (1, (9,)),
        "size out of range": (1, (10,)),
        "time out of range": (1, (11,)),
    }
    assert trace.instants_s.tolist() == [0.0, 3.0, 9.0]
    report = trace.report
    assert report.rows_read == 12 == report.rows_used + report.rows_left_out
    assert report.lines()[0] == "trace t: 12 rows read, 3 used, 9 left out"
    assert "  left out: time not a number: 2 rows (lines 3, 14)" in report.lines()


def test_broken_json_lines_are_counted() -> None:
    text = '{"time": 0}\n{"time": 1\n[2]\nnull\n{"time": true}\n{"time": [1]}\n{"time": 7}\n'
    deep = "[" * 100_000
    trace = read(text + deep + '\n{"time": 1e99999999999999999999}\n')
    assert left_out(trace)["not a JSON object"] == (5, (2, 3, 4))
    assert left_out(trace)["time not a number"] == (2, (5, 6))
    assert trace.report.rows_read == 9
    assert "5 rows (lines 2, 3, 4, …)" in "\n".join(trace.report.lines())


def test_zero_sizes_need_a_decision() -> None:
    text = "time,size\n0,0\n1,2\n2,0.5\n3,0\n4,6\n"
    assert refusal(text, size_column="size") == (
        "t: the size is 0 in 2 rows, first in line 2: state "
        'zero_size = "floor" with size_floor (the smallest size), or zero_size = "drop"'
    )
    dropped = read(text, size_column="size", zero_size="drop")
    assert left_out(dropped) == {"size zero": (2, (2, 5))}
    assert dropped.instants_s.tolist() == [0.0, 1.0, 3.0]
    floored = read(text, size_column="size", zero_size="floor", size_floor=1.0)
    assert floored.sizes is not None
    assert (floored.sizes * 2.2).tolist() == pytest.approx([1.0, 2.0, 1.0, 1.0, 6.0])
    assert floored.report.sizes is not None
    assert (floored.report.sizes.floor_applied, floored.report.sizes.mean) == (3, 2.2)


def test_size_as_a_weighted_sum() -> None:
    trace = read("time,In,Out\n0,100,1\n1,50,2\n2,-,3\n", size_columns={"in": 0.02, "out": 1.0})
    assert trace.sizes is not None
    assert trace.sizes.tolist() == [1.0, 1.0]  # 2 + 1 and 1 + 2
    assert left_out(trace) == {"size unknown": (1, (4,))}
    assert "size = 0.02·in + out: mean 3," in "\n".join(trace.report.lines())


def test_no_size_column() -> None:
    trace = read("time,size\n0,\n1,\n")
    assert trace.sizes is None
    assert trace.report.sizes is None
    assert trace.report.lines()[-1] == "  no sizes"


def test_sizes_cut_off_at_a_limit_are_pointed_out() -> None:
    drawn = np.arange(1.0, 1_001.0)
    assert not describe_column("x", 1.0, 1.0 / drawn).looks_capped
    capped = np.minimum(1.0 / drawn, 0.05)
    # 1/k ≥ 0.99 · 0.05 for k ≤ 20.2: 20 of 1 000 rows.
    described = describe_column("x", 1.0, capped)
    assert (described.looks_capped, described.close_to_largest, described.largest) == (True, 20, 0.05)
    assert not describe_column("x", 1.0, np.ones(1000)).looks_capped
    text = "time,size\n" + "".join(f"{i},{value}\n" for i, value in enumerate(capped))
    assert "beware: 20 values of size lie within 1% of its largest, 0.05" in "\n".join(
        read(text, size_column="size").report.lines()
    )


def test_limit_rows() -> None:
    trace = read("time\n0\nx\n2\n3\n4\n", limit_rows=3)
    assert trace.instants_s.tolist() == [0.0, 2.0]
    assert trace.report.rows_read == 3
    assert "3 rows read (limit_rows reached), 2 used, 1 left out" in trace.report.lines()[0]
    assert read("time\n0\n2\n", limit_rows=3).report.stopped_at_limit is False


# --- Refusals


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (POINTER, f"t: this is a Git LFS pointer of {len(POINTER)} bytes, not the data: get the data with"),
        (b"", "t: the file is empty"),
        (b"\xef\xbb\xbf \r\n", "t: the file is empty"),
        (b"time\r\n", "t: there is a header but no row below it: the trace holds no job"),
        (b"time\n1\n", "t: usable rows: 1 of 1 read, and a rate needs two: are columns and units"),
        (b"time\n1\n1\n1\n", "t: usable rows: 3 of 3 read, all of them at the same instant"),
        (b"time\n1\nx\n", "and a rate needs two; left out: time not a number: 1 row (line 3): are"),
        (b"Date,size\n1,2\n", 't: no column "time"; columns found: "Date", "size"'),
        (b"1,2\n3,4\n", 'columns found: "1", "2"; these are numbers, so the header line seems to be missing'),
        (b'{"t": 1}\n{"u": 2}\n', 't: no column "time"; columns found: "t", "u"'),
        (b'[{"time": 1}]', "t: a JSON array: write one JSON object a line instead"),
        (b"time\n\xff\n", "t: byte 5 is not UTF-8 text"),
        (b'time\n"' + b"x" * 200_000 + b"\n1\n", "is there a quotation mark too many?"),
    ],
)
def test_files_that_are_refused(data: bytes, message: str) -> None:
    assert message in refusal(data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": 1}, "Extra inputs are not permitted"),
        ({"time_unit": "minutes"}, "Input should be"),
        ({"time_is": "end"}, 'time_is = "end" and duration_column go together'),
        ({"duration_column": "d"}, 'time_is = "end" and duration_column go together'),
        ({"duration_unit": "s"}, "duration_unit without duration_column"),
        ({"size_column": "a", "size_columns": {"b": 1.0}}, "state one of them"),
        ({"size_columns": {"b": -1.0}}, "weights are numbers >= 0"),
        ({"size_columns": {}}, "not all of them 0"),
        ({"size_column": "a", "zero_size": "floor"}, "size_floor go together"),
        ({"size_column": "a", "size_floor": 1.0}, "size_floor go together"),
        ({"size_column": "a", "zero_size": "floor", "size_floor": 0.0}, "greater than 0"),
        ({"zero_size": "drop"}, "zero_size without size_column"),
        ({"limit_rows": 0}, "greater than or equal to 1"),
    ],
)
def test_options_that_contradict(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TraceOptions(time_column="time", **options)


def test_options_come_from_a_table_as_they_are() -> None:
    options = TraceOptions.model_validate(json.loads('{"time_column": "t", "size_columns": {"a": 1, "b": 2}}'))
    assert options.size_weights == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize("absurd", ["9e99999995", "-999999999999999999999999e99999995", "1" + "0" * 5_000])
def test_absurd_numbers_are_out_of_range(absurd: str) -> None:
    trace = read(f"time,size\n0,1\n{absurd},1\n1,{absurd}\n2,1\n3,1e-99999995\n", size_column="size", zero_size="drop")
    assert left_out(trace) == {
        "time out of range": (1, (3,)),
        # A negative one is called negative only if it is a number at all.
        "size out of range": (1, (4,)),
        "size zero": (1, (6,)),
    }
