"""Play all cases with all policies, and write the table of results into docs/failures.md: `make chaos`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos import firewall
from tests.chaos.cases import CASES
from tests.chaos.play import POLICIES, Result, play
from tests.chaos.table import write_table


def main() -> int:
    """Return 0 if all went as it must."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--policies", default=",".join(POLICIES), help="with commas between")
    parser.add_argument("--cases", default="", help="a word of the names of those that are wanted")
    parser.add_argument("--relay", action="store_true", help="no network of its own: partitions by the relay")
    parser.add_argument("--table", action="store_true", help="write the table into docs/failures.md")
    arguments = parser.parse_args()
    if not arguments.relay and not firewall.is_private() and firewall.can_be_private():
        firewall.become_private("tests.chaos", sys.argv[1:])
    _say(f"partitions are made by {means()}")
    results = asyncio.run(_play(arguments.policies.split(","), arguments.cases))
    wrong = [result for result in results if result.wrong]
    _say(f"{len(results)} played, {len(wrong)} wrong")
    if arguments.table:
        write_table(results, means())
    return 1 if wrong else 0


def means() -> str:
    """What partitions are made with."""
    return "iptables in a network namespace" if firewall.is_private() else "a relay"


async def _play(policies: list[str], word: str) -> list[Result]:
    cases = [case for name, case in CASES.items() if word in name]
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for policy in policies:
            results += await play(policy, cases, Path(folder), _tell)
    return results


def _tell(result: Result) -> None:
    ends = [
        f"{outcome} {reason} {count}".replace("  ", " ") for (outcome, reason), count in sorted(result.ends.items())
    ]
    _say(f"{result.policy:11} {result.case:40} {result.recovered_s:5.2f} s  {result.wrong or ', '.join(ends)}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
