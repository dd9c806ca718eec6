"""Rows, series and predictions as the page is told them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from services.console.fleet import Fleet
from services.console.window import Reading
from services.solver import Solution

KEPT_POINTS = 300
"""Five minutes, at one a second."""

SERIES = (
    "wait_probability", "block_probability", "abandon_probability", "sojourn_p50", "sojourn_p95", "sojourn_p99",
    "messages.total", "jobs_per_s",
)  # fmt: skip


class History:
    """The latest values of what is drawn over time, and what models said of them at the time."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, list[float | None], list[float | None]]] = deque(maxlen=KEPT_POINTS)

    def add(self, at_s: float, values: Mapping[str, float], models: Mapping[str, Any]) -> None:
        """Add a point."""
        live = [values.get(name) for name in SERIES]
        self._points.append((at_s, live, [models[name]["value"] if name in models else None for name in SERIES]))

    def json(self) -> dict[str, Any]:
        """All points as columns, ready for JSON."""
        points = list(self._points)
        return {
            "at_s": [at_s for at_s, _, _ in points],
            "live": {name: [live[i] for _, live, _ in points] for i, name in enumerate(SERIES)},
            "model": {name: [model[i] for _, _, model in points] for i, name in enumerate(SERIES)},
        }


def models_json(solution: Solution | None, asked: bool) -> dict[str, Any]:
    """What is predicted: for each quantity the first there is of exact, closed, meanfield, limit.

    Args:
        solution: What they said; `None`: nothing.
        asked: Whether they have been asked about what is in force.
    """
    values: dict[str, Any] = {}
    for name, by_method in solution.quantities.items() if solution is not None else ():
        method, prediction = next(iter(by_method.items()))
        if not isinstance(prediction.value, list):
            values[name] = {
                "value": round(prediction.value, 6), "method": method, "exact": prediction.exact,
                "kind": prediction.kind, "source": prediction.source, "assumes": prediction.assumes,
            }  # fmt: skip
    return {"asked": asked, "values": values}


def router_rows(
    reading: Reading,
    names: Mapping[str, str],
    policies: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, Mapping[str, float]],
) -> list[dict[str, Any]]:
    """One row a router."""
    rows = []
    for url, shown in sorted(reading.routers.items(), key=lambda item: names.get(item[0], item[0])):
        rate = rates.get(url, {})
        rows.append(
            {
                "name": names.get(url, url),
                "policy": policies[url]["name"],
                "held": int(shown.gauges["pull_messages_held"]),
                "in_flight": int(shown.gauges["in_flight"]),
                "jobs_per_s": round(rate["jobs_per_s"], 2) if rate else None,
                "cpu": round(rate["cpu"], 3) if rate else None,
            }
        )
    return rows


def process_rows(reading: Reading, fleet: Fleet, name: Callable[[str], str]) -> list[dict[str, Any]]:
    """One row a server process that is there."""
    rows: dict[str, dict[str, Any]] = {}
    for place, length in zip(fleet.places, fleet.lengths, strict=True):
        if place.process:
            row = rows.setdefault(
                place.process,
                {"url": place.process, "name": name(place.process), "pool": place.pool, "servers": 0, "draining": 0,
                 "jobs": 0, "links_up": None},
            )  # fmt: skip
            row["servers"] += 1
            row["draining"] += place.state == "draining"
            row["jobs"] += length
    for url, shown in reading.servers.items():
        if url in rows:
            rows[url]["links_up"] = int(shown.gauges["links_up"])
    return list(rows.values())
