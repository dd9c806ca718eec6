"""Who may import whom: the contracts that `make check` runs catch what they are meant to catch.

The contracts in pyproject.toml name the rooms that talk to the world and hold every other module to be pure.
Here the same contracts judge small trees with the same rooms, in which one file or another breaks a rule.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, modules, pyproject

# Rooms without I/O and without a clock: time, randomness and messages are handed in and given back.
PURE = (
    "router.protocol",
    "router.choice",
    "router.core",
    "router.events",
    "router.flights",
    "router.freshness",
    "router.in_force",
    "router.jobs",
    "router.members",
    "router.memory",
    "router.policies",
    "router.policy",
    "router.questions",
    "router.ranking",
    "router.recorder",
    "router.registry",
    "router.upkeep",
    "server.announcer",
    "server.backoff",
    "server.core",
    "server.laws",
    "server.recorder",
    "server.reporter",
    "server.routers",
    "services.audit",
    "services.loadgen.arrivals",
    "services.loadgen.trace",
    "services.loadgen.workload",
    "services.measure",
    "services.models",
    "services.report",
    "services.scenario",
    "services.simulator",
    "services.solver",
)

# Rooms that talk to the world.
OUTSIDE = (
    "router.app",
    "router.process",
    "server.app",
    "services.cli",
    "services.console",
    "services.lab",
    "services.loadgen.client",
)

IMPURE = (
    "aiohttp",
    "asyncio",
    "logging",
    "os",
    "prometheus_client",
    "secrets",
    "socket",
    "threading",
    "time",
    "uvloop",
)


def verdict(root: Path, contents: dict[str, str]) -> str:
    """Return what the import contracts say about a tree made of the given modules (name to source)."""
    for name, source in contents.items():
        folder = root.joinpath(*name.split(".")[:-1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name.split('.')[-1]}.py").write_text(source, encoding="utf-8")
    for folder in [root / "router", root / "server", root / "services", root / "services" / "models"]:
        folder.mkdir(exist_ok=True)
    for folder in [path for path in root.rglob("*") if path.is_dir()]:
        (folder / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", root)
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    ran = subprocess.run(
        [sys.executable, "-c", lint],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts:" in ran.stdout, ran.stdout + ran.stderr
    return re.sub(r"\s+", " ", ran.stdout)


def test_a_pure_room_that_looks_at_the_world_is_caught(tmp_path: Path) -> None:
    imports = "".join(f"import {name}\n" for name in IMPURE)
    said = verdict(tmp_path, {f"{room}.inner": imports for room in PURE + OUTSIDE})
    missed = [f"{room} -> {name}" for room in PURE for name in IMPURE if f"{room}.inner -> {name} " not in said]
    wronged = [room for room in OUTSIDE if f"{room}.inner ->" in said]
    assert (missed, wronged) == ([], [])


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("router.core", "server.core"),
        ("router.core", "services.scenario"),
        ("server.core", "services.scenario"),
        ("server.core", "router.core"),
        ("server.core", "router.policies.pull"),
        ("server.app.web", "router.app.web"),
        ("router.core", "router.app.web"),
        ("services.simulator.loop", "services.lab.run"),
        ("services.models.queues", "services.scenario"),
        ("services.models.queues", "services.solver"),
        ("services.models.queues", "router.core"),
        ("router.policies.pull", "router.policies.random"),
    ],
)
def test_an_import_against_the_arrows_is_caught(tmp_path: Path, importer: str, imported: str) -> None:
    said = verdict(tmp_path, {importer: f"import {imported}\n", imported: ""})
    assert "0 broken" not in said
    assert f"{importer} -> {imported}" in said


def test_imports_along_the_arrows_are_allowed(tmp_path: Path) -> None:
    along = {
        "router.policies.pull": "import router.policy\nimport router.choice\n",
        "router.core": "import router.policy\nimport router.protocol.messages\n",
        "router.app.web": "import aiohttp\nimport router.core\nimport router.process\n",
        "server.core": "import router.protocol.messages\n",
        "server.app.web": "import asyncio\nimport router.process\nimport server.core\n",
        "services.simulator.loop": "import router.core\nimport server.core\n",
        "services.solver": "import services.models.queues\nimport services.scenario\n",
        "services.lab.run": "import asyncio\nimport services.loadgen.client\nimport services.solver\n",
    }
    rest = [
        "router.policy",
        "router.choice",
        "router.protocol.messages",
        "router.process",
        "services.scenario",
    ]
    rest += ["services.models.queues", "services.loadgen.client"]
    assert " 0 broken" in verdict(tmp_path, along | dict.fromkeys(rest, ""))


def test_the_pure_rooms_named_here_are_in_the_tree() -> None:
    assert [room for room in PURE if room not in modules()] == []


def test_only_the_rooms_that_talk_to_the_world_are_exempt() -> None:
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    exemptions = [line for c in contracts if c["name"].startswith("Pure") for line in c["ignore_imports"]]
    patterns = [
        re.escape(line.removesuffix(" -> *")).replace(r"\*\*", ".+").replace(r"\*", "[^.]+") for line in exemptions
    ]
    exempt = [name for name in modules() if any(re.fullmatch(pattern, name) for pattern in patterns)]
    assert [name for name in exempt if not re.match("|".join(map(re.escape, OUTSIDE)), name)] == []
