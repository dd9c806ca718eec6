"""The table of a run: each quantity measured, simulated and predicted, and what the tests say of it.

1. Live against simulations of the same jobs, sent when they were sent, with the network's measured delays.
2. A longer simulation without delay against the models. What is exact is tested; a limit or a mean field is not
   met by a finite system, so its gap is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from services.lab.simulate import Quantities, mean_of, place
from services.measure.quantities import Quantity
from services.measure.verdict import Comparison, Word, against, limit, overall, paired
from services.solver import Prediction

Test = Callable[..., Comparison]
"""Made once it is known how many `tests` share the rate of false alarms."""

TAIL_SHARE = 0.01
"""A list of shares is tested as far as they are above this."""

PRINCIPAL = (
    "sojourn_mean", "wait_probability", "block_probability", "abandon_probability", "jobs_in_system_mean",
    "messages.total",
)  # fmt: skip
"""What must have enough data before a run is said to agree."""

_WORST_FIRST: tuple[Word, ...] = ("differ", "not_enough_data", "agree", "limit", "not_compared")


@dataclass
class Row:
    """One quantity.

    Attributes:
        live: As measured; `simulated`: the same jobs; `ideal`: without delay, and longer.
        models: By method: what `solve` predicts, with `value`, `kind`, `source` and `assumes`.
        comparisons: What each test found, by what it compares: `live`, or the method; of a list, the worst.
    """

    live: Quantity | None = None
    simulated: Quantity | None = None
    ideal: Quantity | None = None
    models: dict[str, Prediction] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)

    def add(self, label: str, found: Comparison) -> None:
        """Keep what a test found, unless a worse one of that label is known: the tests of a list have one label."""
        known = self.comparisons.get(label)
        if known is None or _severity(found) > _severity(known):
            self.comparisons[label] = found

    @property
    def word(self) -> Word:
        """The verdict on this quantity; that of a model is none on a live value that could not be tested."""
        words = {label: found.word for label, found in self.comparisons.items()}
        if words.get("live") == "not_compared" and "differ" not in words.values():
            return "not_compared"
        return worst(words.values())


@dataclass(frozen=True)
class Table:
    """All quantities by name.

    Attributes:
        rows: In the order of measurement.
        tests: How many tests were made; they share the rate of false alarms.
        verdict: One word for all.
    """

    rows: dict[str, Row]
    tests: int
    verdict: Word

    @property
    def longer(self) -> float:
        """How many times as long a run must be to say something of every principal quantity."""
        found = [
            comparison.longer
            for name, row in self.rows.items()
            if name in PRINCIPAL
            for comparison in row.comparisons.values()
            if comparison.word == "not_enough_data"
        ]
        return max(found, default=1.0)


def worst(words: Iterable[Word]) -> Word:
    """The word that counts among several."""
    present = set(words)
    return next((word for word in _WORST_FIRST if word in present), "not_compared")


def compare(
    live: Quantities | None,
    replications: Sequence[Quantities],
    ideal: Quantities | None,
    predictions: Mapping[str, Mapping[str, Prediction]],
    alarms: float,
) -> Table:
    """Make all tests.

    Args:
        live: As measured; `None`: there was no live run.
        replications: Simulations of the same jobs.
        ideal: The simulation without delay.
        predictions: By quantity and method, as `services.solver.solve` gives them.
        alarms: The rate of false alarms of all tests together.
    """
    simulated = {
        name: mean_of([quantities[name] for quantities in replications])
        for name in (replications[0] if replications else ())
    }
    names = [*simulated, *(name for name in predictions if name not in simulated)]
    rows = {
        name: Row((live or {}).get(name), simulated.get(name), (ideal or {}).get(name), dict(predictions.get(name, {})))
        for name in names
    }
    planned = [
        (row, label, test)
        for name, row in rows.items()
        for label, test in [*_paired_tests(name, row, replications, alarms), *_model_tests(name, row, alarms)]
    ]
    tests = max(1, len(planned))
    for row, label, test in planned:
        row.add(label, test(tests=tests))
    for row in rows.values():
        for method, gap in _gaps(row):
            row.add(method, gap)
    words = {name: row.word for name, row in rows.items()}
    return Table(rows, tests, overall(words, PRINCIPAL))


def _severity(comparison: Comparison) -> tuple[int, float]:
    return -_WORST_FIRST.index(comparison.word), abs(comparison.difference)


def _paired_tests(name: str, row: Row, replications: Sequence[Quantities], alarms: float) -> Iterator[tuple[str, Test]]:
    """Live against the same jobs simulated; a list gives one test for each number that is not nearly 0."""
    live, simulated = row.live, row.simulated
    if live is None or simulated is None:
        return
    if not live.value.ndim:
        values = float(live.value), float(simulated.value)
        if np.isfinite(values).all() and any(values):
            each = [quantities[name] for quantities in replications]
            yield "live", partial(paired, name, live, each, alarms=alarms)
        return
    if name != "queue_tail":
        return  # those of the pools say the same again
    for k in range(1, max(len(live.value), len(simulated.value))):
        at_k = place(live, k)
        if max(float(at_k.value), float(place(simulated, k).value)) > TAIL_SHARE:
            each = [place(quantities[name], k) for quantities in replications]
            yield "live", partial(paired, name, at_k, each, alarms=alarms)


def _model_tests(name: str, row: Row, alarms: float) -> Iterator[tuple[str, Test]]:
    """The simulation without delay against what is exact; nothing is tested where it is 0 and should be."""
    for method, prediction, found, value in _pairs(row):
        if prediction.exact and not value == float(found.value) == 0.0:
            yield method, partial(against, name, found, value, alarms=alarms)


def _gaps(row: Row) -> Iterator[tuple[str, Comparison]]:
    """How far the simulation without delay is from limits and mean fields."""
    for method, prediction, found, value in _pairs(row):
        if not prediction.exact:
            yield method, limit(float(found.value), value)


def _pairs(row: Row) -> Iterator[tuple[str, Prediction, Quantity, float]]:
    """Each number without delay beside what each method says of it; of a list, those that are not nearly 0."""
    if row.ideal is None:
        return
    for method, prediction in row.models.items():
        if not isinstance(prediction.value, list):
            yield method, prediction, row.ideal, prediction.value
            continue
        for k, share in enumerate(prediction.value):
            if k and share > TAIL_SHARE:
                yield method, prediction, place(row.ideal, k), share
