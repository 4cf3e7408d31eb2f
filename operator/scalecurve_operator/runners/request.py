"""All that rendering a job needs to know, and what follows from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scalecurve_api.release import release
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialSpec

BACKSTOP_S = 60


class RequestError(ValueError):
    """No job can be made of what was asked for; the message names the field."""


@dataclass(frozen=True)
class Request:
    """One attempt of one trial, to be carried by a job."""

    experiment: str
    namespace: str
    spec: ExperimentSpec
    trial: TrialSpec
    trial_object: str
    """Name of the ScalingTrial object."""
    attempt: int
    images: Mapping[str, str]
    """Program → image, for experiments that name none."""
    record_bytes: int
    nodes: tuple[str, ...] = ()
    """Nodes that the series has used so far, in the order they came to it."""
    metrics_port: int = 0
    """Port of a pod's first worker's /metrics, further workers count up; 0 is none."""
    engine_version: str = field(default_factory=release)
    linger_seconds: float = 0.0
    """How long workers stay up after their last step, for a last scrape."""

    @property
    def job(self) -> str:
        """Name of the job."""
        return objects.job_name(self.trial_object, self.attempt)

    @property
    def pods(self) -> int:
        """Pods that carry workers."""
        return self.trial.point.nodes * self.spec.placement.pods_per_node

    @property
    def workers_per_pod(self) -> int:
        """Workers in each of them.

        Raises:
            RequestError: when they do not divide evenly (``rules`` refuses such an experiment).
        """
        workers = self.trial.point.workers
        if workers % self.pods:
            given = f"spec.placement.podsPerNode: {self.spec.placement.pods_per_node}"
            raise RequestError(f"{given}: {workers} workers do not divide over {self.pods} pods")
        return workers // self.pods

    @property
    def backstop_seconds(self) -> int:
        """The job's own deadline, behind the trial's: for when no operator is there to end it with its last lines."""
        return self.trial.deadline_seconds + BACKSTOP_S

    @property
    def image(self) -> str:
        """What the pods run.

        Raises:
            RequestError: when neither the experiment nor the operator names an image.
        """
        program = self.trial.workload.program.value
        image = self.trial.workload.image or self.images.get(program)
        if not image:
            raise RequestError(f"spec.workload.image: missing, and this operator has no image for program {program!r}")
        return image

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the job and of all its pods."""
        return objects.labels(self.experiment, self.trial_object, self.attempt)
