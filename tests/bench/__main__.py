"""`make bench`: every ratio is of two things measured in turns, in one run on one machine; nothing is asserted."""

from __future__ import annotations

import sys

from tests.bench import decisions, live, simulator
from tests.bench.table import show

PARTS = {"simulator": simulator.ratios, "decisions": decisions.ratios, "live": live.ratios}


def main(names: list[str]) -> None:
    """Measure all parts, or those that are named."""
    for name, ratios in PARTS.items():
        if not names or name in names:
            show(ratios())


if __name__ == "__main__":
    main(sys.argv[1:])
