"""``TFJob`` of training-operator: workers that find one another by TF_CONFIG; with parameter servers, a chief as well.

A job of one pod gets no TF_CONFIG from the operator, so we set it: one worker must take the same code path as many.
Without AllWorkers the job would succeed with worker 0. If there is a chief the job ends with it, whatever the success
policy: workers and servers of a parameter server job never end by themselves.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.kubeflow import KubeflowRunner, replica_zero, replicas, with_deadline
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

TF_CONFIG = "TF_CONFIG"
PORT = 2222
"""The operator's own, ``tfjob-port``."""


class TFJob(KubeflowRunner):
    """Every pod that carries workers is a worker of TensorFlow's cluster."""

    runner = Runner.tf_job
    replica_specs = "tfReplicaSpecs"

    def render(self, request: JobRequest) -> Manifest:
        (container,) = self.runner.job_kind.containers
        servers = _servers(request)
        host = f"{request.job}-worker-0" if request.pods > 1 or servers else "localhost"
        env = {contract.COORDINATOR_ENV: f"{host}:{COORDINATOR_PORT}"}
        if request.pods == 1 and not servers:
            env[TF_CONFIG] = _single_worker_config()
        pods = {}
        if servers:
            # They compute nothing on devices: they get a worker's share of the host.
            resources = host_process_resources(request)
            # The chief keeps every worker's record, and serves their metrics.
            chief, server = (
                with_deadline(template(request, container, role, env=env, resources=resources, **fields), request)
                for role, fields in ((CHIEF, _ports(request)), (SERVER, {}))
            )
            pods = {"Chief": replicas(1, chief), "PS": replicas(servers, server)}
        worker = with_deadline(worker_template(request, container, env=env), request)
        pods["Worker"] = replicas(request.pods, worker)
        return self.job(request, pods, successPolicy="AllWorkers")

    def pods(self, request: JobRequest) -> int:
        """With parameter servers, these and a chief besides the workers."""
        servers = _servers(request)
        return request.pods + (1 + servers if servers else 0)

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return replica_zero(pods, "chief", "worker")


def _ports(request: JobRequest) -> dict[str, Any]:
    return {"ports": metrics_ports(request, request.trial.point.workers)} if request.metrics_port else {}


def _servers(request: JobRequest) -> int:
    """How many parameter servers there are; the chief is the other process that is no worker."""
    return max(0, len(request.trial.workload.roles) - 1)


def _single_worker_config() -> str:
    cluster = {"worker": [f"localhost:{PORT}"]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"})
