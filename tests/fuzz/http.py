"""Try a router and a server process by their own descriptions: `python -m tests.fuzz.http SCHEMATHESIS [EXAMPLES]`.

Both are tried without a token and with one. None may crash, hang, answer 500 or what its description does not say; and
afterwards each holds as many files and tasks as before, ends when told to, and says 0.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.seeds import connections

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "fuzz"
CONFIG = Path(__file__).with_name("schemathesis.toml")
TOKEN = "the-token-of-this-cluster"
BOUND_S = 30.0
# So short that the longest of services, of size 10^15, is over within a second.
UNIT_S = 1e-15


class Process:
    """A process under test."""

    def __init__(self, popen: subprocess.Popen[str], log: Path) -> None:
        self.popen = popen
        self.log = log
        self.url: str = self._line()["url"]

    def _line(self) -> Any:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line, f"the process ended with {self.popen.wait(BOUND_S)} and said: {self.log.read_text()[-2000:]}"
        return json.loads(line)

    def held(self) -> dict[str, int]:
        """What it holds: files, tasks, memory."""
        self.popen.send_signal(signal.SIGUSR1)
        found: dict[str, int] = self._line()
        return found

    def errors(self) -> list[str]:
        """What its log tells from the first mistake of ours on."""
        lines = self.log.read_text().splitlines()
        first = next((place for place, line in enumerate(lines) if " ERROR " in line), len(lines))
        return lines[first:]

    def end(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(BOUND_S)


@contextmanager
def started(role: str, token: str | None, **settings: Any) -> Iterator[Process]:
    """Start a process; whatever happens, it does not outlive this."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | ({"HERDLESS_TOKEN": token} if token else {})
    command = [sys.executable, "-m", "tests.fuzz.watched", role, json.dumps(settings)]
    log = WORK / f"{role}-{'with' if token else 'without'}-token.log"
    with (
        log.open("w") as writing,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writing, text=True, env=environment) as popen,
    ):
        try:
            yield Process(popen, log)
        finally:
            popen.kill()


def ready(process: Process) -> None:
    """Wait until its servers can be given jobs."""
    until = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{process.url}/ready", timeout=BOUND_S):
                return
        except OSError:
            time.sleep(0.05)  # only by asking does one learn of another process
    raise AssertionError(f"{process.url} is not ready after {BOUND_S:g} s")


def settled(process: Process, before: dict[str, int]) -> dict[str, int]:
    """What it holds once files and tasks are as before, or in the end."""
    until = time.monotonic() + BOUND_S
    while (held := process.held()) | {"mib": 0} != before | {"mib": 0} and time.monotonic() < until:
        time.sleep(0.1)  # as above
    return held


def tried(schemathesis: str, process: Process, token: str | None, examples: int) -> tuple[int, bool, str]:
    """Let schemathesis try what listens there; how many requests, whether all is well, and what it says."""
    with urllib.request.urlopen(f"{process.url}/openapi.json", timeout=BOUND_S) as response:
        description = json.load(response)
    if not token:  # the description names what needs a token where there is one
        for operation in (found for path in description["paths"].values() for found in path.values()):
            operation["security"] = []
    (WORK / "openapi.json").write_text(json.dumps(description))
    command = [
        schemathesis, "--config-file", str(CONFIG), "run", "openapi.json", "--url", process.url, "-n", str(examples),
        *(["--header", f"Authorization: Bearer {token}"] if token else []),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, cwd=WORK, check=False)
    requests = re.search(r"(\d+) generated", ran.stdout)
    return int(requests[1]) if requests else 0, ran.returncode == 0, ran.stdout + ran.stderr


def sent_raw(process: Process, count: int) -> list[str]:
    """Send bytes that are hardly HTTP any more, one connection each; what was answered otherwise than it should."""
    host, port = process.url.removeprefix("http://").rsplit(":", 1)
    rng, wrong = Random(count), []
    for _ in range(count):
        data = _spoiled(rng.choice(connections()), rng)
        try:
            with socket.create_connection((host, int(port)), BOUND_S) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while chunk := connection.recv(1 << 16):
                    answer += chunk
        except ConnectionError:  # it may close as soon as it knows enough
            continue
        except TimeoutError:
            answer = b"no end"
        if answer and not re.match(rb"HTTP/[01]\.[0-9] (?!500)[1-5][0-9][0-9] ", answer):
            wrong.append(f"{data!r} was answered {answer[:200]!r}")
    return wrong


def _spoiled(data: bytes, rng: Random) -> bytes:
    """The same bytes but for a few: cut, doubled, changed or inserted."""
    for _ in range(rng.randrange(1, 4)):
        begin, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        other = rng.choice((b"", data[begin:end] * 2, rng.randbytes(3), b"\r\n", b"\0", b"9" * 30, b"\r\n\r\n"))
        data = data[:begin] + other + data[rng.choice((begin, end)) :]
    return data[:50_000]


def main(schemathesis: str, examples: int = 300) -> int:
    WORK.mkdir(parents=True, exist_ok=True)
    schemathesis, wrong = str(Path(schemathesis).absolute()), []
    for token in (None, TOKEN):
        with ExitStack() as stack:
            router = stack.enter_context(started("router", token, port=0, time_unit_s=UNIT_S, max_policy_changes=10**6))
            servers = stack.enter_context(
                started("server", token, id="servers", pool="pool", servers=3, time_unit_s=UNIT_S, routers=[router.url])
            )
            for process in (router, servers):
                ready(process)
            for name, process in (("router", router), ("servers", servers)):
                before, began = settled(process, process.held()), time.monotonic()
                requests, well, said = tried(schemathesis, process, token, examples)
                faults = sent_raw(process, 10 * examples) + process.errors()
                after = settled(process, before)
                clean = after["files"] == before["files"] and after["tasks"] == before["tasks"]
                fine = well and clean and not faults
                print(
                    f"{name:8} {'with a token' if token else 'no token':12} {requests:7,} requests and "
                    f"{10 * examples:,} spoiled ones, {time.monotonic() - began:4.0f} s; "
                    f"before {before}, after {after}: {'ok' if fine else 'FINDING'}",
                    flush=True,
                )
                if not fine:
                    wrong.append(name)
                    print(said, *faults[:50], sep="\n")
            codes = [process.end() for process in (servers, router)]
            if codes != [0, 0]:
                wrong.append(f"exit codes {codes}")
    print(f"findings: {', '.join(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
