"""The table of a soak run: each process, its memory, and what it held while all was calm."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import isnan
from pathlib import Path

from tests.soak.sampler import Sample
from tests.soak.verdict import MIB, Found, Life


def table(found: Found) -> list[str]:
    """A row an incarnation whose memory is judged, one for all others of a member, one for all other guests."""
    rows = [
        "| process | lived | private memory, MiB | growth | open files | threads | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    members = dict.fromkeys([*found.staying, *(name for name, _ in found.held)])
    for name in dict.fromkeys([*members, *(each.name for each in found.lives)]):
        own = [each for each in found.lives if each.name == name]
        judged = [each for each in own if not isnan(each.growth)]
        if judged or (own and name in members):
            rows += _rows(found, name, own if name in members else judged, judged)
    if guests := [each for each in found.lives if each.name not in members and isnan(each.growth)]:
        longest = _minutes(max(each.lived_s for each in guests))
        count = f"{len({each.name for each in guests})} guests, {len(guests)} incarnations"
        rows.append(f"| {count} | at most {longest} |  |  |  |  |  |")
    return rows


def _rows(found: Found, name: str, own: Sequence[Life], judged: Sequence[Life]) -> list[str]:
    """Counts stand in the first row of a process, since they are held together over its incarnations."""
    counts = [_counts(found.held.get((name, what), ())) for what in ("files", "threads", "tasks")]
    rows = []
    for life in judged:
        which = f"{name}, incarnation {life.number}" if len(own) > 1 else name
        rows.append([which, _minutes(life.lived_s), f"{life.before / MIB:.1f} → {life.after / MIB:.1f}",
                     f"{life.growth:+.1%}", *counts])  # fmt: skip
        counts = ["", "", ""]
    if others := [life for life in own if life not in judged]:
        which = f"{name}, {len(others)} {'others' if judged else 'incarnations'}" if len(own) > 1 else name
        longest = _minutes(max(life.lived_s for life in others))
        rows.append([which, longest if len(others) == 1 else f"at most {longest}", "", "", *counts])
    return [f"| {' | '.join(row)} |" for row in rows]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60.0:.1f} min"


def _counts(counts: Sequence[float]) -> str:
    """In the first calm, and the most in any later one."""
    if not counts or any(map(isnan, counts)):
        return "unknown" if counts else ""
    return f"{counts[0]:.0f} → {max(counts[1:]):.0f}"


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """All looks at processes."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Sample._fields)
        writer.writerows(each._replace(at_s=round(each.at_s, 2)) for each in samples)
