"""Which suite a test belongs to, by what it needs: `make test` runs those that need no more than it installs."""

from __future__ import annotations

import os
import time

import pytest

SUITES = {
    "tests/chart/test_linters.py": "cluster",
    "tests/cluster/": "cluster",
    "tests/prometheus/": "cluster",
    "tests/images/test_archive": "nodes",
    "tests/images/test_built_images.py": "nodes",
    "tests/nodes/": "nodes",
    "tests/worker/tensorflow/": "frameworks",
    "tests/worker/extras/horovod/": "frameworks",
}
"""How a test's path begins → its suite; all others are `make test`'s."""
DEADLINE = "SCALECURVE_TEST_DEADLINE"
"""Unix seconds after which tests are left out, each saying so: CI has only so much time."""


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
        pytest.skip("left out: the time for this run is used up")
