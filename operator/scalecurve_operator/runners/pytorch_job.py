"""``PyTorchJob`` of training-operator: a master and workers, each a pod of nprocPerNode ranks for torchrun.

RANK and PET_NODE_RANK that the operator sets are the pod's index, and WORLD_SIZE counts ranks: right for torchrun only.
The job succeeds with its master; the others are left running until it is deleted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.kubeflow import KubeflowRunner, replica_zero, replicas, with_deadline
from scalecurve_operator.runners.pod_template import worker_template
from scalecurve_operator.runners.runner_kind import Manifest


class PyTorchJob(KubeflowRunner):
    """Pod 0 is the master.

    With more than one pod the operator adds an init container to each worker, which looks up the master; it satisfies
    Pod Security ``restricted`` only if the operator was configured with a template for it.
    """

    runner = Runner.pytorch_job
    replica_specs = "pytorchReplicaSpecs"

    def render(self, request: JobRequest) -> Manifest:
        """restartPolicy Never keeps it from retrying; the default OnFailure would not."""
        (container,) = self.runner.job_kind.containers
        template = with_deadline(worker_template(request, container), request)
        pods = {"Master": replicas(1, template)}
        if request.pods > 1:
            pods["Worker"] = replicas(request.pods - 1, template)
        return self.job(request, pods, nprocPerNode=str(request.workers_per_pod))

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return replica_zero(pods, "master")
