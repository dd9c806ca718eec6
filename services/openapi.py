"""The descriptions of both HTTP interfaces as they stand in docs: `python -m services.openapi` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

import router.openapi
import server.openapi

DOCS = Path(__file__).parents[1] / "docs"


def documents() -> dict[str, str]:
    """File name to text."""
    descriptions = {
        "openapi-router.json": router.openapi.description(),
        "openapi-server.json": server.openapi.description(),
    }
    return {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in descriptions.items()}


if __name__ == "__main__":
    for _name, _text in documents().items():
        (DOCS / _name).write_text(_text, encoding="utf-8")
