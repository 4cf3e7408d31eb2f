"""What Prometheus makes of real pods, found by the chart's own scrape configuration, beside their records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from tests.cluster.applied import Applied
from tests.cluster.cli_desk import Desk
from tests.nodes.drills import of_mpi, of_one
from tests.prometheus import agreement, charted, prometheus_server
from tools.devcluster.nodes.cluster import RealCluster
from tools.devcluster.nodes.installed import CHART, NAMESPACE, Installed, helm

LINGER_S = 3
WINDOWS = {
    "warmupSteps": 2,
    "maxWarmupSteps": 4,
    "windows": 3,
    "stepsPerWindow": 30,
    "repetitions": 1,
    "maxForeignLoad": 1,
}

pytestmark = pytest.mark.timeout(1800)


@contextmanager
def scraped(release: Installed) -> Iterator[None]:
    """Let the ranks of this release stay up for a last scrape, each second."""
    _upgrade(release, "prometheusFiles.enabled=true", "podMonitor.interval=1s", f"podMonitor.lingerSeconds={LINGER_S}")
    yield
    _upgrade(release, "prometheusFiles.enabled=false")


def _upgrade(release: Installed, *values: str) -> None:
    helm(
        release.cluster.kubeconfig, "upgrade", "scalecurve", CHART, f"--namespace={NAMESPACE}", "--wait",
        "--reuse-values", *(f"--set={value}" for value in values),
    )  # fmt: skip


def test_throughput_by_prometheus_is_the_records(
    installed: Installed, any_cluster: RealCluster, team: str, tmp_path: Path, need_image: Any
) -> None:
    need_image("worker-mpi")
    if why := prometheus_server.lacking():
        pytest.skip(why)
    configs = charted.scrape_configs(
        any_cluster.kubeconfig, "--namespace", NAMESPACE, "--set", "podMonitor.interval=1s", "--set", "clusterWide=true"
    )
    trees = [of_mpi(team, measure=dict(WINDOWS), pool="one"), of_one(team, measure=dict(WINDOWS), pool="one")]
    for number, tree in enumerate(trees):
        tree["metadata"] = {"name": f"scraped-{number}", "namespace": team}
    desk = Desk(any_cluster, tmp_path, team)  # type: ignore[arg-type]
    with scraped(installed), prometheus_server.PrometheusServer(tmp_path, configs) as server:
        any_cluster.kubectl("apply", "-f", "-", text=json.dumps({"kind": "List", "apiVersion": "v1", "items": trees}))
        seen = 0
        for tree in trees:
            name = tree["metadata"]["name"]
            assert Applied(any_cluster, team, name).final(800)["phase"] == "Succeeded"  # type: ignore[arg-type]
            desk("pull", name, "--into", name)
            for trial in open_bundle(tmp_path / name).trials:
                assert trial.record is not None
                found = agreement.by_windows(trial.record, server.instant, LINGER_S)
                assert abs(found.difference) < 0.02, found
                seen += 1
    assert seen == 4
