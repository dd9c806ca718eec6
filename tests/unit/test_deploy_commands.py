"""The commands of a deployment: names that no other replica has, scenarios changed from outside, mistakes told."""

from __future__ import annotations

import json
import socket

import pytest

from router.protocol.messages import Dispatch
from router.protocol.needs import Needs
from server.app.driver import ServerDriver
from server.app.metrics import integrated
from server.app.settings import ServerSettings, make_settings
from services.cli import run_command
from services.cli.deploy import _own


def test_a_replica_is_called_after_its_host_or_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "3f2a9c1b7d0e")
    assert _own("") == "3f2a9c1b7d0e"
    assert _own("east") == "east"


@pytest.mark.parametrize("name", ["-x-", "a b/c", "häuschen", "…", "x" * 500, "."])
def test_whatever_a_host_is_called_its_servers_can_be_named(name: str) -> None:
    own = _own(name)
    settings = make_settings(
        {
            "id": f"servers-slow-{own}"[:64],
            "prefix": f"slow-{own}",
            "pool": "slow",
            "servers": 2,
            "routers": ("router",),
        }
    )
    assert [spec.id for spec in settings.specs()] == [f"slow-{own}-1", f"slow-{own}-2"]


def test_servers_are_called_after_their_pool_where_nobody_says_otherwise() -> None:
    settings = make_settings({"id": "servers-slow", "pool": "slow", "servers": 1, "routers": ("router",)})
    assert [spec.id for spec in settings.specs()] == ["slow-1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deploy", "servers", "pull", "--pool", "medium", "--routers", "router"),
         "--pool medium: scenario pull has slow, fast"),
        (("deploy", "router", "nowhere"), 'no scenario "nowhere"'),
        (("load", "pull", "--endless", "--http", "--routers", "router"), "--endless: records are not kept"),
        (("load", "pull", "--endless", "--routers", "router", "--set", "routers.split=[1, 2, 3, 4]"),
         "routers.split: without end, jobs are split equally"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_and_ends_with_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_scenario_is_changed_from_the_environment_unless_the_command_line_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERDLESS_SET", "arrivals.load=0.75 pools.0.servers=1")
    assert run_command(["solve", "mm1", "--json"]) == 0
    # M/M/1 at load 0.75: 1 / (1 − 0.75).
    assert json.loads(capsys.readouterr().out)["values"]["sojourn_mean"] == pytest.approx(4.0)
    assert run_command(["solve", "mm1", "--set", "arrivals.load=0.9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"]["sojourn_mean"] == pytest.approx(10.0)


async def test_jobs_and_busy_slots_are_integrated_over_time() -> None:
    now = 100.0
    # A time unit so long that no service ends.
    settings = ServerSettings(id="s", pool="slow", servers=2, slots=2, time_unit_s=1e6, routers=("127.0.0.1:1",))
    driver = ServerDriver(settings, clock=lambda: now)
    driver.router_joined("router-1", Needs(), lambda message: True)
    driver.receive([Dispatch("slow-1", "router-1", job, 1.0, None, None, None, 0) for job in range(3)])
    now = 110.0
    driver.receive([Dispatch("slow-2", "router-1", 3, 1.0, None, None, None, 0)])
    now = 115.0
    # 3 jobs for 15 s and 1 for 5 s; of 2 slots each, 2 were busy for 15 s, and 1 for 5 s.
    assert integrated(driver, lambda length: length) == pytest.approx(3 * 15 + 1 * 5)
    assert integrated(driver, lambda length: min(length, 2)) == pytest.approx(2 * 15 + 1 * 5)
    driver.close()
