"""``ScalingTrial``: one run of one point, with every axis resolved; what an engine hands to the worker."""

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, SerializeAsAny, StringConstraints, model_validator

from scalecurve_api.model import Model
from scalecurve_api.programs.old_records import without_foreign_fields
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import AxisValue, Cost, Metadata, Resources
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.scaling import Mode

W = TypeVar("W", bound=Workload)


class TrialPhase(StrEnum):
    """Phase of a trial; the last four are final."""

    pending = "Pending"
    queued = "Queued"
    starting = "Starting"
    running = "Running"
    collecting = "Collecting"
    succeeded = "Succeeded"
    failed = "Failed"
    invalid = "Invalid"
    cancelled = "Cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more happens to the trial; a retry is a new attempt."""
        return self in FINAL_PHASES


FINAL_PHASES = frozenset({TrialPhase.succeeded, TrialPhase.failed, TrialPhase.invalid, TrialPhase.cancelled})


class InvalidReason(StrEnum):
    """Why a run that ended well was not what the experiment requested."""

    wrong_world_size = "WrongWorldSize"
    wrong_placement = "WrongPlacement"
    replicas_diverged = "ReplicasDiverged"
    wrong_backend = "WrongBackend"
    wrong_strategy = "WrongStrategy"
    wrong_samples = "WrongSamples"
    frozen_changed = "FrozenChanged"
    oversubscribed = "Oversubscribed"
    non_finite_loss = "NonFiniteLoss"
    throttled = "Throttled"
    noisy_neighbour = "NoisyNeighbour"
    cpu_steal = "CpuSteal"
    records_missing = "RecordsMissing"


class FailedReason(StrEnum):
    """Why a run failed."""

    start_failed = "StartFailed"
    rank_failed = "RankFailed"
    rank_killed = "RankKilled"
    out_of_memory = "OutOfMemory"
    deadline_exceeded = "DeadlineExceeded"
    bad_workload = "BadWorkload"
    unschedulable = "Unschedulable"
    image_pull = "ImagePull"
    quota_exceeded = "QuotaExceeded"
    evicted = "Evicted"
    job_rejected = "JobRejected"
    job_deleted = "JobDeleted"


class Point(Model):
    """One combination of every axis.

    ``series`` names the curve it lies on: everything but the worker count.
    """

    mode: Mode = Field(description="How the batch follows the worker count.")
    workers: int = Field(description="Number of workers.")
    nodes: int = Field(description="Number of nodes.")
    workers_per_node: int = Field(description="Workers on each node.")
    global_batch: int | None = Field(default=None, description="Samples in a step over all workers.")
    batch_per_worker: int | None = Field(default=None, description="Samples in a step on each worker.")
    axes: dict[str, AxisValue] = Field(default={}, description="Values of the further axes.")
    series: str = Field(description="Name of the curve that the point is on: everything but the worker count.")
    name: str = Field(description="Name of the point.")

    @property
    def layout(self) -> str:
        """Nodes x workers on each node: ``2x4``."""
        return f"{self.nodes}x{self.workers_per_node}"


class TrialSpec(Model):
    """Everything that a worker needs to know; nothing depends on the machine."""

    experiment: str = Field(description="Name of the experiment.")
    name: str = Field(description="Name of the trial within its experiment.")
    point: Point = Field(description="The point that the trial measures.")
    repetition: int = Field(description="Number of the repetition, from 0.")
    seed: int = Field(description="Seed of parameters and data.")
    workload: SerializeAsAny[Workload] = Field(description="What runs in every worker.")
    measure: Measure = Field(description="How long the point is timed.")
    cost: Cost | None = Field(default=None, description="Price of a worker.")
    runner: Runner | None = Field(default=None, description="Kind of Kubernetes job that carries the trial.")
    resources: Resources = Field(default=Resources(), description="Resource limits of one worker.")
    deadline_seconds: int = Field(default=3600, description="Seconds after which the trial is Failed.")

    @model_validator(mode="before")
    @classmethod
    def _read_old(cls, value: Any) -> Any:
        return without_foreign_fields(value)

    def workload_as(self, kind: type[W]) -> W:
        """The workload, for a program that runs only its own.

        Raises:
            TypeError: when it is of another program.
        """
        if not isinstance(self.workload, kind):
            raise TypeError(f"program {self.workload.program} is not a {kind.__name__}")
        return self.workload

    def sent(self) -> dict[str, Any]:
        """As it goes to a worker of perhaps another version: without what has its default.

        An older worker does not know the fields that came since, and needs none that has its default. So no default
        ever changes: the worker would take its own.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)


class TrialMetadata(Metadata):
    """As an experiment's, with room for the experiment's name before the trial's."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class ScalingTrial(Model):
    """The child object of an experiment, as Kubernetes stores it."""

    api_version: Literal["scalecurve.dev/v1alpha1"] = "scalecurve.dev/v1alpha1"
    kind: Literal["ScalingTrial"] = "ScalingTrial"
    metadata: TrialMetadata
    spec: TrialSpec
    status: dict[str, Any] | None = None
