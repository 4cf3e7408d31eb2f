"""What the job kinds of kubeflow.org have in common: replicas by role, a run policy, conditions.

None of their conditions says why a run failed; that is read from the pods, which cleanPodPolicy None preserves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scalecurve_api.spec.trial import FailedReason
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.runner_kind import JobStatus, Manifest, RunnerKind, conditions_of


class KubeflowRunner(RunnerKind):
    """A job kind with ``replica_specs``, the field that holds its replicas by role."""

    replica_specs: str

    def job(
        self, request: JobRequest, replicas: Mapping[str, Any], run_policy: Mapping[str, Any] = {}, **spec: Any
    ) -> Manifest:
        """A job whose pods stay when it ends, so that their logs can be collected; the collector deletes it.

        cleanPodPolicy Running was seen to delete failed pods too, and workers that end just after their master.

        No backoffLimit here: restartPolicy Never keeps a pod from starting twice, and training-operator before 1.9.4
        deletes all pods of a job that reaches its backoffLimit, whatever cleanPodPolicy says (kubeflow/trainer#3419).
        """
        policy = {"cleanPodPolicy": "None", "activeDeadlineSeconds": request.backstop_seconds, **run_policy}
        policy |= request.suspended
        return request.manifest(self.runner, {"runPolicy": policy, **spec, self.replica_specs: dict(replicas)})

    def read(self, job: Mapping[str, Any]) -> JobStatus:
        """By conditions and counts.

        The operators' own condition Running comes with the first pod, and after a short run may never come.
        """
        released = conditions_of(job, "False").get("Suspended", {})
        return replace(self._read(job), resumed_at=released.get("lastTransitionTime"))

    def trim(self, spec: Mapping[str, Any]) -> Manifest:
        suspend = (spec.get("runPolicy") or {}).get("suspend")
        roles = (spec.get(self.replica_specs) or {}).items()
        counts = {role: {"replicas": replica.get("replicas", 1)} for role, replica in roles}
        return {"runPolicy": {} if suspend is None else {"suspend": suspend}, self.replica_specs: counts}

    def _read(self, job: Mapping[str, Any]) -> JobStatus:
        conditions, spec, status = conditions_of(job), job.get("spec") or {}, job.get("status") or {}
        # A job of which one replica failed and another succeeded can have both.
        if "Failed" in conditions:
            return _add_failure_reason(JobStatus.ended(conditions["Failed"], succeeded=False))
        if "Succeeded" in conditions:
            return JobStatus.ended(conditions["Succeeded"], succeeded=True)
        counts = {name: counts or {} for name, counts in (status.get("replicaStatuses") or {}).items()}
        up = {name: count.get("active", 0) + count.get("succeeded", 0) for name, count in counts.items()}
        expected = {name: replica.get("replicas", 1) for name, replica in (spec.get(self.replica_specs) or {}).items()}
        all_up = bool(expected) and all(up.get(name, 0) >= count for name, count in expected.items())
        return JobStatus.underway(job, (spec.get("runPolicy") or {}).get("suspend"), all_up)


def replicas(count: int, template: Mapping[str, Any]) -> dict[str, Any]:
    """Pods of one role; none is restarted."""
    return {"replicas": count, "restartPolicy": "Never", "template": dict(template)}


def _add_failure_reason(status: JobStatus) -> JobStatus:
    # training-operator reports a deadline only in the message, mpi-operator an eviction by its own reason.
    if "active longer than specified deadline" in status.message:
        return replace(status, reason=FailedReason.deadline_exceeded)
    if status.message.startswith("MPIJobEvicted"):
        return replace(status, reason=FailedReason.evicted)
    return status
