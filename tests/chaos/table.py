"""The table of results in docs/failures.md, between its two markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.chaos.cases import CASES
from tests.chaos.play import POLICIES, Result

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


def write_table(results: Sequence[Result], means: str) -> None:
    """Put the table in the place of the former one."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(results, means)}\n{END}{after}", encoding="utf-8")


def table(results: Sequence[Result], means: str) -> str:
    """A row a case: for each policy, jobs that failed of all jobs, and the time to recover."""
    played = list(dict.fromkeys(result.case for result in results))
    found = {(result.case, result.policy): result for result in results}
    jobs = sum(sum(result.ends.values()) for result in results)
    wrong = sum(bool(result.wrong) for result in results)
    lines = [
        f"{len(played)} cases, {len(results)} runs, {jobs} jobs, {wrong} runs not as they must be. "
        f"Partitions were made by {means}.",
        "",
        "| case | what happens | stated | " + " | ".join(POLICIES) + " |",
        "| --- | --- | --- | " + " | ".join("---" for _ in POLICIES) + " |",
    ]
    for name in played:
        case = CASES[name]
        cells = [_cell(found.get((name, policy))) for policy in POLICIES]
        lines.append(f"| {name} | {case.words} | {case.recovers_s:g} s | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(result: Result | None) -> str:
    if result is None:
        return "not played"
    if result.wrong:
        return "**wrong**"
    failed = sum(count for (outcome, _), count in result.ends.items() if outcome != "served")
    return f"{failed} of {sum(result.ends.values())}, {result.recovered_s:.1f} s"
