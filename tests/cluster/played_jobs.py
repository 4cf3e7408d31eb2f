"""One attempt of a trial as a job in a tier, rendered by the operator's own runners: what a controller would create."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scalecurve_api.lifecycle import Job
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import trial_name
from scalecurve_kube.resources import resource_of
from scalecurve_operator.runners import JobRequest, JobStatus, Manifest, RunnerKind, runner_for
from tests.waiting import eventually
from tools.devcluster.tier import Tier

PROGRAMS = {
    Runner.job: {"program": "torch"},
    Runner.pytorch_job: {"program": "torch"},
    Runner.job_set: {"program": "torch"},
    Runner.train_job: {"program": "torch"},
    Runner.mpi_job: {"program": "horovod"},
    Runner.tf_job: {"program": "tensorflow", "strategy": "multi-worker-mirrored"},
}
_FEW = 4
MEASURE = {"warmupSteps": 2, "windows": 2, "stepsPerWindow": 3, "repetitions": 1}


def request(namespace: str, runner: Runner, workers: int = 2, name: str = "e", **spec: Any) -> JobRequest:
    """The request for a trial of so many workers, one on a node; `spec` goes into the experiment."""
    workload = {"image": "played", **PROGRAMS[runner], **spec.pop("workload", {})}
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [workers], "batch": {"perWorker": 8}},
            "placement": {"workersPerNode": 1},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "measure": MEASURE,
            "workload": workload,
            "runner": runner.value,
            **spec,
        },
    }
    experiment = ScalingExperiment.model_validate(tree)
    trial = make_plan(experiment).trials[0]
    return JobRequest(name, namespace, experiment.spec, trial, trial_name(name, trial.name), 1, {}, 8 << 20)


def play(outcome: str, seconds: float = 0) -> Mapping[str, Any]:
    """A workload whose pods do so."""
    return {"env": {"PLAY": outcome, "PLAY_SECONDS": str(seconds)}}


@dataclass
class PlayedJob:
    """A job in the cluster."""

    tier: Tier
    request: JobRequest

    @property
    def runner(self) -> RunnerKind:
        return runner_for(self.request.spec, self.request.trial)

    @property
    def path(self) -> str:
        return resource_of(self.runner.runner).path(self.request.namespace, self.request.job)

    def create(self) -> PlayedJob:
        """Create the job and what stands beside it."""
        job = self.tier.rest.call("POST", self.path.rpartition("/")[0], self.runner.render(self.request))
        for each in self.runner.companions(self.request, job):
            self.tier.rest.call("POST", f"/api/v1/namespaces/{self.request.namespace}/services", each)
        return self

    def reading(self) -> JobStatus:
        """The job's state now."""
        return self.runner.read(self.tier.rest.call("GET", self.path))

    def pods(self) -> list[Manifest]:
        """Its pods."""
        query = f"labelSelector=scalecurve.dev/trial={self.request.trial_object}"
        found: list[Manifest] = self.tier.rest.call("GET", f"/api/v1/namespaces/{self.request.namespace}/pods?{query}")[
            "items"
        ]
        return found

    def recording(self) -> Manifest:
        """The pod that records."""
        pod = self.runner.recording_pod(self.pods())
        assert pod is not None
        return dict(pod)

    def log(self, pod: Manifest) -> str:
        """Log of a pod, through the API server."""
        return self.tier.rest.raw("GET", f"{_pod_path(pod)}/log").decode()

    def until(self, met: Callable[[], bool], what: str) -> None:
        """Wait; the error tells what the pods say."""

        def told() -> str:
            pods = self.pods()
            lines = [f"{pod['metadata']['name']}: {pod['status']}" for pod in pods[:_FEW]]
            return "\n".join([*lines, f"{len(pods)} pods: {Counter(pod['status'].get('phase') for pod in pods)}"])

        eventually(met, what, log=told)

    def ended(self) -> JobStatus:
        """Its reading once it has ended."""
        self.until(lambda: self.reading().state is Job.ended, f"the end of {self.path}")
        return self.reading()

    def delete(self) -> float:
        """Delete it, and wait until its pods are gone: the seconds it took."""
        started = time.monotonic()
        body = {"propagationPolicy": "Background"}
        self.tier.rest.call("DELETE", self.path, body)
        self.until(lambda: not self.pods(), "every pod to be gone")
        return time.monotonic() - started


def _pod_path(pod: Manifest) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
