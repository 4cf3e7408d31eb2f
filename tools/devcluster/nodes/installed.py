"""The operator as users have it: `helm install` of the chart, a pod on a real node, the namespace `restricted`."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.devcluster import toolchain
from tools.devcluster.nodes.cluster import RealCluster
from tools.devcluster.nodes.existing import ExistingCluster
from tools.devcluster.waiting import READY_S, wait_until
from tools.images import build as images
from tools.images import recipe

CHART = Path(__file__).parents[3] / "charts" / "scalecurve"
NAMESPACE = "scalecurve-system"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
PROGRAMS = {
    "torch": "worker-torch",
    "allreduce": "worker-torch",
    "collectives": "worker-torch",
    "tensorflow": "worker-tensorflow",
    "horovod": "worker-horovod",
    "custom": "worker-mpi",
}
"""program → image that its trials have here, where an experiment names none"""

Object = dict[str, Any]


class HelmError(RuntimeError):
    """What `helm` said."""


class Installed:
    """A release of the chart in a cluster that has its images."""

    def __init__(self, cluster: RealCluster | ExistingCluster, **values: str | int) -> None:
        self.cluster = cluster
        self._values = values

    def start(self) -> Self:
        """Install it, and wait until the operator is ready. Raises HelmError."""
        restricted_namespace(self.cluster, NAMESPACE)
        try:
            helm(
                self.cluster.kubeconfig, "install", "scalecurve", CHART, f"--namespace={NAMESPACE}", "--wait",
                f"--timeout={READY_S:g}s", *self._chosen(),
            )  # fmt: skip
        except HelmError as error:
            error.add_note(self.cluster.kubectl("-n", NAMESPACE, "describe", "pods"))
            raise
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.log()[-4000:])
        helm(self.cluster.kubeconfig, "uninstall", "scalecurve", f"--namespace={NAMESPACE}", "--wait")

    def _chosen(self) -> list[str]:
        repository, _, tag = images.reference("operator").rpartition(":")
        chosen = {"image.repository": repository, "image.tag": tag, "clusterWide": "true"}
        for program, name in PROGRAMS.items():
            repository, _, tag = images.reference(name).rpartition(":")
            chosen |= {f"workerImages.{program}.repository": repository, f"workerImages.{program}.tag": tag}
        return [f"--set={name}={value}" for name, value in {**chosen, **self._values}.items()]

    # -- use

    def pods(self) -> list[Object]:
        """The operator's pods, oldest first; none for a moment after one was deleted."""
        query = "labelSelector=app.kubernetes.io/component=operator"
        pods = self.cluster.rest.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{query}")["items"]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def log(self) -> str:
        """What its operator has logged, of its newest container."""
        return self.cluster.kubectl("-n", NAMESPACE, "logs", "deployment/scalecurve", "--tail=-1")

    def replace(self) -> None:
        """Kill the operator's pod at once; its Deployment makes another, which is ready when this returns."""
        before = [pod["metadata"]["name"] for pod in self.pods()]
        self.cluster.kubectl("-n", NAMESPACE, "delete", "pod", *before, "--grace-period=0", "--force")

        def another() -> bool:
            return any(_is_ready(pod) for pod in self.pods() if pod["metadata"]["name"] not in before)

        wait_until(another, "another operator")


def _is_ready(pod: Object) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return bool(statuses) and all(status.get("ready") for status in statuses)


def restricted_namespace(cluster: RealCluster | ExistingCluster, name: str) -> str:
    """A namespace at Pod Security's `restricted` level."""
    cluster.namespace(name)
    cluster.kubectl("label", "namespace", name, *(f"{key}={value}" for key, value in RESTRICTED.items()))
    return name


def helm(kubeconfig: Path, *arguments: str | Path) -> str:
    """Output of a helm command. Raises HelmError."""
    command = [str(toolchain.binary("helm")), *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HelmError(f"helm {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def image_of(workload: Object) -> str:
    """Which image of this repository a workload runs in."""
    given = str(workload.get("image", ""))
    named = [name for name in recipe.names() if given == images.reference(name)]
    return named[0] if named else PROGRAMS[workload.get("program", "torch")]
