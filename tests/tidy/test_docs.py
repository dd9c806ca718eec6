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


def docstrings(path: Path) -> str:
    """Return what a module and its public classes and functions say of themselves."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return "\n".join(ast.get_docstring(node) or "" for node in [tree, *public(path)])


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
    said: dict[str, str] = {}  # a family is one file, or one folder of files
    for path in python_files():
        if path.is_relative_to(ROOT / room) and public(path):
            family = path.relative_to(ROOT / room).parts[0]
            said[family] = said.get(family, "") + "\n" + docstrings(path)
    missing = {
        (family, section)
        for family, text in said.items()
        for section in sections
        if not re.search(rf"^\s*{section}\b[^:\n]*:", text, re.MULTILINE)
    }
    assert missing == set()


def test_every_function_of_the_module_random_is_banned() -> None:
    # What the module offers beside its classes are methods of one hidden generator.
    hidden = {name for name in random.__all__ if name != "Random"}
    banned = pyproject()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name for name in hidden if f"random.{name}" not in banned} == set()
