"""``TrainJob`` of Kubeflow Trainer v2, on a runtime of the platform's.

The runtime's pods stay as the platform has them, with its claims, sidecars and tolerations; an attempt adds what it
needs through ``trainer`` and ``runtimePatches``, and refuses what these cannot say.

- Stock runtimes restart what fails (restartPolicy OnFailure, backoffLimit 6), and no patch changes that. So a pod that
  fails ends the attempt, and one that ran again makes it Invalid.
- Trainer makes a JobSet of the same name, whose set ``node`` carries the workers.
- Kueue 0.19 knows the patches of Trainer 2.2: when it admits a TrainJob it writes the object back without fields that
  are newer, and Trainer's JobSet, which may not change, refuses the difference. So these are not set beside a queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.experiment import TrainingRuntime
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest, JobRequestError
from scalecurve_operator.runners.pod_status import labels_of
from scalecurve_operator.runners.pod_template import COORDINATOR_PORT, worker_template
from scalecurve_operator.runners.runner_kind import JobStatus, Manifest, RunnerKind, conditions_of

NODE = "node"  # the set and the container that Trainer fills in
_MANAGER = "scalecurve.dev/operator"
_PATCHED = (
    *("serviceAccountName", "volumes", "imagePullSecrets", "securityContext", "nodeSelector", "affinity"),
    *("tolerations", "schedulingGates", "terminationGracePeriodSeconds"),
)
_LOST_IN_A_QUEUE = ("terminationGracePeriodSeconds",)
_LEFT_TO_THE_RUNTIME = ("containers", "automountServiceAccountToken", "enableServiceLinks")
_OF_THE_TRAINER = ("name", "image", "command", "env", "resources", "terminationMessagePolicy", "ports")
_PATCHED_OF_MAIN = ("volumeMounts", "securityContext")
_MAX_POD_NAME = 63


class TrainJob(RunnerKind):
    """Each node of Trainer's is a pod of ours."""

    runner = Runner.train_job

    def render(self, request: JobRequest) -> Manifest:
        """JobRequestError for what no patch of a runtime can say."""
        pods = request.pods
        if len(f"{request.job}-{NODE}-0-{pods - 1}-abcde") > _MAX_POD_NAME:
            raise JobRequestError(f"metadata.name: pods of TrainJob {request.job} would have too long names")
        hosts = f"{request.job}-{NODE}-0-{{}}.{request.job}"
        meet = {contract.COORDINATOR_ENV: f"{hosts.format(0) if pods > 1 else 'localhost'}:{COORDINATOR_PORT}"}
        made = worker_template(request, NODE, env=meet | {contract.HOSTS_ENV: hosts})
        pod, (main, *others) = made["spec"], made["spec"]["containers"]
        beyond = [f"{other['name']} in containers" for other in others]
        beyond += [name for name in pod if name not in (*_PATCHED, *_LEFT_TO_THE_RUNTIME)]
        beyond += [name for name in main if name not in (*_OF_THE_TRAINER, *_PATCHED_OF_MAIN)]
        if request.spec.queue:
            theirs = request.spec.pod.template.get("spec") or {}
            beyond += [f"{name} beside spec.queue" for name in _LOST_IN_A_QUEUE if name in theirs]
        if beyond:
            problem = f"a TrainJob cannot set {', '.join(beyond)}"
            raise JobRequestError(f"spec.pod: {problem}; put it into the training runtime, or use runner JobSet")
        lost = _LOST_IN_A_QUEUE if request.spec.queue else ()
        patch = {name: pod[name] for name in _PATCHED if name in pod and name not in lost}
        patch["containers"] = [{"name": NODE, **{name: main[name] for name in _PATCHED_OF_MAIN if name in main}}]
        template = {"metadata": made["metadata"], "spec": patch}
        node = {"name": NODE, "template": {"spec": {"template": template}}}
        runtime = request.spec.training_runtime or TrainingRuntime()
        spec = {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": runtime.kind, "name": runtime.name},
            "activeDeadlineSeconds": request.backstop_seconds,
            **request.suspended,
            "trainer": {
                "numNodes": pods,
                "numProcPerNode": request.workers_per_pod,
                "image": main["image"],
                "command": main["command"],
                "env": main["env"],
                **({"resourcesPerNode": main["resources"]} if main["resources"] else {}),
            },
            "runtimePatches": [
                {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [node]}}}}
            ],
        }
        return request.manifest(self.runner, spec)

    def read(self, job: Mapping[str, Any]) -> JobStatus:
        """Running when the pods of ``node`` are ready or done."""
        conditions = conditions_of(job)
        released = conditions_of(job, "False").get("Suspended", {}).get("lastTransitionTime")
        for kind in ("Failed", "Complete"):
            if kind in conditions:
                return replace(JobStatus.ended(conditions[kind], succeeded=kind == "Complete"), resumed_at=released)
        entries = (job.get("status") or {}).get("jobsStatus") or ()
        up = any(entry["name"] == NODE and (entry.get("ready") or entry.get("succeeded")) for entry in entries)
        return JobStatus.underway(job, (job.get("spec") or {}).get("suspend"), up)

    def trim(self, spec: Mapping[str, Any]) -> Manifest:
        return {"suspend": spec["suspend"]} if "suspend" in spec else {}

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        (index,) = self.runner.job_kind.index_labels
        return next((pod for pod in pods if labels_of(pod).get(index, "0") == "0"), None)
