"""The deployment on a real engine: everything is up and seen, grows and shrinks, survives kills, and is measured."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.boards import FILES, board, expressions, marks
from tests.deploy.cluster import (
    BOUND_S,
    PARTS,
    SCENARIO,
    SETS,
    UP,
    Composed,
    call,
    composed,
    empty_ones,
    eventually,
    replicas,
)
from tests.deploy.engine import ROOT, why_none
from tests.tidy.test_metrics_doc import recorded

REASON = why_none()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    # The first test waits for the image as well.
    pytest.mark.timeout(600),
]

VERDICTS = ("agree", "differ", "not_enough_data", "limit")


@pytest.fixture(scope="module")
def cluster(docker_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    with composed(docker_env, tmp_path_factory.mktemp("compose")) as system:
        yield system


@pytest.fixture(autouse=True)
def _whole(cluster: Composed) -> None:
    """Each test finds the same system, whatever the one before has done to it."""
    eventually("every replica is scraped", lambda: replicas(cluster), lambda up: up == UP)


def books(cluster: Composed) -> dict[str, float]:
    """What the generator says of its jobs."""
    return {
        "sent": cluster.value("sum(herdless_load_jobs_total)"),
        "ended": cluster.value("sum(herdless_load_ends_total)"),
        "under way": cluster.value("sum(herdless_load_under_way)"),
        "doubled": cluster.value("sum(herdless_load_doubled_total)"),
    }


def served(cluster: Composed) -> float:
    return cluster.value('sum(herdless_load_ends_total{outcome="served"})')


def test_everything_is_healthy_within_a_minute_and_serves(cluster: Composed) -> None:
    assert cluster.up_s < 60
    before = served(cluster)
    eventually("jobs are served", lambda: served(cluster), lambda now: now > before + 100)
    assert len(cluster.containers("router")) == 3
    # Each router knows the servers of both pools, and each replica has a name of its own.
    names = [[server["id"] for server in call(f"{url}/v1/servers")["servers"]] for url in cluster.urls("router")]
    assert [len(set(of_router)) for of_router in names] == [20, 20, 20]
    assert len({call(f"{url}/health")["id"] for url in cluster.urls("router")}) == 3


def test_the_console_finds_everything_by_name(cluster: Composed) -> None:
    (url,) = cluster.urls("console")

    def hello() -> dict[str, Any]:
        with urllib.request.urlopen(f"{url}/v1/events", timeout=BOUND_S) as stream:
            assert stream.readline() == b"event: hello\n"
            return dict(json.loads(stream.readline().removeprefix(b"data: ")))

    told = eventually("it has asked a model", hello, lambda told: told["models"]["asked"])
    assert len(told["fleet"]["servers"]) == 20
    assert len(told["status"]["routers"]) == 3 and told["status"]["load"]["load"] > 0.0
    assert told["can"] == {"policy": True, "load": True, "drain": True, "kill": False, "add": False}


def test_every_recording_rule_has_data(cluster: Composed) -> None:
    names = [(name, name) for name in recorded(ROOT / "services" / "prometheus" / "rules.yml")]
    eventually("no rule is empty", lambda: empty_ones(cluster, names), lambda empty: empty == [])


def test_every_expression_of_every_panel_has_data(cluster: Composed) -> None:
    asked = [expression for path in FILES for expression in expressions(board(path))]
    assert len(asked) > 60
    eventually("no panel is empty", lambda: empty_ones(cluster, asked), lambda empty: empty == [])
    for path in FILES:
        for mark in marks(board(path)):
            cluster.ask(mark.promql)  # Prometheus understands it; whether it has happened is another thing
        for variable in board(path)["templating"]["list"]:
            metric, label = variable["query"].removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
            assert cluster.ask(f"count by ({label}) ({metric}) and on ({label}) count by ({label}) ({metric})")


def test_the_books_balance_and_no_alert_says_otherwise(cluster: Composed) -> None:
    balanced = eventually("a reading of the generator", lambda: books(cluster), lambda now: now["sent"] > 0)
    # Each expression is asked by itself; jobs go on in between, but a scrape is of one instant.
    off = cluster.value("sum(herdless_load_jobs_total) - sum(herdless_load_ends_total) - sum(herdless_load_under_way)")
    assert (off, balanced["doubled"]) == (0, 0)
    assert cluster.ask('ALERTS{alertname="ConservationViolated"}') == []


def test_a_fourth_router_is_found_by_everybody(cluster: Composed) -> None:
    cluster.up("--scale", "router=4")
    try:
        eventually("Prometheus sees it", lambda: replicas(cluster), lambda up: up["router"] == 4)
        eventually("all servers have linked to it", lambda: cluster.value("min(herdless_server_links_up)"),
                   lambda links: links == 4)  # fmt: skip
        busy = 'count(rate(herdless_router_jobs_total{policy="pull"}[10s]) > 1)'
        eventually("it gets jobs", lambda: cluster.value(busy), lambda routers: routers == 4)
        eventually("the models are asked about four", lambda: cluster.value("herdless_model_routers"),
                   lambda routers: routers == 4)  # fmt: skip
    finally:
        cluster.up("--scale", "router=3")
    eventually("the links to it are given up", lambda: cluster.value("max(herdless_server_links_up)"),
               lambda links: links == 3)  # fmt: skip


def test_killed_containers_cost_no_job_that_is_not_accounted_for(cluster: Composed) -> None:
    before = served(cluster)
    cluster.docker("kill", cluster.containers("router")[0], cluster.containers("server-fast")[0])
    eventually("Prometheus sees them gone", lambda: replicas(cluster),
               lambda up: (up["router"], up["server"]) == (2, 1))  # fmt: skip
    at_two = eventually("the others serve on", lambda: served(cluster), lambda now: now > before + 100)
    cluster.up()
    eventually("Prometheus sees them back", lambda: replicas(cluster), lambda up: up == UP)
    eventually("all serve again", lambda: served(cluster), lambda now: now > at_two + 200)
    eventually("the new servers are linked", lambda: cluster.value("min(herdless_server_links_up)"),
               lambda links: links == 3)  # fmt: skip
    off = cluster.value("sum(herdless_load_jobs_total) - sum(herdless_load_ends_total) - sum(herdless_load_under_way)")
    assert (off, cluster.value("sum(herdless_load_doubled_total)")) == (0, 0)
    # Nothing else ended badly than what was at the dead ones, or met a router while it had lost its servers' links.
    bad = {one["metric"]["reason"] for one in cluster.ask('herdless_load_ends_total{outcome="failed"} > 0')}
    assert bad <= {"link_lost", "no_server", "draining"}


def test_a_policy_that_is_put_in_force_is_seen_and_predicted(cluster: Composed) -> None:
    routers = cluster.urls("router")
    try:
        for url in routers:
            assert cluster.put(f"{url}/v1/policy", {"name": "power_of_d", "d": 2})["name"] == "power_of_d"
        eventually("all routers show it", lambda: cluster.value('sum(herdless_router_policy{policy="power_of_d"})'),
                   lambda routers: routers == 3)  # fmt: skip
        eventually("its jobs have its label", lambda: cluster.value('herdless:job_rate:rate10s{policy="power_of_d"}'),
                   lambda rate: rate > 10)  # fmt: skip
        eventually("it asks servers", lambda: cluster.value('herdless:messages:rate10s{kind="probe"}'),
                   lambda probes: probes == pytest.approx(2, abs=0.05))  # fmt: skip
        eventually("the models predict it", lambda: cluster.ask('herdless_model_info{policy="power_of_d"} == 1'))
        eventually("and nothing else", lambda: cluster.ask('herdless_model_value{policy="pull"}'),
                   lambda old: old == [])  # fmt: skip
    finally:
        for url in routers:
            cluster.put(f"{url}/v1/policy", {"name": "pull"})
    eventually("the old one is back", lambda: cluster.ask('herdless_model_value{policy="pull"}'))


def test_nothing_is_changed_without_the_token_and_it_is_shown_nowhere(cluster: Composed) -> None:
    (router, *_), (load,), (console,) = cluster.urls("router"), cluster.urls("load"), cluster.urls("console")
    before = call(f"{router}/v1/policy"), call(f"{load}/v1/load")["load"]
    doors = [
        (f"{router}/v1/policy", "PUT", {"name": "random"}),
        (f"{router}/v1/jobs", "POST", {}),
        (f"{load}/v1/load", "PUT", {"load": 0}),
        (f"{console}/v1/do/policy", "POST", {"name": "random"}),
    ]
    for url, method, body in doors:
        for token in ("", cluster.token[::-1]):
            with pytest.raises(urllib.error.HTTPError) as refused:
                call(url, method, body, token)
            refused.value.close()
            assert refused.value.code == 401
    assert (call(f"{router}/v1/policy"), call(f"{load}/v1/load")["load"]) == before
    assert call(f"{router}/v1/jobs", "POST", {}, cluster.token)["outcome"] == "served"
    refusals = 'sum(herdless_router_refusals_total{peer="http", reason="token"})'
    eventually("refusals are counted", lambda: cluster.value(refusals), lambda count: count == 4)
    ids = [id for part in PARTS for id in cluster.containers(part)]
    shown = [cluster.compose("logs"), cluster.docker("inspect", *ids)]
    shown += [cluster.compose("exec", "-T", part, "cat", "/proc/1/cmdline") for part in ("router", "load", "console")]
    shown += [cluster.docker("history", "--no-trunc", "herdless")]
    assert [text for text in shown if cluster.token in text] == []


def test_nothing_of_ours_has_rights_to_spare(cluster: Composed) -> None:
    for part in ("router", "server-slow", "load", "exporter", "console"):
        status = cluster.compose("exec", "-T", part, "cat", "/proc/1/status")
        rights = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(rights["Uid"].split()) == set(rights["Gid"].split()) == {"65532"}
        assert {rights[f"Cap{kind}"].strip("0") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {""}
        assert rights["NoNewPrivs"] == "1"
        mounts = [line.split() for line in cluster.compose("exec", "-T", part, "cat", "/proc/mounts").splitlines()]
        options = {mount[1]: mount[3].split(",")[0] for mount in mounts}
        assert [options[place] for place in ("/", "/scenarios", "/run/herdless")] == ["ro", "ro", "ro"]


def test_a_load_that_is_changed_is_seen_and_predicted(cluster: Composed) -> None:
    (load,) = cluster.urls("load")
    try:
        assert cluster.put(f"{load}/v1/load", {"load": 0.4})["load"] == pytest.approx(0.4)
        eventually("the models are asked about it", lambda: cluster.value("herdless_model_load"),
                   lambda load: load == pytest.approx(0.4))  # fmt: skip
        # 0.4 · (10 · 1 + 10 · 2) jobs a time unit of 0.4 s: 30 jobs/s, and 300 in the rate, ± 4 standard deviations.
        eventually("half as many jobs come", lambda: cluster.value('herdless:job_rate:rate10s{policy="pull"}'),
                   lambda rate: rate == pytest.approx(30, abs=7))  # fmt: skip
    finally:
        cluster.put(f"{load}/v1/load", {"load": 0.8})


def test_a_run_that_attaches_gives_a_verdict(cluster: Composed) -> None:
    (load,) = cluster.urls("load")
    cluster.put(f"{load}/v1/load", {"load": 0})
    try:
        eventually("nothing is under way", lambda: books(cluster), lambda now: now["under way"] == 0)
        # A run on a machine that was too busy says so itself, and may be repeated; one that differs may not.
        for attempt in range(3):
            report = attached_run(cluster, f"/tmp/run-{attempt}")
            if report["valid"]:
                break
    finally:
        cluster.put(f"{load}/v1/load", {"load": 0.8})
    assert report["verdict"] in (("agree", "not_enough_data", "limit") if report["valid"] else VERDICTS), report
    # Every job takes a mean of 0.5 time units at least: that of the fast pool.
    assert report["values"]["sojourn_mean"] > 0.4
    assert report["values"]["failed_probability"] == 0.0


def attached_run(cluster: Composed, out: str) -> dict[str, Any]:
    """Measure the cluster from a container beside it."""
    sets = [word for each in (*SETS, "run.warmup=5", "run.duration=40") for word in ("--set", each)]
    return cluster.herdless("run", SCENARIO, *sets, "--attach", "router", "--servers", "server", "--out", out)


def test_what_runs_once_and_serves_nothing_is_healthy(cluster: Composed) -> None:
    once = ("run", "--detach", "--no-deps", "load", "run", SCENARIO, "--set", "run.duration=10000")
    container = cluster.compose(*once).split()[-1]
    try:
        eventually("its health is known", lambda: cluster.health(container), lambda health: health != "starting")
        assert cluster.health(container) == "healthy"
    finally:
        cluster.docker("rm", "--force", container)


def test_servers_that_are_told_to_end_finish_what_they_have(cluster: Composed) -> None:
    lost = 'sum(herdless_load_ends_total{reason="link_lost"})'
    before, jobs = cluster.value(lost), served(cluster)
    cluster.compose("restart", "server-fast")
    eventually("it is back", lambda: cluster.value("min(herdless_server_links_up)"), lambda links: links == 3)
    eventually("all serve again", lambda: served(cluster), lambda now: now > jobs + 200)
    assert cluster.value(lost) == before
