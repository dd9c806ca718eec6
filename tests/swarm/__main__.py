"""The swarm by hand: many seeds, or one case again. `python -m tests.swarm --help`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.swarm.cases import Case, draw
from tests.swarm.many import cores, failures
from tests.swarm.run import violation
from tests.swarm.shrink import shrink

EVERY_S = 10.0


def main() -> int:
    """Run what the command line says; 1 if something was violated."""
    parser = argparse.ArgumentParser("python -m tests.swarm", description=__doc__)
    parser.add_argument("--seeds", default="0:2000", metavar="FROM:TO", help="which cases (default 0:2000)")
    parser.add_argument("--jobs", type=int, default=cores(), help="processes (default: one a core)")
    parser.add_argument("--case", metavar="JSON", help="run this case and tell its story, instead of seeds")
    parser.add_argument("--no-shrink", action="store_true", help="tell the story of the case as it was drawn")
    options = parser.parse_args()
    if options.case:
        return _again(Case.read(options.case))
    first, _, last = options.seeds.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    began, spoke_at, done = time.monotonic(), 0.0, 0
    for number, found in failures(seeds, options.jobs):
        done += number
        for seed, what in found:
            print(f"\nseed {seed}: {what.splitlines()[0]}")
            _explain(draw(seed), options.no_shrink)
            return 1
        now = time.monotonic()
        if now - spoke_at > EVERY_S or done == len(seeds):
            spoke_at = now
            print(f"{done} of {len(seeds)} cases without a violation, {now - began:.0f} s", flush=True)
    return 0


def _explain(case: Case, as_it_is: bool) -> None:
    print(f"again: python -m tests.swarm --no-shrink --seeds {case.seed}")
    if not as_it_is:
        case = shrink(case)
        print(f"smaller: python -m tests.swarm --case '{case.json()}'")
    print(violation(case, told=True))


def _again(case: Case) -> int:
    what = violation(case, told=True)
    print(what or "nothing is violated")
    return 1 if what else 0


if __name__ == "__main__":
    sys.exit(main())
