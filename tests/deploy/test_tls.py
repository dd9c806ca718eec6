"""The example of TLS on a real engine: certificates made as the document says, and nobody is heard without one."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.cluster import BOUND_S, UP, Composed, composed, eventually, replicas
from tests.deploy.engine import ROOT, run, why_none

REASON = why_none()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands of the document make, up to those that want an engine."""
    document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```\n(mkdir -p -m 700 tls.*?)export HERDLESS_CERTS", document, re.DOTALL)
    folder = tmp_path_factory.mktemp("tls")
    (folder / "services").symlink_to(ROOT / "services")
    run(["sh", "-c", f"set -e; cd {folder}; {recipe}"], {"PATH": "/usr/bin:/bin"})
    return folder / "tls" / "certs"


@pytest.fixture(scope="module")
def cluster(docker_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory, certs: Path) -> Iterator[Composed]:
    env = docker_env | {"HERDLESS_CERTS": str(certs)}
    with composed(env, tmp_path_factory.mktemp("compose"), ROOT / "docs" / "compose.tls.yml") as system:
        yield system


def ask(cluster: Composed, part: str, path: str, context: ssl.SSLContext) -> str:
    """What a part answers by TLS."""
    (url, *_) = cluster.urls(part)
    with urllib.request.urlopen(url.replace("http", "https") + path, timeout=BOUND_S, context=context) as answer:
        return str(answer.read().decode())


def test_all_are_healthy_serve_and_are_scraped(cluster: Composed, certs: Path) -> None:
    ours = ssl.create_default_context(cafile=certs / "ca.pem")
    ours.load_cert_chain(certs / "cluster.pem", certs / "cluster.key")
    for part in ("router", "load"):
        assert "ready" in ask(cluster, part, "/ready", ours)
    served = 'sum(herdless_load_ends_total{outcome="served"})'
    eventually("jobs are served", lambda: cluster.value(served), lambda jobs: jobs > 100)
    eventually("every replica is scraped", lambda: replicas(cluster), lambda up: up == UP)
    assert len(cluster.herdless("policy", "pull", "--routers", "router")["routers"]) == 3


def test_whoever_has_no_certificate_is_not_heard(cluster: Composed, certs: Path) -> None:
    nobody = ssl.create_default_context(cafile=certs / "ca.pem")
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        ask(cluster, "router", "/ready", nobody)
    (url, *_) = cluster.urls("router")
    with pytest.raises((urllib.error.URLError, ConnectionError, OSError)):
        urllib.request.urlopen(url + "/ready", timeout=BOUND_S).close()
    # Browsers are asked for none.
    assert "<html" in ask(cluster, "console", "/", nobody)
