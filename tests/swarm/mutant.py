"""What a mutant of the code is, and the register of all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(put: Callable[[Patch], None]) -> Callable[[Patch], None]:
    """Register what puts a mistake in."""
    MUTANTS[put.__name__] = put
    return put
