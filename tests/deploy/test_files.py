"""The files of the deployment, looked at without an engine: what would only fail on somebody else's machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.scenario import parse_scenario
from services.scenarios import shipped
from tests.deploy.engine import ROOT, compose_file

OURS = ("router", "server-slow", "server-fast", "load", "exporter", "console")
SCALED = ("router", "server-slow", "server-fast")
TOKEN = "/run/herdless/token"
SERVICES = compose_file()["services"]
PROMETHEUS = ROOT / "services" / "prometheus"


def host_port(port: str) -> str:
    """The part of `ADDRESS:HOST:CONTAINER` in the middle."""
    return port.split(":")[1]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_to_this_machine_only(name: str) -> None:
    assert [port for port in SERVICES[name].get("ports", []) if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", SCALED)
def test_what_is_scaled_has_nothing_that_only_one_can_have(name: str) -> None:
    service = SERVICES[name]
    assert "container_name" not in service
    assert "hostname" not in service
    assert [port for port in service.get("ports", []) if host_port(port)] == []


@pytest.mark.parametrize("name", SERVICES)
def test_everything_has_limits_and_no_rights_to_spare(name: str) -> None:
    service = SERVICES[name]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert not {"privileged", "cap_add", "network_mode", "pid", "ulimits"} & set(service)


@pytest.mark.parametrize("name", OURS)
def test_our_parts_cannot_write_and_have_an_init(name: str) -> None:
    service = SERVICES[name]
    assert service["init"] is True
    assert all(volume.endswith(":ro") for volume in service["volumes"])


def test_the_token_is_made_where_only_our_parts_read_it_and_stands_in_no_file() -> None:
    assert (SERVICES["token"]["command"], SERVICES["token"]["restart"]) == (["token", TOKEN], "no")
    assert SERVICES["token"]["volumes"] == ["token:/run/herdless"]
    for name in OURS:
        assert SERVICES[name]["environment"]["HERDLESS_TOKEN_FILE"] == TOKEN
        assert "token:/run/herdless:ro" in SERVICES[name]["volumes"]
        assert SERVICES[name]["depends_on"] == {"token": {"condition": "service_completed_successfully"}}
    holders = {name for name, service in SERVICES.items() if any("/run/herdless" in str(v) for v in service["volumes"])}
    assert holders == {*OURS, "token"}
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert "HERDLESS_TOKEN:" not in text and "PASSWORD" not in text


def test_images_of_others_have_a_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    assert images
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+$", image)] == []


def test_the_pools_are_those_of_the_scenario_that_runs_if_nobody_says_otherwise() -> None:
    scenario = parse_scenario(shipped()["pull"], "pull")
    deployed = {
        command[command.index("--pool") + 1]
        for command in (service.get("command", []) for service in SERVICES.values())
        if "servers" in command
    }
    assert deployed == {pool.name for pool in scenario.pools}


def test_prometheus_finds_replicas_by_their_names_in_dns() -> None:
    jobs = {job["job_name"]: job for job in read(PROMETHEUS / "prometheus.yml")["scrape_configs"]}
    found = {name: job["dns_sd_configs"][0] for name, job in jobs.items() if "dns_sd_configs" in job}
    names = set(SERVICES) | {
        alias for s in SERVICES.values() for alias in s.get("networks", {}).get("default", {}).get("aliases", [])
    }
    for name, discovery in found.items():
        assert discovery["names"] == [name]
        assert (discovery["type"], discovery["port"]) == ("A", 8080)
    assert set(found) == {"router", "server", "load", "exporter"}
    assert set(found) <= names
    # A fixed target would be one replica, whichever answers.
    assert [name for name, job in jobs.items() if "static_configs" in job] == ["prometheus"]


def test_five_readings_lie_in_the_rates_of_the_rules() -> None:
    assert read(PROMETHEUS / "prometheus.yml")["global"]["scrape_interval"] == "2s"
    rates = re.findall(r"\[(\w+)\]", (PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))
    assert set(rates) == {"10s"}


def test_the_image_is_made_without_what_only_newer_engines_know() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("# syntax") or "--mount=" in line] == []
    assert [line for line in lines if line.startswith("USER")] == ["USER 65532:65532"]
    assert sum(line.startswith("FROM ") for line in lines) == 2


def test_the_example_of_another_scenario_names_pools_of_that_scenario() -> None:
    example = (ROOT / "docs" / "compose.loss.yml").read_text(encoding="utf-8")
    pools = {pool.name for pool in parse_scenario(shipped()["loss"], "loss").pools}
    assert set(re.findall(r"--pool, (\w+)", example)) == pools
    assert "/scenarios/loss.toml" in example


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))
