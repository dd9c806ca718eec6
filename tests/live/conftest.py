"""What tests of whole commands may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.lab import Lab, laboratory


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab in the test's folder; nothing of it may be left afterwards."""
    with laboratory(tmp_path) as made:
        yield made
