"""Known vulnerabilities of what the lock names: `python -m tests.tidy.audit`, a part of `make check`.

Without a way to the service that knows them nothing is audited; that is said, and is no failure, because whether the
network is there says nothing about the code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT

LOCK = ROOT / "requirements-dev.txt"
ACCEPTED: tuple[str, ...] = ()
"""Ids of vulnerabilities that do not concern us, each with its reason beside it."""
ANSWER_LIMIT_S = 10
LIMIT_S = 120.0


def audit(lock: Path = LOCK, *options: str) -> tuple[int, str]:
    """Ask the service about each pin of a lock; return the exit code and what to say."""
    command = [
        sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--require-hashes", "--disable-pip",
        "--vulnerability-service", "osv", "--timeout", str(ANSWER_LIMIT_S), "--progress-spinner", "off",
        "--format", "json", "--desc", "off", *(word for id in ACCEPTED for word in ("--ignore-vuln", id)), *options,
    ]  # fmt: skip
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return 0, f"audit: not audited: the advisory service has not answered within {LIMIT_S:g} s"
    try:
        found = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
        if "requests.exceptions." in ran.stderr or "ServiceError" in ran.stderr:
            return 0, f"audit: not audited: the advisory service is unreachable ({last.partition(':')[0]:.80})"
        return 1, f"audit: failed: {last:.500}"
    known = [
        f"  {package['name']} {package['version']}: {fault['id']}, mended in {fault['fix_versions']}"
        for package in found
        for fault in package.get("vulns", ())
    ]
    if known:
        return 1, "\n".join([f"audit: {len(known)} known vulnerabilities (make lock UPGRADE=--upgrade):", *known])
    asked = sum("vulns" in package for package in found)
    unknown = f"; {len(found) - asked} are not known to the advisory service" if asked < len(found) else ""
    return 0, f"audit: no known vulnerability in {asked} packages{unknown}"


if __name__ == "__main__":
    code, said = audit()
    sys.stdout.write(said + "\n")
    sys.exit(code)
