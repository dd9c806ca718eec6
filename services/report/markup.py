"""HTML from nested calls: whatever is not markup already is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

VOID = {"meta", "br", "hr"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *content: Any, **attributes: str | None) -> Markup:
    """One element.

    Args:
        name: Of its tag.
        content: Markup, text, or lists of both; `None` is nothing.
        attributes: `class_` stands for class, and `_` within a name for `-`; `None` leaves one out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = join(content)
    return Markup(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{inner}</{name}>")


def join(content: Iterable[Any], between: str = "") -> Markup:
    """Markup as it is, lists item by item, and everything else as escaped text."""
    return Markup(between.join(_one(item) for item in content if item is not None))


def _one(item: Any) -> str:
    if isinstance(item, Markup):
        return item
    if isinstance(item, list | tuple):
        return join(item)
    return escape(str(item))
