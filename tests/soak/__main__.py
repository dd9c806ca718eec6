"""Let members of a cluster come and go under load for half an hour, and see that nothing grows: `make soak`.

Memory, open files, threads and tasks are judged, and the books; speed is not, so that the machine may be busy. The
verdict is in the last lines and in `soak.md` of the run's folder; exit code 1: something was not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from services.lab.errors import RunInvalid
from services.lab.folder import make_folder
from tests.soak.plan import Plan
from tests.soak.run import soak, summary
from tests.soak.table import table, write_samples

TOLD_EVERY_S = 60.0


def main() -> int:
    """Return 0 if all went as it must."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--seed", type=int, default=1, help="of changes and jobs (1)")
    parser.add_argument("--policy", default="pull", help="its name (pull)")
    parser.add_argument("--out", type=Path, help="the run's folder (runs/<UTC time>-soak)")
    asked = parser.parse_args()
    plan = Plan(asked.minutes, asked.seed, {"name": asked.policy})
    folder = make_folder(plan.scenario, asked.out)
    _say(f"soak: {asked.minutes:g} minutes, seed {asked.seed}, {len(plan.scenario.faults)} changes, in {folder}")
    try:
        soaked = asyncio.run(soak(plan, folder, _Teller()))
    except RunInvalid as error:
        return _end(folder, [], [f"the run broke off: {error}"])
    write_samples(folder / "samples.csv", soaked.samples)
    return _end(folder, [*summary(plan, soaked), "", *table(soaked.found), ""], soaked.found.wrong())


class _Teller:
    """Says now and then how far the run is."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, what: str, share: float) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + TOLD_EVERY_S
            _say(f"{what}: {share:.0%}")


def _end(folder: Path, lines: list[str], wrong: list[str]) -> int:
    lines += [f"wrong: {why}" for why in wrong] or ["all is as it must be"]
    (folder / "soak.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _say("\n".join(lines))
    return 1 if wrong else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
