"""What a person reads of an audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from services.audit.found import sentence


def audit_lines(audit: Mapping[str, Any]) -> Iterator[str]:
    """An audit's JSON object in lines, its mismatches and stories apart."""
    state = "everything adds up" if audit["holds"] else "the books do not balance"
    yield f"audit: {audit['jobs']} jobs sent, {audit['traced']} followed from end to end: {state}"
    yield from (f"  {why}: {count}" for why, count in audit["accounted"].items())
    yield from (f"  not checked: {why}" for why in audit["unchecked"])


def mismatch_lines(audit: Mapping[str, Any]) -> Iterator[str]:
    """What does not add up."""
    for mismatch in audit["mismatches"]:
        yield sentence(mismatch["what"], mismatch["named"], mismatch["count"])
