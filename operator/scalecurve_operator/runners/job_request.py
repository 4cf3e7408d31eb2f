"""Everything that rendering a job needs to know, and what follows from it alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalecurve_api import GROUP
from scalecurve_api.release import release
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import count as counted
from scalecurve_kube.resources import resource_of

BACKSTOP_S = 60
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class JobRequestError(ValueError):
    """No job can carry the trial; the message names the field."""


@dataclass(frozen=True)
class JobRequest:
    """One attempt of one trial, to be carried by a job."""

    experiment: str
    namespace: str
    spec: ExperimentSpec
    trial: TrialSpec
    trial_object: str  # name of the ScalingTrial object
    attempt: int
    images: Mapping[str, str]  # program -> image, for experiments that name none
    record_bytes: int
    nodes: tuple[str, ...] = ()  # nodes that the series has used so far in this session, in order of first use
    earlier_nodes: tuple[str, ...] = ()  # nodes that earlier sessions have used
    metrics_port: int = 0  # port of /metrics of a pod's first worker, further workers count up; 0 is none
    engine_version: str = field(default_factory=release)
    secret: str = ""  # what the processes of the attempt share, and no other pod knows
    linger_seconds: float = 0.0  # how long workers stay up after their last step, for a last scrape

    @property
    def job(self) -> str:
        return objects.job_name(self.trial_object, self.attempt)

    @property
    def pods(self) -> int:
        """Pods that carry workers."""
        return self.trial.point.nodes * self.spec.placement.pods_per_node

    @property
    def workers_per_pod(self) -> int:
        """JobRequestError unless they divide evenly; ``rules`` refuses such an experiment."""
        count, rest = divmod(self.trial.point.workers, self.pods)
        if rest:
            problem = f"{counted(self.trial.point.workers, 'worker')} do not divide over {counted(self.pods, 'pod')}"
            raise JobRequestError(f"spec.placement.podsPerNode: {self.spec.placement.pods_per_node}: {problem}")
        return count

    @property
    def backstop_seconds(self) -> int:
        """The job's own deadline, after the trial's: in case no operator is there to end it with its last lines."""
        return self.trial.deadline_seconds + BACKSTOP_S

    @property
    def image(self) -> str:
        program = self.trial.workload.program
        if image := self.trial.workload.image or self.images.get(program):
            return image
        raise JobRequestError(f"spec.workload.image: missing, and this operator has no image for program {program!r}")

    @property
    def suspended(self) -> dict[str, bool]:
        """A job for a queue of Kueue is created suspended, and Kueue alone releases it.

        A job that Kueue evicts is suspended again, loses its pods and starts from scratch when it is admitted next: it
        reads as queued then, and is still the same attempt, because nothing of the first start is kept.
        """
        return {"suspend": True} if self.spec.queue else {}

    def manifest(self, runner: Runner, spec: Mapping[str, Any]) -> dict[str, Any]:
        labels = self.spec.pod.job_labels | self.labels | ({QUEUE_LABEL: self.spec.queue} if self.spec.queue else {})
        further = {"annotations": dict(self.spec.pod.job_annotations)} if self.spec.pod.job_annotations else {}
        job = resource_of(runner).body(name=self.job, namespace=self.namespace, labels=labels, **further)
        return {**job, "spec": dict(spec)}

    @property
    def labels(self) -> dict[str, str]:
        return objects.labels(self.experiment, self.trial_object, self.attempt)

    @property
    def pod_selector(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.labels.items() if name.startswith(f"{GROUP}/"))
