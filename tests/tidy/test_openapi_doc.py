"""docs/openapi-*.json are the descriptions that the processes give, and valid OpenAPI 3.1."""

from __future__ import annotations

import json

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from services.openapi import documents
from tests.tidy.tree import ROOT


@pytest.mark.parametrize("name", documents())
def test_the_description_in_docs_is_up_to_date(name: str) -> None:
    kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert kept == documents()[name], "make openapi writes it anew"


@pytest.mark.parametrize("name", documents())
def test_the_description_is_valid_openapi(name: str) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(json.loads(documents()[name])).iter_errors()] == []
