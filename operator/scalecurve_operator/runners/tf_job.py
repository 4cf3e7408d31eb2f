"""``TFJob`` of training-operator: workers that find one another by TF_CONFIG; for parameter servers a chief besides.

A job of one pod gets no TF_CONFIG from the operator, so it is given here: one worker must not run by other code paths
than many. Without AllWorkers the job would succeed with worker 0. Where there is a chief the job ends with it, whatever
the success policy: workers and servers of a parameter server job never end by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.programs.processes import asides
from scalecurve_operator.runners import kubeflow
from scalecurve_operator.runners.job_state import Reading
from scalecurve_operator.runners.pod_template import (
    CHIEF,
    COORDINATOR_PORT,
    SERVER,
    for_one_host_process,
    metrics_ports,
    template,
    worker_template,
)
from scalecurve_operator.runners.pytorch_job import with_deadline
from scalecurve_operator.runners.request import Request
from scalecurve_operator.runners.runner_kind import Manifest

CONTAINER = "tensorflow"
TF_CONFIG = "TF_CONFIG"
PORT = 2222
"""The operator's own, ``tfjob-port``."""
_REPLICAS = "tfReplicaSpecs"


class TFJob:
    """Every pod that carries workers is a worker of TensorFlow's cluster."""

    kind = "TFJob"
    group = kubeflow.GROUP
    version = "v1"
    plural = "tfjobs"

    def render(self, request: Request) -> Manifest:
        """The job; no pod is restarted, so a failed one fails it."""
        served = _served(request)
        host = f"{request.job}-worker-0" if request.pods > 1 or served else "localhost"
        env = {contract.COORDINATOR_ENV: f"{host}:{COORDINATOR_PORT}"}
        if request.pods == 1 and not served:
            env[TF_CONFIG] = _alone()
        pods = {}
        if served:
            # They compute nothing on devices: a worker's share of the host each.
            resources = for_one_host_process(request)
            # The chief keeps every worker's record, and serves their metrics.
            chief, server = (
                with_deadline(template(request, CONTAINER, role, env=env, resources=resources, **more), request)
                for role, more in ((CHIEF, _ports(request)), (SERVER, {}))
            )
            pods = {"Chief": kubeflow.replicas(1, chief), "PS": kubeflow.replicas(_servers(request), server)}
        worker = with_deadline(worker_template(request, CONTAINER, env=env), request)
        pods["Worker"] = kubeflow.replicas(request.pods, worker)
        spec = {"successPolicy": "AllWorkers", _REPLICAS: pods}
        return kubeflow.job(self.kind, self.version, request, spec)

    def companions(self, request: Request, job: Mapping[str, Any]) -> list[Manifest]:
        """None: the operator makes a Service for every pod."""
        return []

    def read(self, job: Mapping[str, Any]) -> Reading:
        """By conditions and counts."""
        return kubeflow.read(job, _REPLICAS)

    def pods(self, request: Request) -> int:
        """Those that carry workers; with parameter servers these and a chief besides."""
        return request.pods + (1 + _servers(request) if _served(request) else 0)

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The chief, else worker 0."""
        return kubeflow.replica(pods, "chief", "worker")


def _ports(request: Request) -> dict[str, Any]:
    return {"ports": metrics_ports(request, request.trial.point.workers)} if request.metrics_port else {}


def _served(request: Request) -> bool:
    return bool(asides(request.trial.workload))


def _servers(request: Request) -> int:
    """As many as the experiment asks for: ``workload.parameterServer.servers``."""
    return len(asides(request.trial.workload)) - 1


def _alone() -> str:
    cluster = {"worker": [f"localhost:{PORT}"]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"})
