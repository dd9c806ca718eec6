"""Fuzz every target for a while, one after the other: `python -m tests.fuzz [--runs N] [--seconds N] [TARGET…]`.

What is found is an input file in build/fuzz/findings; mended, it goes into tests/fuzz/cases.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from hashlib import sha1
from pathlib import Path

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "fuzz"
LIMITS = ("-timeout=10", "-rss_limit_mb=1500")
"""An input that takes longer, in seconds, or makes the process larger is a finding too."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz what reads the bytes of others.")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; none: all of them")
    parser.add_argument("--runs", type=int, default=60_000, help="inputs for each target (default: 60,000)")
    parser.add_argument("--seconds", type=int, default=600, help="at most so long for each target (default: 600)")
    options = parser.parse_args()
    if unknown := [name for name in options.targets if name not in TARGETS]:
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    total, failed = 0, []
    for name in options.targets or TARGETS:
        runs, ended = fuzz(name, options.runs, options.seconds)
        total += runs
        failed += [] if ended else [name]
    print(f"{total:,} inputs in all; findings: {', '.join(failed) or 'none'}")
    return bool(failed)


def fuzz(name: str, runs: int, seconds: int) -> tuple[int, bool]:
    """Fuzz one target; the inputs tried, and whether all of them were taken or refused."""
    corpus, findings = WORK / "corpus" / name, WORK / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    for seed in [*TARGETS[name].seeds, *stored(name)]:
        (corpus / sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    options = [
        *LIMITS, f"-runs={runs}", f"-max_total_time={seconds}", f"-max_len={TARGETS[name].longest}",
        f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1",
    ]  # fmt: skip
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.guided", name, *options, str(corpus)],
        cwd=ROOT, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", ran.stderr))
    done = int(stats.get("number_of_executed_units", 0))
    covered = re.findall(r"cov: (\d+)", ran.stderr)
    print(
        f"{name:20} {done:9,} inputs {took_s:6.0f} s  {int(stats.get('peak_rss_mb', 0)):5} MiB  "
        f"{covered[-1] if covered else 0:>5} edges  {'ok' if ran.returncode == 0 else 'FINDING'}",
        flush=True,
    )
    if ran.returncode:
        lines = (ran.stdout + ran.stderr).splitlines()
        print("\n".join([line for line in lines if not line.startswith("INFO: ")][-60:]))
    return done, ran.returncode == 0


def stored(name: str) -> list[bytes]:
    """What was found before."""
    return [path.read_bytes() for path in sorted((Path(__file__).parent / "cases" / name).glob("*"))]


if __name__ == "__main__":
    sys.exit(main())
