"""The chart's tests: helm and linters where they are built, and an API server without our CRDs."""

from collections.abc import Iterator

import pytest

from tests.chart.rendering import lacking
from tools.devcluster.tier import Tier
from tools.devcluster.tier import lacking as tier_lacks


@pytest.fixture(scope="session")
def helm() -> None:
    """Skips, with the reason, where there is no helm."""
    if why := lacking("helm", "k8s"):
        pytest.skip(why)


@pytest.fixture(scope="module")
def tier(helm: None) -> Iterator[Tier]:
    """A control plane without CRDs and without job operators, with one fake node for the operator's pod."""
    if why := tier_lacks(operators=()):
        pytest.skip(why)
    with Tier(operators=(), crds=()) as running:
        running.add_nodes(1)
        yield running
