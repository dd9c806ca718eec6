"""A router or server process that says what it holds when it gets SIGUSR1: `python -m tests.fuzz.watched ROLE JSON`."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import router.app.main
import server.app.main
from router.app.settings import RouterSettings
from server.app.settings import make_settings


def tell(*_: Any) -> None:
    """Write one line: open files, tasks, and the resident set in MiB."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    held = {
        "files": len(os.listdir("/proc/self/fd")) - 1,  # that of the listing itself
        "tasks": len(asyncio.all_tasks()),
        "mib": resident >> 20,
    }
    sys.stdout.write(json.dumps(held) + "\n")
    sys.stdout.flush()


def main(role: str, settings: dict[str, Any]) -> int:
    signal.signal(signal.SIGUSR1, tell)
    if role == "router":
        return router.app.main.run(RouterSettings(**settings))
    return server.app.main.run(make_settings(settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
