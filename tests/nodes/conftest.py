"""One cluster of real nodes for a test run, one namespace for a test.

With CLUSTER=existing it is the cluster of $KUBECONFIG; tests that harm nodes are skipped there. $BUSYBOX names the
image of busybox that it has or can pull.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tools.devcluster.nodes import machine, small_images
from tools.devcluster.nodes.cluster import RealCluster
from tools.devcluster.nodes.existing import ExistingCluster
from tools.devcluster.nodes.image_store import archives_of
from tools.devcluster.nodes.installed import Installed, restricted_namespace

_NUMBERS = itertools.count()


def lacking() -> str | None:
    """Why there is no cluster for the tests, in one line; None when there is one."""
    if os.environ.get("CLUSTER") == "existing":
        return ExistingCluster().lacking()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return "a machine has one cluster of real nodes at a time: run tests/nodes with -n 0"
    if holder := machine.held():
        return f"{holder}, and CLUSTER=existing with its KUBECONFIG tests on them"
    return machine.lacking()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    why = lacking() if skipped else None
    if why and (count := sum(why in str(report.longrepr) for report in skipped)):
        terminalreporter.write_line(f"{count} tests on real nodes were skipped: {why}")


@pytest.fixture(scope="session")
def any_cluster() -> Iterator[RealCluster | ExistingCluster]:
    """A cluster with two nodes that tests do no harm to. Skips, with the reason, where there is none."""
    if why := lacking():
        pytest.skip(why)
    existing = os.environ.get("CLUSTER") == "existing"
    with ExistingCluster() if existing else RealCluster(2, [small_images.busybox(), *archives_of(())]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def real_cluster(any_cluster: RealCluster | ExistingCluster) -> RealCluster:
    """A cluster of ours. Skips with CLUSTER=existing."""
    if isinstance(any_cluster, ExistingCluster):
        pytest.skip("this needs nodes of our own, and CLUSTER=existing has the user's")
    return any_cluster


@pytest.fixture
def namespace(any_cluster: RealCluster | ExistingCluster) -> Iterator[str]:
    """A fresh namespace; deleted afterwards, which is not waited for."""
    name = any_cluster.namespace(f"test-{os.getpid()}-{next(_NUMBERS)}")
    yield name
    any_cluster.rest.raw("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def need_image() -> Callable[[str], None]:
    """Skips, with the reason, a test whose image is not built."""

    def need(name: str) -> None:
        try:
            archives_of([name])
        except ValueError as error:
            pytest.skip(str(error))

    return need


@pytest.fixture(scope="session")
def installed(any_cluster: RealCluster | ExistingCluster, need_image: Callable[[str], None]) -> Iterator[Installed]:
    """The operator as a pod, from `helm install`."""
    need_image("operator")
    with Installed(any_cluster, startingSeconds=3, **{"pools.drills": 20, "pools.one": 1}) as release:
        yield release


@pytest.fixture
def team(any_cluster: RealCluster | ExistingCluster) -> Iterator[str]:
    """As `namespace`, at Pod Security's `restricted` level."""
    name = restricted_namespace(any_cluster, f"test-{os.getpid()}-{next(_NUMBERS)}")
    yield name
    any_cluster.rest.raw("DELETE", f"/api/v1/namespaces/{name}")
