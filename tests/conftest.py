"""What every test may rely on."""

from __future__ import annotations

import os

import hypothesis
import pytest

# Property tests search anew on a developer's machine; where CI is set, they try the same examples every time.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("local", deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test's result independent of HERDLESS_* variables that happen to be set."""
    for name in [name for name in os.environ if name.startswith("HERDLESS_")]:
        monkeypatch.delenv(name)
