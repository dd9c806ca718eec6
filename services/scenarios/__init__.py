"""The scenarios that are shipped: one TOML file each, with its source and what is expected of it."""

from __future__ import annotations

from importlib.resources import files


def shipped() -> dict[str, str]:
    """Return the texts of all shipped scenarios by name, in alphabetical order."""
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".toml")
    }
    return dict(sorted(texts.items()))
