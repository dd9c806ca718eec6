"""Public traces, where they lie beside the repository; the numbers were found by other programs than ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.loadgen.trace import Trace, read_trace
from services.loadgen.trace_options import TraceError, TraceOptions

REAL = Path(__file__).parents[3] / "shared" / "data"


def real(file: str, **options: Any) -> Trace:
    path = REAL / file
    if not path.exists():
        pytest.skip(f"{file} is not in the directory of shared data beside the repository")
    return read_trace(path.read_bytes(), file, TraceOptions(**options))


def test_real_language_model_requests() -> None:
    trace = real(
        "AzureLLMInferenceTrace_code.csv", time_column="timestamp", size_column="GeneratedTokens", zero_size="drop"
    )
    report, times = trace.report, trace.report.times
    assert report.rows_read == report.rows_used == trace.instants_s.size == 8_819
    assert times.span_s == pytest.approx(3_435.9, abs=0.05)
    assert times.rate_per_s == pytest.approx(2.57, abs=0.005)
    assert times.idc_1s == pytest.approx(13.2, abs=0.05)
    assert times.idc_10s == pytest.approx(71.6, abs=0.05)
    assert times.gap_cv == pytest.approx(13.2, abs=0.05)
    assert times.longest_silence_s == pytest.approx(217.0, abs=0.5)
    assert times.silence_misleads
    assert report.ties == 0
    assert report.sizes is not None
    assert report.sizes.mean == pytest.approx(27.9, abs=0.05)
    assert report.sizes.cv == pytest.approx(2.15, abs=0.005)
    assert report.sizes.p99_over_mean == pytest.approx(9.0, abs=0.05)
    assert trace.sizes is not None
    assert trace.sizes.mean() == pytest.approx(1.0)


def test_real_language_model_requests_have_capped_contexts() -> None:
    weights = {"ContextTokens": 0.02, "GeneratedTokens": 1.0}
    trace = real("AzureLLMInferenceTrace_code.csv", time_column="TIMESTAMP", size_columns=weights)
    assert trace.report.sizes is not None
    context, generated = trace.report.sizes.columns
    assert (context.largest, context.looks_capped, generated.looks_capped) == (7_437.0, True, False)


def test_real_functions() -> None:
    options = {"time_column": "end_timestamp", "time_unit": "s"}
    ends = real("AzureFunctions2021_200.csv", **options)
    assert ends.report.rows_out_of_order == 83
    options |= {"time_is": "end", "duration_column": "duration", "size_column": "duration"}
    trace = real("AzureFunctions2021_200.csv", **options, zero_size="floor", size_floor=0.001)
    report, times = trace.report, trace.report.times
    assert report.rows_read == report.rows_used == 199
    assert times.span_s == pytest.approx(1_200.0, abs=0.05)
    assert times.rate_per_s == pytest.approx(0.17, abs=0.0051)
    assert times.idc_1s == pytest.approx(8.4, abs=0.06)
    assert times.idc_10s == pytest.approx(8.4, abs=0.05)
    assert times.gap_cv == pytest.approx(1.9, abs=0.05)
    assert report.ties == 0
    assert report.sizes is not None
    assert report.sizes.floor_applied == 8
    assert report.sizes.mean == pytest.approx(53.3, abs=0.05)
    assert report.sizes.cv == pytest.approx(1.89, abs=0.005)


def test_real_conversations_on_a_grid() -> None:
    options = {"time_column": "timestamp", "time_unit": "ms", "size_column": "output_length"}
    trace = real("mooncake_conversation_head.jsonl", **options)
    report, times = trace.report, trace.report.times
    assert report.rows_read == report.rows_used == 3_571
    assert times.span_s == pytest.approx(1_173.0, abs=0.05)
    assert times.rate_per_s == pytest.approx(3.04, abs=0.005)
    assert times.idc_1s == pytest.approx(7.1, abs=0.05)
    assert times.idc_10s == pytest.approx(2.0, abs=0.05)
    assert times.gap_cv == pytest.approx(2.9, abs=0.05)
    assert report.ties / 3_570 == pytest.approx(0.89, abs=0.005)
    spread = real("mooncake_conversation_head.jsonl", **options, spread_ties=True)
    assert spread.report.spread_step_s == pytest.approx(3.0)
    assert np.count_nonzero(np.diff(spread.instants_s) == 0.0) == 0
    assert np.all(np.abs(spread.instants_s - trace.instants_s) < 3.0)
    assert np.all(np.diff(spread.instants_s) > 0.0)


def test_real_conversations_in_an_unstated_unit() -> None:
    with pytest.raises(TraceError, match="state time_unit"):
        real("mooncake_conversation_head.jsonl", time_column="timestamp")
