"""``JAXJob`` rendered; its status is read as that of every job of kubeflow.org."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.kubeflow import KubeflowRunner, replicas
from scalecurve_operator.runners.pod_status import labels_of
from scalecurve_operator.runners.pod_template import COORDINATOR_PORT, worker_template
from scalecurve_operator.runners.runner_kind import Manifest


class JAXJob(KubeflowRunner):
    """Pod i is worker i; all find worker 0 by its name."""

    runner = Runner("JAXJob")
    replica_specs = "jaxReplicaSpecs"

    def render(self, request: JobRequest) -> Manifest:
        """Give every pod the address of the first."""
        (container,) = self.runner.job_kind.containers
        env = {contract.COORDINATOR_ENV: f"{request.job}-worker-0:{COORDINATOR_PORT}"}
        template = worker_template(request, container, env=env)
        return self.job(request, {"Worker": replicas(request.pods, template)})

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return next((pod for pod in pods if labels_of(pod).get("training.kubeflow.org/replica-index") == "0"), None)


JAX_JOB = JAXJob()
