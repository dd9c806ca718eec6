"""The console of real processes, without a browser: attached to a cluster that is up, and to its own."""

from __future__ import annotations

import json
import os
import resource
import signal
import urllib.error
import urllib.request
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from tests.live.lab import BOUND_S, Lab


def hello(url: str) -> dict[str, Any]:
    """What a new page is told."""
    with urllib.request.urlopen(f"{url}/v1/events", timeout=BOUND_S) as stream:
        assert stream.readline() == b"event: hello\n"
        return dict(json.loads(stream.readline().removeprefix(b"data: ")))


def ask(url: str, action: str, body: Any, token: str) -> tuple[int, Any]:
    """Ask for a change, as a page does."""
    headers = {"Content-Type": "application/json", "X-Herdless-Token": token}
    request = urllib.request.Request(f"{url}/v1/do/{action}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def servers(told: dict[str, Any]) -> list[str]:
    return [server[0] for server in told["fleet"]["servers"]]


def test_a_cluster_is_seen_by_its_own_console_and_by_one_that_is_attached(lab: Lab) -> None:
    up = lab.start("up", "small.toml", "--json", "--no-load")
    found = json.loads(up.stdout.readline())
    own = found["console"].rstrip("/")
    lists = {"--routers": ",".join(found["routers"]), "--servers": ",".join(found["servers"])}
    attached = lab.start("console", "small.toml", "--read-only", *(word for pair in lists.items() for word in pair))
    looking = json.loads(attached.stdout.readline())["url"]
    for url in (own, looking):
        lab.wait_for(lambda url=url: hello(url)["status"])
        told = hello(url)
        assert servers(told) == ["slow-1", "slow-2", "slow-3", "fast-1", "fast-2", "fast-3"]
        assert [row["name"] for row in told["status"]["routers"]] == ["router-1", "router-2"]
        assert told["status"]["policy"]["name"] == "pull" and told["status"]["load"] is None
    assert hello(own)["can"] == {"policy": True, "load": False, "drain": True, "kill": True, "add": True}
    assert not any(hello(looking)["can"].values())

    # One may change the policy, the other may not; both see it.
    code, answer = ask(looking, "policy", {"name": "random"}, hello(looking)["token"])
    assert (code, "may not" in answer["error"]["message"]) == (403, True)
    assert ask(own, "policy", {"name": "random"}, "another token")[0] == 403
    assert ask(own, "policy", {"name": "random"}, hello(own)["token"]) == (200, {"policy": {"name": "random"}})
    lab.wait_for(lambda: hello(looking)["status"]["policy"] == {"name": "random"})

    # Killed from outside, its servers are gone from both; the cluster goes on.
    (fast,) = lab.processes("servers-fast")
    os.kill(fast, signal.SIGKILL)
    for url in (own, looking):
        lab.wait_for(lambda url=url: servers(hello(url)) == ["slow-1", "slow-2", "slow-3"])
    assert any(entry["kind"] == "problem" and "servers-fast" in entry["text"] for entry in hello(own)["log"])

    attached.send_signal(signal.SIGTERM)
    assert attached.wait(BOUND_S) == 0
    up.send_signal(signal.SIGINT)
    assert up.wait(BOUND_S) == 130
    assert lab.processes() == []
    for process in (attached, up):
        process.communicate()


def test_a_scenario_that_cannot_be_sent_without_end_is_up_without_load(lab: Lab) -> None:
    up = lab.start("up", "small.toml", "--json", "--set", "routers.split=[1, 2]")
    own = json.loads(up.stdout.readline())["console"].rstrip("/")
    assert not hello(own)["can"]["load"]
    up.send_signal(signal.SIGINT)
    _, err = up.communicate(timeout=BOUND_S)
    assert up.returncode == 130
    assert err.startswith("no load is sent: ") and "routers.split" in err


def test_the_console_of_a_cluster_has_the_limits_of_all_processes(lab: Lab) -> None:
    up = lab.start("up", "small.toml", "--json", "--no-load")
    # Of the files that a process may have a hundred are its own, so 30 connections are served.
    resource.prlimit(up.pid, resource.RLIMIT_NOFILE, (130, 130))
    where = urlsplit(json.loads(up.stdout.readline())["console"])
    statuses = []
    with ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(closing(HTTPConnection(where.hostname or "", where.port, timeout=BOUND_S)))
            connection.request("GET", "/health")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
    assert statuses == [200] * 30 + [503] * 10
    up.send_signal(signal.SIGINT)
    assert up.wait(BOUND_S) == 130
    up.communicate()
