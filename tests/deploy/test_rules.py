"""Prometheus's own tool on our files, and the rules on counters whose ratios are known."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.deploy.engine import ROOT, run

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)


def test_prometheus_can_read_its_files() -> None:
    run(["promtool", "check", "config", "--lint-fatal", "services/prometheus/prometheus.yml"], os.environ)


def test_rules_and_alerts_say_what_they_should() -> None:
    said = run(["promtool", "test", "rules", str(ROOT / "tests" / "deploy" / "prometheus_rules.yml")], os.environ)
    assert "SUCCESS" in said
