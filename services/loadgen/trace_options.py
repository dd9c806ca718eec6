"""How a trace file is to be read: which columns, in which units. What is ambiguous must be stated here."""

import math
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Unit = Literal["s", "ms", "us", "ns"]


class TraceError(ValueError):
    """A trace that cannot be read as asked; the message says what was found, where, and what to do."""


class TraceOptions(BaseModel):
    """How to read a trace. Columns are named as in the file, in any case.

    Attributes:
        format: Comma-separated values with a header line, or one JSON object a line; "auto" looks.
        time_column: The column of the times.
        time_is: Whether that is a job's arrival or its end; then arrival = end − duration.
        time_unit: "auto" takes ISO date-times; the unit of numbers must be stated.
        duration_column: How long the job took; only with `time_is = "end"`.
        duration_unit: Unit of the duration; left out: the time unit.
        size_column: The column of the job sizes.
        size_columns: Or several columns, each with its weight: the size is the weighted sum.
        zero_size: What to do with sizes of 0: raise them to `size_floor`, or leave the rows out.
        size_floor: The smallest size there may be, in the unit of the size as found.
        spread_ties: Spread jobs of the same instant evenly over the step of the time grid.
        limit_rows: Read only that many rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    time_column: str
    format: Literal["auto", "csv", "jsonl"] = "auto"
    time_is: Literal["arrival", "end"] = "arrival"
    time_unit: Literal["auto", "s", "ms", "us", "ns", "datetime"] = "auto"
    duration_column: str | None = None
    duration_unit: Unit | None = None
    size_column: str | None = None
    size_columns: dict[str, float] | None = None
    zero_size: Literal["floor", "drop"] | None = None
    size_floor: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    spread_ties: bool = False
    limit_rows: int | None = Field(default=None, ge=1)

    @property
    def size_weights(self) -> dict[str, float]:
        """The columns whose weighted sum is the size; none: the trace gives no sizes."""
        if self.size_column is not None:
            return {self.size_column: 1.0}
        return dict(self.size_columns or {})

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        if (self.time_is == "end") != (self.duration_column is not None):
            raise ValueError('time_is = "end" and duration_column go together: arrival = end − duration')
        if self.duration_unit is not None and self.duration_column is None:
            raise ValueError("duration_unit without duration_column: leave it out")
        if self.size_column is not None and self.size_columns is not None:
            raise ValueError("size_column and size_columns: state one of them")
        if self.size_columns is not None:
            weights = self.size_columns.values()
            if not all(0.0 <= weight < math.inf for weight in weights) or not any(weights):
                raise ValueError(f"size_columns = {self.size_columns}: weights are numbers >= 0, not all of them 0")
        if (self.zero_size == "floor") != (self.size_floor is not None):
            raise ValueError('zero_size = "floor" and size_floor go together: state the smallest size')
        if self.zero_size is not None and not self.size_weights:
            raise ValueError("zero_size without size_column or size_columns: leave it out")
        return self
