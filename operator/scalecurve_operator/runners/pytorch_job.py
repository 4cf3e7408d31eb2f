"""``PyTorchJob`` of training-operator: a master and workers, each a pod of nprocPerNode ranks for torchrun.

RANK and PET_NODE_RANK that the operator sets are the pod's index, and WORLD_SIZE counts ranks: right for torchrun only.
The job succeeds with its master; the others are left running until it is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_operator.runners import kubeflow
from scalecurve_operator.runners.job_state import Reading
from scalecurve_operator.runners.pod_template import worker_template
from scalecurve_operator.runners.request import Request
from scalecurve_operator.runners.runner_kind import Manifest

_REPLICAS = "pytorchReplicaSpecs"


class PyTorchJob:
    """Pod 0 is the master.

    With more than one pod the operator puts an init container of its own before each worker, which looks the master up;
    it fits Pod Security ``restricted`` only where the operator was given a template for it.
    """

    kind = "PyTorchJob"
    group = kubeflow.GROUP
    version = "v1"
    plural = "pytorchjobs"

    def render(self, request: Request) -> Manifest:
        """The job; restartPolicy Never is what keeps it from retrying, and its default OnFailure would."""
        template = with_deadline(worker_template(request, "pytorch"), request)
        pods = {"Master": kubeflow.replicas(1, template)}
        if request.pods > 1:
            pods["Worker"] = kubeflow.replicas(request.pods - 1, template)
        spec = {"nprocPerNode": str(request.workers_per_pod), _REPLICAS: pods}
        return kubeflow.job(self.kind, self.version, request, spec)

    def companions(self, request: Request, job: Mapping[str, Any]) -> list[Manifest]:
        """None: the operator makes a Service for every pod."""
        return []

    def read(self, job: Mapping[str, Any]) -> Reading:
        """By conditions and counts."""
        return kubeflow.read(job, _REPLICAS)

    def pods(self, request: Request) -> int:
        """As many as carry workers."""
        return request.pods

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The master."""
        return kubeflow.replica(pods, "master")


def with_deadline(template: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The deadline on the pod itself, where the kubelet keeps it, and the pod with what it left stays.

    training-operator 1.9 looks at the job's own only when something else happens to it: the queue that should wake it
    drops what is added for later (``FakeWorkQueue.AddAfter``), and a hung job outlives any deadline.
    """
    return {**template, "spec": {**template["spec"], "activeDeadlineSeconds": request.backstop_seconds}}
