"""Documents and docstrings: links lead somewhere, and what must be said is said."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, files, pyproject, python_files

LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")


def public(path: Path) -> list[ast.ClassDef | ast.FunctionDef]:
    """Return the public classes and functions at the top of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name[0] != "_"]


def lacking(path: Path, sections: tuple[str, ...]) -> list[str]:
    """Return the sections that stand neither in the module's docstring nor in any of its public ones."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = "\n".join(ast.get_docstring(node) or "" for node in [tree, *public(path)])
    return [section for section in sections if not re.search(rf"^\s*{section}:", said, re.MULTILINE)]


def test_links_lead_to_files() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in files()
        if path.suffix == ".md"
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("room", "sections"),
    [("router/policies", ("Rule", "Source")), ("services/models", ("Units", "Assumes", "Source"))],
)
def test_policies_and_models_say_what_they_rest_on(room: str, sections: tuple[str, ...]) -> None:
    rooms = [path for path in python_files() if path.is_relative_to(ROOT / room)]
    lacks = {path.name: lacking(path, sections) for path in rooms if public(path) and path.stem != "__init__"}
    assert {name: missing for name, missing in lacks.items() if missing} == {}


def test_every_function_of_the_module_random_is_banned() -> None:
    # What the module offers beside its classes are methods of one hidden generator.
    hidden = {name for name in random.__all__ if name != "Random"}
    banned = pyproject()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name for name in hidden if f"random.{name}" not in banned} == set()
