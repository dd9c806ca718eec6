"""Which models there are: for each the scenarios that it is about, when it does not apply, and what it predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.scenario import Scenario
from services.solver import abandonment, chains, loss, pull, slotted, stations, supermarket
from services.solver.solution import Prediction


@dataclass(frozen=True)
class Candidate:
    """One model.

    Attributes:
        method: One of `services.solver.METHODS`.
        about: Whether the model is one of this scenario's policy; if not, its reason is of no interest.
        why_not: Why the model does not apply; `None`: it does.
        predict: What it says, by quantity. A ValueError is one more reason why it does not apply.
        time: Of which `run.time` it is one.
    """

    method: str
    about: Callable[[Scenario], bool]
    why_not: Callable[[Scenario], str | None]
    predict: Callable[[Scenario], dict[str, Prediction]]
    time: str = "continuous"


CANDIDATES = (
    Candidate("closed", stations.about, stations.why_not, stations.predict),
    Candidate("closed", abandonment.about_split, abandonment.why_no_split, abandonment.predict_split),
    Candidate("closed", pull.about, pull.why_no_fluid, pull.predict_fluid),
    Candidate("closed", pull.about_skewed, pull.why_not_skewed, pull.predict_skewed),
    Candidate("closed", slotted.about, slotted.why_not, slotted.predict, time="slotted"),
    Candidate("meanfield", pull.about, pull.why_no_field, pull.predict_field),
    Candidate("meanfield", supermarket.about, supermarket.why_not, supermarket.predict),
    Candidate("meanfield", loss.about_field, loss.why_no_field, loss.predict_field),
    Candidate("exact", loss.about, loss.why_no_chain, loss.predict_chain),
    Candidate("exact", chains.about, chains.why_not, chains.predict),
    Candidate("exact", abandonment.about_shortest, abandonment.why_no_chain, abandonment.predict_chain),
    Candidate("limit", abandonment.about_shortest, abandonment.why_no_limit, abandonment.predict_limit),
)
"""Where two of one method predict the same quantity, the first has it."""
