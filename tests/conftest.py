"""Which suite a test belongs to, by what it needs, and what CI is told of each test.

`make test` runs the tests that need no more than it installs.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import settings

from tools.ci_summary import LEFT_OUT

SUITES = {
    "tests/chart/test_linters.py": "cluster",
    "tests/cluster/": "cluster",
    "tests/prometheus/": "cluster",
    "tests/images/test_archive": "nodes",
    "tests/images/test_built_images.py": "nodes",
    "tests/nodes/": "nodes",
    "tests/worker/tensorflow/": "frameworks",
    "tests/worker/extras/horovod/": "frameworks",
    "tests/worker/integrations/real/": "integrations",
    "tests/worker/torch/test_equal_losses.py::test_deepspeed": "integrations",
    "tests/analysis/importing/test_run_files.py::test_tensorboards_own": "integrations",
    "tests/analysis/timelines/test_mlflow_export.py::test_each_session": "integrations",
}
"""How a test's path begins → its suite; all others are `make test`'s."""
DEADLINE = "SCALECURVE_TEST_DEADLINE"
"""Unix seconds after which tests are left out, each saying so: CI has only so much time."""
LOG = "SCALECURVE_TEST_LOG"
"""A file to which every test's outcome and duration is appended, for `tools.ci_summary`."""

# How long an example takes says how busy the machine is.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        suite = next((suite for path, suite in SUITES.items() if item.nodeid.startswith(path)), None)
        # An API server for the operator's unit tests brings training-operator's webhooks along.
        if suite is None and item.nodeid.startswith("tests/operator/") and "tier" in getattr(item, "fixturenames", ()):
            suite = "cluster"
        if suite is not None:
            item.add_marker(suite)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(DEADLINE, "inf")):
        pytest.skip(LEFT_OUT)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get(LOG)
    if path is None or os.environ.get("PYTEST_XDIST_WORKER"):
        return
    why = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    line = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 3), "why": why}
    with Path(path).open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig but what a test writes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
