"""``Job``: an indexed batch/v1 Job with a headless Service. Every cluster has it.

A Job that fails deletes its pods that still run, and they are gone within their grace period. What survives until the
Job is deleted: the pod whose failure ended it (and any that had ended before), with exit code, termination message and
log. So a failure is best read at its first sign, the condition FailureTarget; when the deadline ends a Job nothing of
its running pods survives, so the operator comes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract, lifecycle
from scalecurve_api.spec import object_names as objects
from scalecurve_operator.runners.job_state import Reading, conditions, ended
from scalecurve_operator.runners.kueue import queue_labels
from scalecurve_operator.runners.pod_template import COORDINATOR_PORT, worker_template
from scalecurve_operator.runners.request import Request
from scalecurve_operator.runners.runner_kind import Manifest

INDEX = "batch.kubernetes.io/job-completion-index"


class IndexedJob:
    """Pod i holds the workers from i times workers-a-pod on; all find pod 0 by its name under the Service."""

    kind = "Job"
    group = "batch"
    version = "v1"
    plural = "jobs"

    def render(self, request: Request) -> Manifest:
        """The Job; its controller numbers the pods and names their hosts ``<job>-<index>``."""
        pods = request.pods
        host = f"{request.job}-0.{request.job}" if pods > 1 else "localhost"
        template = worker_template(request, "worker", env={contract.COORDINATOR_ENV: f"{host}:{COORDINATOR_PORT}"})
        template["spec"]["restartPolicy"] = "Never"
        if pods > 1:
            template["spec"]["subdomain"] = request.job
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": request.job,
                "namespace": request.namespace,
                "labels": {**request.labels, **queue_labels(request)},
            },
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "activeDeadlineSeconds": request.backstop_seconds,
                **({"suspend": True} if request.spec.queue else {}),
                "template": template,
            },
        }

    def companions(self, request: Request, job: Mapping[str, Any]) -> list[Manifest]:
        """The Service that gives the pods their names, where there is more than one."""
        if request.pods == 1:
            return []
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": request.job, "namespace": request.namespace, "labels": request.labels},
            "spec": {
                "clusterIP": "None",
                # Pods look for one another before any is ready.
                "publishNotReadyAddresses": True,
                "selector": {
                    objects.TRIAL_LABEL: request.trial_object,
                    objects.ATTEMPT_LABEL: str(request.attempt),
                },
            },
        }
        return [service]

    def read(self, job: Mapping[str, Any]) -> Reading:
        """Ended at the first sign of it; running when every pod is ready or done."""
        holds = conditions(job)
        for kind in ("Complete", "SuccessCriteriaMet"):
            if kind in holds:
                return ended(job, holds[kind], succeeded=True)
        for kind in ("Failed", "FailureTarget"):
            if kind in holds:
                return ended(job, holds[kind], succeeded=False)
        spec, status = job.get("spec") or {}, job.get("status") or {}
        if spec.get("suspend"):
            return Reading(lifecycle.Job.queued, message="suspended: waits to be admitted")
        there = status.get("ready", 0) + status.get("succeeded", 0)
        running = there >= spec.get("completions", 1)
        return Reading(lifecycle.Job.running if running else lifecycle.Job.starting)

    def pods(self, request: Request) -> int:
        """As many as carry workers."""
        return request.pods

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Pod 0."""
        return next((pod for pod in pods if _index(pod) == "0"), None)


def _index(pod: Mapping[str, Any]) -> str | None:
    metadata = pod["metadata"]
    found = (metadata.get("labels") or {}).get(INDEX) or (metadata.get("annotations") or {}).get(INDEX)
    return None if found is None else str(found)
