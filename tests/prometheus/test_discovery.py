"""The chart's scrape configuration finds the pods of trials on a real API server, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.applied import Applied, manifest
from tests.cluster.operator_process import OperatorProcess
from tests.prometheus import charted
from tests.prometheus.prometheus_server import PrometheusServer
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

LABELS = ("namespace", "node", "attempt", "container")


def pods(tier: Tier, namespace: str, role: str) -> dict[str, str]:
    """Pods of a role → their nodes."""
    found = tier.rest.call("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector=scalecurve.dev/role={role}")
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found["items"]}


@pytest.mark.parametrize("runner", [Runner.job, Runner.mpi_job])
def test_every_worker_of_every_pod_is_a_target(tier: Tier, tmp_path: Path, runner: Runner) -> None:
    namespace = tier.namespace(f"discovery-{runner.value.lower()}")
    configs = charted.scrape_configs(tier.kubeconfig, "--set", f"namespaces={{{namespace}}}")
    with OperatorProcess(tier, namespace), PrometheusServer(tmp_path, configs) as prometheus:
        tier.rest.apply(f"/api/v1/namespaces/{namespace}/pods/other", yaml.safe_dump(OTHER).encode())
        experiment = manifest(namespace, runner=runner, workers=(2, 4), seconds=600, parallelism=2)
        experiment["spec"]["placement"] = {"workersPerNode": 2}
        applied = Applied.apply(tier, experiment)

        def targets() -> dict[tuple[str, str], dict[str, str]]:
            return {
                (each["labels"]["pod"], each["labels"]["instance"].rpartition(":")[2]): each["labels"]
                for each in prometheus.targets()
                if each["labels"]["job"] == "scalecurve-trials"
            }

        def all_found() -> bool:
            workers = pods(tier, namespace, "worker")
            return len(workers) == 3 and all(workers.values()) and len(targets()) >= 6

        wait_until(all_found, "a target for every worker", 120)
        workers = pods(tier, namespace, "worker")
        found = targets()
        assert set(found) == {(pod, port) for pod in workers for port in ("9400", "9401")}
        for (pod, _), labels in found.items():
            assert {name: labels[name] for name in LABELS} == {
                "namespace": namespace,
                "node": workers[pod],
                "attempt": "1",
                "container": "worker",
            }
        if runner is Runner.mpi_job:
            assert pods(tier, namespace, "launcher"), "no launcher to leave out"
        tier.rest.raw("DELETE", applied.path)


OTHER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "other"},
    "spec": {
        "containers": [{"name": "web", "image": "played", "ports": [{"name": "metrics-0", "containerPort": 9400}]}]
    },
}
"""Somebody's pod whose port has such a name too."""
