"""A real Prometheus beside real ranks and a real operator; without the builds of tests/cluster nothing of it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.prometheus import prometheus_server, scene
from tools.devcluster.tier import Tier
from tools.devcluster.tier import lacking as tier_lacks


@pytest.fixture(scope="session")
def tier() -> Iterator[Tier]:
    """A running API tier with four fake nodes; skips, with the reason, where it or Prometheus cannot be run."""
    if why := prometheus_server.lacking() or tier_lacks():
        pytest.skip(why)
    with Tier() as running:
        running.add_nodes(4)
        yield running


@pytest.fixture(scope="session")
def played(tier: Tier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[scene.Scene]:
    """A real run and a real operator's experiment, that a Prometheus has scraped from beginning to end."""
    with scene.scene(tier, tmp_path_factory.mktemp("scene")) as found:
        yield found
