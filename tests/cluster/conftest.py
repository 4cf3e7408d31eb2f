"""One API tier for a test run, one namespace for a test.

With several workers of pytest-xdist say `--dist loadgroup`: these tests are one group, so that one tier serves them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from operator_process import OperatorProcess
from tier import Tier, lacking

HERE = Path(__file__).parent
_NUMBERS = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def tier() -> Iterator[Tier]:
    """A running API tier with four fake nodes of eight GPUs; skips, with the reason, where none can be had."""
    if why := lacking():
        pytest.skip(why)
    with Tier() as running:
        running.add_nodes(4)
        yield running


@pytest.fixture
def namespace(tier: Tier) -> Iterator[str]:
    """A fresh namespace; deleted afterwards, which is not waited for."""
    name = tier.namespace(f"test-{os.getpid()}-{next(_NUMBERS)}")
    yield name
    tier.rest.raw("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def operator(tier: Tier, namespace: str) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace, ready, with the rights of the chart's service account."""
    with OperatorProcess(tier, namespace) as running:
        yield running
