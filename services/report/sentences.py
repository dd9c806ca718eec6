"""What a verdict means, in a sentence, from the JSON object of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.report.quantities import capital, title

MEANINGS = {
    "agree": "nothing that was tested differs",
    "differ": "something that should be equal is not",
    "not_enough_data": "nothing differs, but a difference that matters could hide in the noise",
    "limit": "only limits are known, which a finite system does not meet: the gap is shown",
    "not_compared": "there is nothing to compare with",
}


def verdict_sentence(summary: Mapping[str, Any]) -> str:
    """The verdict of a run or a simulation in words."""
    word = summary["verdict"]
    quantities = summary.get("quantities", {})
    text = capital(MEANINGS.get(word, str(word)))
    if word == "agree" and summary.get("identities"):
        text += ", and every identity holds"
    if word == "agree" and any(
        model.get("test", {}).get("verdict") == "limit"
        for quantity in quantities.values()
        for model in quantity.get("models", {}).values()
    ):
        text += "; a limit is not met at this size: see the gap"
    if word == "differ":
        differing = [title(name) for name, quantity in quantities.items() if quantity.get("verdict") == "differ"]
        differing += [check["text"] for check in summary.get("identities", []) if not check["holds"]]
        text += f": {'; '.join(differing)}" if differing else ""
    return f"{text}. But the run is invalid." if summary.get("invalid") else f"{text}."
