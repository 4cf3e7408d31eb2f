"""``JobSet``: batch/v1 Jobs that begin and end together, rendered wholly here.

It carries what otherwise needs mpi-operator or training-operator: ranks of torchrun, an MPI launcher beside workers
that run sshd, and TensorFlow's chief and parameter servers beside its workers.

- Names are short, because JobSet refuses one whose pods' names (``<job>-<set>-0-<index>-<5 letters>``) have more than
  63 characters.
- It ends with the launcher or chief if there is one. Its controller then deletes Jobs that are not over, with their
  pods; those that are over stay. So the pod whose failure ended it remains, as under a plain Job.
- A JobSet has no deadline, so each pod has one of its own, which the kubelet enforces, and which preserves the pod.
- Nobody makes an SSH key or a host file: pods derive the one from the attempt's secret, and the other from their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.mpi_job import launcher_template, sshd_template
from scalecurve_operator.runners.pod_status import labels_of, role_of
from scalecurve_operator.runners.pod_template import CHIEF, COORDINATOR_PORT, LAUNCHER, WORKER, worker_template
from scalecurve_operator.runners.runner_kind import JobStatus, Manifest, RunnerKind, conditions_of
from scalecurve_operator.runners.training_operator import server_count, server_templates

WORKERS, LEAD, SERVERS = "w", "lead", "ps"  # names of the sets


class JobSet(RunnerKind):
    """Set ``w`` carries the workers, ``lead`` the launcher or chief, ``ps`` the parameter servers."""

    runner = Runner.job_set

    def render(self, request: JobRequest) -> Manifest:
        """Pods of ``w`` are named for their index: all meet at the first."""
        hosts = f"{request.job}-{WORKERS}-0-{{}}.{request.job}"
        alone = request.pods == 1 and not _has_leader(request)
        meet = {contract.COORDINATOR_ENV: f"{'localhost' if alone else hosts.format(0)}:{COORDINATOR_PORT}"}
        meet |= {contract.HOSTS_ENV: hosts}
        worker = worker_template(request, "worker", env=meet)
        sets: list[Manifest] = []
        if _has_mpirun_launcher(request):
            worker = sshd_template(request, meet)
            sets = [_set(request, LEAD, 1, launcher_template(request, meet | {contract.POD_ROLE_ENV: LAUNCHER}))]
        elif servers := server_count(request):
            roles = [{**meet, contract.POD_ROLE_ENV: role} for role in (CHIEF, SERVERS)]
            chief, server = server_templates(request, "worker", *roles)
            sets = [_set(request, LEAD, 1, chief), _set(request, SERVERS, servers, server)]
        sets.insert(0, _set(request, WORKERS, request.pods, worker))
        spec: Manifest = {
            # Pods look for one another before any is ready.
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 0},
            **request.suspended,
            "replicatedJobs": sets,
        }
        if len(sets) > 1:
            spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [LEAD]}
        return request.manifest(self.runner, spec)

    def read(self, job: Mapping[str, Any]) -> JobStatus:
        """Running when every pod of every set is ready or done."""
        conditions, spec, status = conditions_of(job), job.get("spec") or {}, job.get("status") or {}
        released = conditions_of(job, "False").get("Suspended", {}).get("lastTransitionTime")
        for kind in ("Failed", "Completed"):
            if kind in conditions:
                return replace(JobStatus.ended(conditions[kind], succeeded=kind == "Completed"), resumed_at=released)
        sets = {entry["name"] for entry in spec.get("replicatedJobs") or ()}
        counts = status.get("replicatedJobsStatus") or ()
        up = {entry["name"] for entry in counts if entry.get("ready", 0) + entry.get("succeeded", 0)}
        return JobStatus.underway(job, spec.get("suspend"), bool(sets) and sets <= up)

    def trim(self, spec: Mapping[str, Any]) -> Manifest:
        suspend = {"suspend": spec["suspend"]} if "suspend" in spec else {}
        return {**suspend, "replicatedJobs": [{"name": entry["name"]} for entry in spec.get("replicatedJobs") or ()]}

    def pods(self, request: JobRequest) -> int:
        return request.pods + _has_leader(request) + server_count(request)

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        (index,) = self.runner.job_kind.index_labels
        leads = (pod for pod in pods if role_of(pod) in (LAUNCHER, CHIEF))
        first = (pod for pod in pods if role_of(pod) == WORKER and labels_of(pod).get(index, "0") == "0")
        return next(leads, None) or next(first, None)


def _has_mpirun_launcher(request: JobRequest) -> bool:
    return request.trial.workload.needs_mpirun is True


def _has_leader(request: JobRequest) -> bool:
    """Whether a pod without workers leads it: a launcher or a chief."""
    return _has_mpirun_launcher(request) or server_count(request) > 0


def _set(request: JobRequest, name: str, count: int, template: Manifest) -> Manifest:
    """One Job of ``count`` pods, none of which is restarted or replaced."""
    template["spec"] |= {"restartPolicy": "Never", "activeDeadlineSeconds": request.backstop_seconds}
    spec = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimit": 0,
        "template": template,
    }
    return {"name": name, "replicas": 1, "template": {"spec": spec}}
