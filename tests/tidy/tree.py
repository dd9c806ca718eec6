"""The repository as the tidy tests see it: its files, its modules, its settings."""

from __future__ import annotations

import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("router", "server", "services")


@cache
def files() -> tuple[Path, ...]:
    """Return every file that is in the repository, or is about to be: tracked, or new and not ignored."""
    listed = subprocess.run(
        [
            "git",
            "-C",
            str(ROOT),
            "-c",
            f"safe.directory={ROOT}",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file()))


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below the given top-level folders (all folders when none is given)."""
    return [
        path for path in files() if path.suffix == ".py" and (not folders or path.relative_to(ROOT).parts[0] in folders)
    ]


def modules() -> dict[str, Path]:
    """Return our own modules, dotted name to file; a package goes by its own name."""
    found = {}
    for path in python_files(*PACKAGES):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def pyproject() -> dict[str, Any]:
    """Return the settings in pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)
