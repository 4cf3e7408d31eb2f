"""The job kinds of training-operator.

- ``PyTorchJob``: a master and workers, each a pod of nprocPerNode ranks for torchrun. RANK and PET_NODE_RANK that the
  operator sets are the pod's index, and WORLD_SIZE counts ranks: right for torchrun only. The job succeeds with its
  master; the others are left running until it is deleted.
- ``TFJob``: workers that find one another by TF_CONFIG; with parameter servers, a chief as well. A job of one pod gets
  no TF_CONFIG from the operator, so we set it: one worker must take the same code path as many. Without AllWorkers the
  job would succeed with worker 0. If there is a chief the job ends with it, whatever the success policy: workers and
  servers of a parameter server job never end by themselves.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.kubeflow import KubeflowRunner, replicas
from scalecurve_operator.runners.pod_status import labels_of
from scalecurve_operator.runners.pod_template import (
    CHIEF,
    COORDINATOR_PORT,
    SERVER,
    host_process_resources,
    metrics_ports,
    template,
    worker_template,
)
from scalecurve_operator.runners.runner_kind import Manifest

_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_REPLICA_INDEX = "training.kubeflow.org/replica-index"
PORT = 2222  # the operator's own, ``tfjob-port``


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
        template = worker_template(request, container)
        pods = {"Master": _replicas(request, 1, template)}
        if request.pods > 1:
            pods["Worker"] = _replicas(request, request.pods - 1, template)
        return self.job(request, pods, nprocPerNode=str(request.workers_per_pod))

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return _replica_zero(pods, "master")


class TFJob(KubeflowRunner):
    """Every pod that carries workers is a worker of TensorFlow's cluster."""

    runner = Runner.tf_job
    replica_specs = "tfReplicaSpecs"

    def render(self, request: JobRequest) -> Manifest:
        (container,) = self.runner.job_kind.containers
        servers = server_count(request)
        host = f"{request.job}-worker-0" if request.pods > 1 or servers else "localhost"
        env = {contract.COORDINATOR_ENV: f"{host}:{COORDINATOR_PORT}"}
        if request.pods == 1 and not servers:
            cluster, task = {"worker": [f"localhost:{PORT}"]}, {"type": "worker", "index": 0}
            env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
        pods = {}
        if servers:
            chief, server = server_templates(request, container, env, env)
            pods = {"Chief": _replicas(request, 1, chief), "PS": _replicas(request, servers, server)}
        pods["Worker"] = _replicas(request, request.pods, worker_template(request, container, env=env))
        return self.job(request, pods, successPolicy="AllWorkers")

    def pods(self, request: JobRequest) -> int:
        servers = server_count(request)
        return request.pods + (1 + servers if servers else 0)

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return _replica_zero(pods, "chief", "worker")


def server_count(request: JobRequest) -> int:
    """How many parameter servers there are; the chief is the other process that is no worker."""
    return max(0, len(request.trial.workload.roles) - 1)


def server_templates(
    request: JobRequest, container: str, chief_env: Mapping[str, str], server_env: Mapping[str, str]
) -> tuple[Manifest, Manifest]:
    """Pods of chief and servers: they compute nothing on devices, and get a worker's share of the host."""
    resources = host_process_resources(request)
    # The chief keeps every worker's record, and serves their metrics.
    ports: dict[str, Any] = {"ports": metrics_ports(request, request.trial.point.workers)}
    fields = ports if request.metrics_port else {}
    chief = template(request, container, CHIEF, env=chief_env, resources=resources, **fields)
    return chief, template(request, container, SERVER, env=server_env, resources=resources)


def _replica_zero(pods: Sequence[Mapping[str, Any]], *roles: str) -> Mapping[str, Any] | None:
    """Replica 0 of the first of ``roles`` that exists."""
    for role in roles:
        for pod in pods:
            labels = labels_of(pod)
            if labels.get(_REPLICA_TYPE, "").lower() == role and labels.get(_REPLICA_INDEX, "0") == "0":
                return pod
    return None


def _replicas(request: JobRequest, count: int, template: Manifest) -> Manifest:
    """Pods with a deadline of their own, which the kubelet enforces, and which preserves the pod.

    training-operator 1.9 looks at the job's own only when something else happens to it: the queue that should wake it
    drops what is added for later (``FakeWorkQueue.AddAfter``), and a hung job outlives any deadline.
    """
    template["spec"]["activeDeadlineSeconds"] = request.backstop_seconds
    return replicas(count, template)
