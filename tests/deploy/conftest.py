"""The container engine that all tests of the deployment share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.engine import engine


@pytest.fixture(scope="session")
def docker_env() -> Iterator[dict[str, str]]:
    """The environment of docker commands."""
    with engine() as env:
        yield env
