"""``Job``: an indexed batch/v1 Job with a headless Service. Every cluster has it.

A Job that fails deletes its running pods, which are gone within their grace period. Until the Job is deleted there
remain the pod whose failure ended it (and any that had ended before), with exit code, termination message and log. So a
failure is best read at its first sign, the condition FailureTarget. When the deadline ends a Job nothing remains of its
running pods, so the operator ends it earlier.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, TRIAL_LABEL
from scalecurve_kube.resources import SERVICES
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.pod_template import COORDINATOR_PORT, worker_template
from scalecurve_operator.runners.runner_kind import JobStatus, Manifest, RunnerKind, conditions_of


class IndexedJob(RunnerKind):
    """Pod i carries the workers from i * workers_per_pod on; all find pod 0 by its name under the Service."""

    runner = Runner.job

    def render(self, request: JobRequest) -> Manifest:
        """The Job's controller numbers the pods and names their hosts ``<job>-<index>``."""
        pods = request.pods
        host = f"{request.job}-0.{request.job}" if pods > 1 else "localhost"
        template = worker_template(request, "worker", env={contract.COORDINATOR_ENV: f"{host}:{COORDINATOR_PORT}"})
        template["spec"]["restartPolicy"] = "Never"
        if pods > 1:
            template["spec"]["subdomain"] = request.job
        spec = {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "activeDeadlineSeconds": request.backstop_seconds,
            **request.suspended,
            "template": template,
        }
        return request.manifest(self.runner, spec)

    def companions(self, request: JobRequest, job: Mapping[str, Any]) -> list[Manifest]:
        """The Service that gives the pods their names, if there are several."""
        if request.pods == 1:
            return []
        service = SERVICES.body(name=request.job, namespace=request.namespace, labels=request.labels)
        service["spec"] = {
            "clusterIP": "None",
            # Pods look for one another before any is ready.
            "publishNotReadyAddresses": True,
            "selector": {TRIAL_LABEL: request.trial_object, ATTEMPT_LABEL: str(request.attempt)},
        }
        return [service]

    def read(self, job: Mapping[str, Any]) -> JobStatus:
        """Ended at the first sign of it; running when every pod is ready or done."""
        conditions, spec, status = conditions_of(job), job.get("spec") or {}, job.get("status") or {}
        for kind in ("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"):
            if kind in conditions:
                return JobStatus.ended(conditions[kind], succeeded=kind in ("Complete", "SuccessCriteriaMet"))
        up = status.get("ready", 0) + status.get("succeeded", 0)
        return JobStatus.underway(job, spec.get("suspend"), up >= spec.get("completions", 1))

    def trim(self, spec: Mapping[str, Any]) -> Manifest:
        return {name: spec[name] for name in ("suspend", "completions") if name in spec}

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return next((pod for pod in pods if _index(pod) == "0"), None)


def _index(pod: Mapping[str, Any]) -> str | None:
    metadata, (label,) = pod["metadata"], Runner.job.job_kind.index_labels
    index = (metadata.get("labels") or {}).get(label) or (metadata.get("annotations") or {}).get(label)
    return None if index is None else str(index)
