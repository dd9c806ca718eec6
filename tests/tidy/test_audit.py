"""The audit of the lock: what it says of a vulnerability, and that a missing network is no failure of the code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.audit import audit

HASH = "0" * 64
LOCK = f"holey==1.0 \\\n    --hash=sha256:{HASH}\nwhole==2.0 \\\n    --hash=sha256:{HASH}\n"
FAULT = {
    "id": "PYSEC-0000-1", "modified": "2020-01-01T00:00:00Z", "published": "2020-01-01T00:00:00Z",
    "details": "a hole", "aliases": [],
    "affected": [
        {"package": {"name": "holey", "ecosystem": "PyPI"}, "versions": ["1.0"],
         "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}]}
    ],
}  # fmt: skip


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text(LOCK, encoding="utf-8")
    return path


@contextmanager
def advisories(holes: dict[str, Any]) -> Iterator[str]:
    """A service that knows these holes, by package; yields its URL."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"vulns": [hole] if (hole := holes.get(asked["package"]["name"])) else []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        finally:
            server.shutdown()
            thread.join()


def test_a_known_vulnerability_fails_and_is_named(lock: Path) -> None:
    with advisories({"holey": FAULT}) as url:
        code, said = audit(lock, "--osv-url", url)
    assert code == 1
    assert "holey 1.0: PYSEC-0000-1, mended in ['1.1']" in said and "whole" not in said


def test_none_is_said_too(lock: Path) -> None:
    with advisories({}) as url:
        assert audit(lock, "--osv-url", url) == (0, "audit: no known vulnerability in 2 packages")


def test_without_a_network_nothing_is_audited_and_that_is_said(lock: Path) -> None:
    with advisories({}) as url:
        pass  # nobody listens there any more
    code, said = audit(lock, "--osv-url", url)
    assert code == 0
    assert said.startswith("audit: not audited: the advisory service is unreachable (")


def test_a_lock_that_cannot_be_read_is_a_failure(lock: Path) -> None:
    lock.write_text("whole==2.0\n", encoding="utf-8")  # without a hash
    code, said = audit(lock)
    assert code == 1 and said.startswith("audit: failed: ")
