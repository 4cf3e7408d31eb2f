"""One API tier for a test run, one namespace for a test.

With pytest-xdist every worker that meets such a test starts a tier of its own, which works and is slower: the groups
that would keep them together (`--dist loadgroup`) are without effect in pytest-xdist 3.8 with pytest 9.2.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.cluster.operator_process import OperatorProcess
from tools.devcluster.operators import JOBSET, OPERATORS, TRAINER
from tools.devcluster.tier import Tier, lacking

ALL = (*OPERATORS, JOBSET, TRAINER)
"""Every runner's operator."""
_NUMBERS = itertools.count()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if (why := lacking(ALL)) and (count := sum(why in str(report.longrepr) for report in skipped)):
        terminalreporter.write_line(f"{count} tests on a real Kubernetes API were skipped: {why}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, where the job operators are not built. What `make test` runs here does without them."""
    if item.get_closest_marker("alone") is None and (why := lacking(ALL)):
        pytest.skip(why)


@pytest.fixture(scope="session")
def tier() -> Iterator[Tier]:
    """A running API tier with four fake nodes of eight GPUs, and with every job operator if they are built."""
    if why := lacking(()):
        pytest.skip(why)
    with Tier(operators=() if lacking(ALL) else ALL) as running:
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
