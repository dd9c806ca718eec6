"""What a person reads of an audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from services.audit.found import sentence


def audit_lines(audit: Mapping[str, Any]) -> Iterator[str]:
    """An audit's JSON object in lines, its mismatches and stories apart."""
    yield f"audit: {audit['jobs']} jobs sent, {audit['traced']} followed from end to end: {_state(audit)}"
    yield from (f"  {why}: {count}" for why, count in audit["accounted"].items())
    yield from (f"  not checked: {why}" for why in audit["unchecked"])


def _state(audit: Mapping[str, Any]) -> str:
    if not audit["holds"]:
        return "the books do not balance"
    if not audit["unchecked"]:
        return "everything adds up"
    if not audit["logs"]:
        return "no event log is there, so no job could be checked"
    return "not everything could be checked; what could be adds up"


def mismatch_lines(audit: Mapping[str, Any]) -> Iterator[str]:
    """What does not add up."""
    for mismatch in audit["mismatches"]:
        yield sentence(mismatch["what"], mismatch["named"], mismatch["count"])
