"""The compose file, brought up on an engine for a test, and what one asks it."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.deploy.engine import ROOT, run

T = TypeVar("T")

PROJECT = f"herdless-test-{os.getpid()}"
SCENARIO = "/scenarios/pull.toml"
# A small system, slow enough for a machine that does other things as well: 60 jobs/s.
SETS = ("time_unit_s=0.4", "pools.0.servers=10", "pools.1.servers=10", "routers.count=3")
PARTS = ("router", "server-slow", "server-fast", "load", "exporter", "console", "prometheus")
UP = {"router": 3, "server": 2, "load": 1, "exporter": 1, "prometheus": 1}
"""How many replicas Prometheus is to see, by job."""
BOUND_S = 60.0

# At any free port of this machine: those of the compose file may be in use.
OVERRIDE = """
services:
  prometheus: {ports: !override ["127.0.0.1::9090"]}
  console: {ports: !override ["127.0.0.1::8080"]}
"""


class Composed:
    """A system that runs.

    Attributes:
        prometheus: The URL of Prometheus.
        token: What changes need.
        up_s: What it took to bring everything up.
    """

    def __init__(self, env: dict[str, str], *overrides: Path) -> None:
        self.prometheus = ""
        self.token = ""
        self.up_s = 0.0
        self._env = env | {"HERDLESS_SET": " ".join(SETS)}
        files = [word for file in (ROOT / "docker-compose.yml", *overrides) for word in ("-f", str(file))]
        self._compose = ("docker", "compose", "-p", PROJECT, *files)

    def compose(self, *arguments: str, check: bool = True) -> str:
        """`docker compose …`."""
        return run([*self._compose, *arguments], self._env, check=check)

    def docker(self, *arguments: str) -> str:
        """`docker …`."""
        return run(["docker", *arguments], self._env)

    def up(self, *arguments: str) -> None:
        """Bring up what is not up, and wait until it is healthy."""
        self.compose("up", "--detach", "--wait", "--wait-timeout", "120", "--no-recreate", *arguments, *PARTS)

    def containers(self, service: str) -> list[str]:
        """The ids of the containers of a service that run."""
        return self.compose("ps", "--quiet", "--status", "running", service).split()

    def urls(self, service: str) -> list[str]:
        """Where the replicas of a service listen, on this machine."""
        found = json.loads(self.docker("inspect", *self.containers(service)))
        ports = [container["NetworkSettings"]["Ports"]["8080/tcp"][0]["HostPort"] for container in found]
        return [f"http://127.0.0.1:{port}" for port in ports]

    def health(self, container: str) -> str:
        """What its health check says: starting, healthy or unhealthy."""
        return self.docker("inspect", "--format", "{{.State.Health.Status}}", container).strip()

    def put(self, url: str, body: Any) -> Any:
        """Change something, with the token."""
        return call(url, "PUT", body, self.token)

    def herdless(self, *arguments: str) -> dict[str, Any]:
        """Run a command inside the network, in a container of its own; return its JSON, whatever its exit code."""
        out = self.compose("run", "--rm", "--no-deps", "-T", "load", *arguments, "--json", check=False)
        return dict(json.loads(out))

    def ask(self, promql: str) -> list[dict[str, Any]]:
        """What Prometheus answers now."""
        query = urllib.parse.urlencode({"query": promql})
        return list(call(f"{self.prometheus}/api/v1/query?{query}")["data"]["result"])

    def value(self, promql: str) -> float:
        """The one value that Prometheus answers; nan for none."""
        found = self.ask(promql)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else float("nan")

    def left_behind(self) -> list[str]:
        """Containers, networks and volumes of this system."""
        label = f"label=com.docker.compose.project={PROJECT}"
        found = [self.docker("ps", "--all", "--quiet", "--filter", label)]
        found += [self.docker(kind, "ls", "--quiet", "--filter", label) for kind in ("network", "volume")]
        return " ".join(found).split()


@contextmanager
def composed(env: dict[str, str], folder: Path, *more: Path) -> Iterator[Composed]:
    """Build the image, bring the system up, and take it down again, with nothing left behind.

    Args:
        env: Of the engine.
        folder: Where to write.
        more: Compose files that change ours.
    """
    override = folder / "override.yml"
    override.write_text(OVERRIDE, encoding="utf-8")
    system = Composed(env, *more, override)
    try:
        system.compose("build", "router")
        started = time.monotonic()
        system.up()
        system.up_s = time.monotonic() - started
        system.token = system.compose("exec", "-T", "load", "cat", "/run/herdless/token").strip()
        system.prometheus = "http://" + system.compose("port", "prometheus", "9090").strip()
        yield system
    except BaseException:
        # What the containers said would be gone with them.
        print(system.compose("logs", "--tail", "15", check=False)[-8000:])  # noqa: T201
        raise
    finally:
        system.compose("down", "--volumes")
    assert system.left_behind() == []


def replicas(cluster: Composed) -> dict[str, int]:
    """How many targets answer Prometheus, by job."""
    return {one["metric"]["job"]: int(one["value"][1]) for one in cluster.ask("sum by (job) (up == 1)")}


def call(url: str, method: str = "GET", body: Any = None, token: str = "") -> Any:
    """Call an HTTP interface that speaks JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=BOUND_S) as answer:
        return json.loads(answer.read())


def eventually(what: str, look: Callable[[], T], good: Callable[[T], object] = bool, limit_s: float = BOUND_S) -> T:
    """Look again and again until what is seen is good; return that.

    The limit is far above what is needed; it only keeps a failure from taking for ever.
    """
    due = time.monotonic() + limit_s
    seen: T | None = None
    while time.monotonic() < due:
        try:
            seen = look()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            seen = None
        if seen is not None and good(seen):
            return seen
        time.sleep(0.5)
    raise AssertionError(f"not within {limit_s:g} s: {what}; the last thing seen was {seen!r:.2000}")


def empty_ones(system: Composed, expressions: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those expressions to which Prometheus has no answer."""
    return [(where, promql) for where, promql in expressions if not system.ask(promql)]
