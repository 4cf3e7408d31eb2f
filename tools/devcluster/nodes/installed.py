"""The operator as users have it: `helm install` of the chart, a pod on a real node, the namespace `restricted`."""

from pathlib import Path
from typing import Any, Self

from tools.devcluster import toolchain
from tools.devcluster.components import CommandFailed, output
from tools.devcluster.rest import RunningCluster
from tools.devcluster.waiting import READY_S
from tools.images import archives as images

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


class Installed:
    """A release of the chart in a cluster that has its images."""

    def __init__(self, cluster: RunningCluster, **values: str | int) -> None:
        self.cluster = cluster
        self._values = values

    def start(self) -> Self:
        """Install it, and wait until the operator is ready. Raises CommandFailed."""
        restricted_namespace(self.cluster, NAMESPACE)
        try:
            helm(
                self.cluster.kubeconfig, "install", "scalecurve", CHART, f"--namespace={NAMESPACE}", "--wait",
                f"--timeout={READY_S:g}s", *self._helm_options(),
            )  # fmt: skip
        except CommandFailed as error:
            error.add_note(self.cluster.kubectl("-n", NAMESPACE, "describe", "pods"))
            raise
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(self.log()[-4000:])
        helm(self.cluster.kubeconfig, "uninstall", "scalecurve", f"--namespace={NAMESPACE}", "--wait")

    def _helm_options(self) -> list[str]:
        repository, _, tag = images.reference("operator").rpartition(":")
        chosen = {"image.repository": repository, "image.tag": tag, "clusterWide": "true"}
        for program, name in PROGRAMS.items():
            repository, _, tag = images.reference(name).rpartition(":")
            chosen |= {f"workerImages.{program}.repository": repository, f"workerImages.{program}.tag": tag}
        return [f"--set={name}={value}" for name, value in {**chosen, **self._values}.items()]

    def log(self) -> str:
        """What its operator has logged, of its newest container."""
        return self.cluster.kubectl("-n", NAMESPACE, "logs", "deployment/scalecurve", "--tail=-1")


def restricted_namespace(cluster: RunningCluster, name: str) -> str:
    """A namespace at Pod Security's `restricted` level."""
    cluster.namespace(name)
    cluster.kubectl("label", "namespace", name, *(f"{key}={value}" for key, value in RESTRICTED.items()))
    return name


def helm(kubeconfig: Path, *arguments: str | Path) -> str:
    """Output of a helm command. Raises CommandFailed."""
    return output(toolchain.binary("helm"), *arguments, environment={"KUBECONFIG": str(kubeconfig)})


def image_of(workload: Object) -> str:
    """Which image of this repository a workload runs in."""
    given = str(workload.get("image", ""))
    named = [name for name in images.targets() if given == images.reference(name)]
    return named[0] if named else PROGRAMS[workload.get("program", "torch")]
