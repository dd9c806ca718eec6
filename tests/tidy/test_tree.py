"""The shape of the repository: what lies at the top, how long a file gets, what is shipped."""

from __future__ import annotations

import ast
from importlib.metadata import packages_distributions

from tests.tidy.tree import PACKAGES, ROOT, files, pyproject, python_files

TOP = {
    ".ci",
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "docker-compose.yml",
    "docs",
    "pyproject.toml",
    "requirements-dev.txt",
    "requirements.txt",
    "router",
    "server",
    "services",
    "tests",
}
TESTS = {
    "bench",
    "chaos",
    "deploy",
    "fuzz",
    "live",
    "models",
    "property",
    "simulation",
    "soak",
    "swarm",
    "tidy",
    "unit",
    "conftest.py",
}


def test_the_top_level_holds_only_what_was_agreed() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in files()} - TOP == set()


def test_each_test_lies_in_a_room_of_its_kind() -> None:
    rooms = {path.relative_to(ROOT).parts[1] for path in files() if path.is_relative_to(ROOT / "tests")}
    assert rooms - TESTS == set()


def test_a_python_file_can_be_read_in_one_sitting() -> None:
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in python_files()}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > 400} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files(*PACKAGES)
        if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


def test_no_environment_managers_lock_is_kept() -> None:
    assert [path for path in files() if path.name in {"uv.lock", "poetry.lock", "Pipfile.lock"}] == []


def test_no_other_distribution_owns_our_import_names() -> None:
    owners = packages_distributions()
    assert {name: owners.get(name, []) for name in PACKAGES if set(owners.get(name, [])) - {"herdless"}} == {}


def test_all_three_packages_are_shipped_and_cannot_be_uploaded() -> None:
    settings = pyproject()
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PACKAGES)
    assert "Private :: Do Not Upload" in settings["project"]["classifiers"]
