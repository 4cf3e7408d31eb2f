"""An experiment in a tier's cluster: applied, awaited, and what it has left behind."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Self

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import EXPERIMENT_LABEL
from tests.cluster.played_jobs import MEASURE, PROGRAMS
from tests.waiting import PATIENCE_S, eventually
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier

Object = dict[str, Any]
FINAL = ("Succeeded", "Failed", "Cancelled")
COLLECTIONS = {
    Runner.job: "/apis/batch/v1/namespaces/{}/jobs",
    Runner.mpi_job: "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    Runner.pytorch_job: "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    Runner.tf_job: "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
    Runner.train_job: "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs",
    Runner.job_set: "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
}


def manifest(
    namespace: str,
    name: str = "e",
    runner: Runner = Runner.job,
    workers: tuple[int, ...] = (1, 2),
    repetitions: int = 1,
    play: str = "succeed",
    seconds: float = 0,
    **spec: Any,
) -> Object:
    """A ScalingExperiment of `len(workers) * repetitions` played trials; `spec` is added."""
    workload = {**PROGRAMS[runner], "image": "played", "env": {"PLAY": play, "PLAY_SECONDS": str(seconds)}}
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": list(workers), "batch": {"perWorker": 8}},
            "placement": {"workersPerNode": 1},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "measure": {**MEASURE, "repetitions": repetitions},
            "workload": {**workload, **spec.pop("workload", {})},
            "runner": runner.value,
            **spec,
        },
    }


def next_second() -> None:
    """Wait until what is created next is younger than all there is: creation has a resolution of a second."""
    now = int(time.time())
    eventually(lambda: int(time.time()) > now, "the next second")


@dataclass
class Applied:
    """A ScalingExperiment that is in the cluster."""

    tier: Tier
    namespace: str
    name: str

    @classmethod
    def apply(cls, tier: Tier, tree: Object) -> Self:
        """Apply it as an administrator. Raises ApiError when the API server refuses it."""
        applied = cls(tier, tree["metadata"]["namespace"], tree["metadata"]["name"])
        tier.rest.apply(applied.path, json.dumps(tree).encode())
        return applied

    @property
    def path(self) -> str:
        return f"/apis/scalecurve.dev/v1alpha1/namespaces/{self.namespace}/scalingexperiments/{self.name}"

    @property
    def status(self) -> Object:
        """Empty before the first."""
        return dict(self.tier.rest.call("GET", self.path).get("status") or {})

    def trials(self) -> dict[str, Object]:
        """Status of each trial by its object's name."""
        path = f"{self.path.rpartition('/')[0].rpartition('/')[0]}/scalingtrials"
        return {each["metadata"]["name"]: each.get("status") or {} for each in self._items(path)}

    def final(self, timeout_s: float = PATIENCE_S) -> Object:
        """Its status once it has ended; the error tells how far it was."""

        def told() -> str:
            return f"{json.dumps(self.status, indent=1)}\n{json.dumps(self.trials(), indent=1)}"

        event = f"the end of {self.name}"
        eventually(lambda: self.status.get("phase") in FINAL, event, timeout_s, log=told, poll_s=0.05)
        return self.status

    def gone(self) -> None:
        """Wait until no job, pod or service is left in the namespace."""
        eventually(lambda: not self.left(), f"an empty namespace {self.namespace}", log=lambda: str(self.left()))

    def left(self) -> set[str]:
        """Jobs, pods and services that are in the namespace, whosever they are: KIND/NAME."""
        core = f"/api/v1/namespaces/{self.namespace}"
        places = {"pod": f"{core}/pods", "service": f"{core}/services"}
        places |= {runner.value: path.format(self.namespace) for runner, path in COLLECTIONS.items()}
        found = {kind: self._listed(path) for kind, path in places.items()}
        return {f"{kind}/{each['metadata']['name']}" for kind, items in found.items() for each in items}

    def _listed(self, path: str) -> list[Object]:
        """All objects there, none where the kind is not installed."""
        try:
            return list(self.tier.rest.call("GET", path)["items"])
        except ApiError as error:
            if error.status != 404:
                raise
            return []

    def records(self) -> set[str]:
        """Names of its record ConfigMaps."""
        return {each["metadata"]["name"] for each in self._items(f"/api/v1/namespaces/{self.namespace}/configmaps")}

    def _items(self, path: str) -> list[Object]:
        found: Object = self.tier.rest.call("GET", f"{path}?labelSelector={EXPERIMENT_LABEL}={self.name}")
        return list(found["items"])
