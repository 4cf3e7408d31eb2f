"""What playing needs to know of pods, and of the attempt that they carry together."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scalecurve_api.contract import ATTEMPT_ENV, PODS_ENV, TRIAL_ENV
from scalecurve_api.spec.object_names import ROLE_LABEL
from scalecurve_api.spec.trial import TrialSpec

_JOB_INDEX = "batch.kubernetes.io/job-completion-index"
_REPLICA_TYPE, _REPLICA_INDEX = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
_OPERATOR = "training.kubeflow.org/operator-name"


@dataclass
class Pod:
    """What playing needs to know of a pod."""

    namespace: str
    name: str
    uid: str
    node: str
    labels: Mapping[str, str]
    containers: Sequence[Mapping[str, Any]]
    started: str
    deadline_s: float | None
    """what the kubelet allows it"""
    deadline: asyncio.TimerHandle | None = None
    ended: bool = False

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def stop_clock(self) -> None:
        """Its deadline is nothing to it any more."""
        if self.deadline is not None:
            self.deadline.cancel()

    @cached_property
    def environment(self) -> dict[str, str]:
        """Plain variables of its containers; `$$` is how Kubernetes spells `$`."""
        return {
            entry["name"]: entry.get("value", "").replace("$$", "$")
            for container in self.containers
            for entry in container.get("env") or []
        }

    def variables(self, secrets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """All variables of its containers as a kubelet gives them, from the Secrets by their names."""
        variables: dict[str, str] = {}
        for container in self.containers:
            for source in container.get("envFrom") or []:
                name = (source.get("secretRef") or {}).get("name", "")
                variables |= {source.get("prefix", "") + key: text for key, text in secrets.get(name, {}).items()}
            for entry in container.get("env") or []:
                wanted = (entry.get("valueFrom") or {}).get("secretKeyRef")
                if wanted and (text := secrets.get(wanted["name"], {}).get(wanted["key"])) is not None:
                    variables[entry["name"]] = text
        return variables | {name: text for name, text in self.environment.items() if text}

    @cached_property
    def trial(self) -> TrialSpec:
        return TrialSpec.model_validate_json(self.environment[TRIAL_ENV])

    @property
    def attempt(self) -> int:
        return int(self.environment.get(ATTEMPT_ENV) or 1)

    @property
    def works(self) -> bool:
        """Whether it carries workers."""
        return self.labels.get(ROLE_LABEL) == "worker"

    @property
    def leads(self) -> bool:
        """Whether it carries none and the job ends with it."""
        return self.labels.get(ROLE_LABEL) in ("launcher", "chief")

    @property
    def order(self) -> tuple[int, int]:
        """A master holds the first ranks, then come the others by their index."""
        first = self.labels.get(_REPLICA_TYPE) == "master"
        index = self.labels.get(_JOB_INDEX) or self.labels.get(_REPLICA_INDEX) or self.name.rpartition("-")[2]
        return (0 if first else 1, int(index) if index.isdigit() else 0)


def pod_of(body: Mapping[str, Any], started: str) -> Pod:
    """A pod as the API server has it."""
    metadata, spec = body["metadata"], body["spec"]
    return Pod(
        metadata["namespace"], metadata["name"], metadata["uid"], spec.get("nodeName") or "", metadata["labels"],
        spec["containers"], started, spec.get("activeDeadlineSeconds"),
    )  # fmt: skip


@dataclass
class Attempt:
    """The pods of one attempt that are there and run."""

    pods: dict[str, Pod] = field(default_factory=dict)
    """uid → pod"""
    task: asyncio.Task[None] | None = None

    def complete(self) -> bool:
        """Whether every pod that it needs is there: the workers, and a launcher or chief where there is to be one."""
        workers = sum(pod.works for pod in self.pods.values())
        some = next(iter(self.pods.values()))
        if workers < int(some.environment.get(PODS_ENV) or 1):
            return False
        workload = some.trial.workload
        led = bool(workload.needs_mpirun or workload.roles)
        led = led or some.labels.get(_OPERATOR) == "mpi-operator"
        return not led or any(pod.leads for pod in self.pods.values())
