"""``ScalingTrial``: one run of one point, with every axis resolved; what an engine hands to the worker."""

from enum import StrEnum
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, SerializeAsAny, model_validator

from scalecurve_api.model import Model, SafeName, canonical_json
from scalecurve_api.programs.degrees import Degrees, Dimension
from scalecurve_api.programs.old_records import without_foreign_fields
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import LADDER_AXIS, AxisValue, Cost, Expected, Metadata, Name, Resources
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.scaling import Mode

W = TypeVar("W", bound=Workload)
_LAYOUT = "parallelism."
_DEGREES = {_LAYOUT + dimension.value for dimension in Dimension}


class TrialPhase(StrEnum):
    """Phase of a trial; the last five are final. ``full``: its batch did not fit into memory, which ends a ladder."""

    pending = "Pending"
    queued = "Queued"
    starting = "Starting"
    running = "Running"
    collecting = "Collecting"
    succeeded = "Succeeded"
    failed = "Failed"
    invalid = "Invalid"
    cancelled = "Cancelled"
    full = "Full"

    @property
    def final(self) -> bool:
        return self in FINAL_PHASES


FINAL_PHASES = frozenset(
    {TrialPhase.succeeded, TrialPhase.failed, TrialPhase.invalid, TrialPhase.cancelled, TrialPhase.full}
)


class InvalidReason(StrEnum):
    """Why a run that ended well did not match the experiment, or why it is excluded by default.

    Those in ``OF_POINTS`` are of a point, and ``reported`` of a run that was not observed:
    none of them makes a trial Invalid.
    """

    wrong_world_size = "WrongWorldSize"
    wrong_placement = "WrongPlacement"
    no_communication = "NoCommunication"
    same_data = "SameData"
    not_trained = "NotTrained"
    replicas_diverged = "ReplicasDiverged"
    wrong_backend = "WrongBackend"
    wrong_strategy = "WrongStrategy"
    wrong_samples = "WrongSamples"
    wrong_math = "WrongMath"
    untimed_work = "UntimedWork"
    wrong_clock = "WrongClock"
    wrong_rate = "WrongRate"
    impossible_efficiency = "ImpossibleEfficiency"
    different_parameters = "DifferentParameters"
    different_arithmetic = "DifferentArithmetic"
    different_flops = "DifferentFlops"
    different_inputs = "DifferentInputs"
    fewer_passes = "FewerPasses"
    different_pauses = "DifferentPauses"
    reported = "Reported"
    frozen_changed = "FrozenChanged"
    oversubscribed = "Oversubscribed"
    non_finite_loss = "NonFiniteLoss"
    wrong_transport = "WrongTransport"
    throttled = "Throttled"
    noisy_neighbor = "NoisyNeighbor"
    cpu_steal = "CpuSteal"
    restarted = "Restarted"
    records_missing = "RecordsMissing"
    records_unreadable = "RecordsUnreadable"

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Read a reason, also one as older records spell it; None where ``name`` is none."""
        name = "NoisyNeighbor" if name == "NoisyNeighbour" else name
        return cls(name) if name in list(cls) else None


OF_POINTS = frozenset(
    {
        InvalidReason.impossible_efficiency,
        InvalidReason.different_parameters,
        InvalidReason.different_arithmetic,
        InvalidReason.different_flops,
        InvalidReason.different_inputs,
        InvalidReason.fewer_passes,
        InvalidReason.different_pauses,
    }
)
"""Of a comparison with the baseline, so of no trial by itself."""


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
    never_admissible = "NeverAdmissible"
    queue_deadline_exceeded = "QueueDeadlineExceeded"
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
    parallelism: Degrees | None = Field(default=None, description="Workers in each dimension of parallelism.")
    rung: int | None = Field(default=None, description="Number of the batch on scaling.batch.ladder, from 0.")
    series: str = Field(description="Name of the curve that the point is on: everything but the worker count.")
    name: str = Field(description="Name of the point.")

    @property
    def layout(self) -> str:
        return f"{self.nodes}x{self.workers_per_node}"

    @property
    def ladder(self) -> str | None:
        """Key of the ladder that it is on, if any: the points that differ only in the batch per worker."""
        if self.rung is None:
            return None
        others = {name: value for name, value in self.axes.items() if name != LADDER_AXIS}
        return canonical_json([self.mode.value, self.workers, self.layout, others])

    @property
    def axes_in_words(self) -> str:
        """Its degrees of parallelism above 1, and the values of its other axes as in YAML."""
        degrees = [self.parallelism.spelled] if self.parallelism else []
        named = {name: value for name, value in self.axes.items() if not degrees or name not in _DEGREES}
        values = {name: value if isinstance(value, str) else canonical_json(value) for name, value in named.items()}
        return " ".join([*degrees, *(f"{name.removeprefix(_LAYOUT)}={value}" for name, value in values.items())])


class TrialSpec(Model):
    """Everything that a worker needs to know; nothing depends on the machine."""

    experiment: Name = Field(description="Name of the experiment.")
    name: SafeName = Field(description="Name of the trial within its experiment.")
    point: Point = Field(description="The point that the trial measures.")
    repetition: int = Field(description="Number of the repetition, from 0; later sessions continue the count.")
    session: int = Field(
        default=0,
        description="Number of the session, from 0: repetitions of one session share machines and time, and so noise.",
    )
    seed: int = Field(description="Seed of parameters and data.")
    workload: SerializeAsAny[Workload] = Field(description="What runs in every worker.")
    measure: Measure = Field(description="How long the point is timed.")
    cost: Cost | None = Field(default=None, description="Price of a worker.")
    runner: Runner | None = Field(default=None, description="Kind of Kubernetes job that carries the trial.")
    resources: Resources = Field(default=Resources(), description="Resource limits of one worker.")
    expect: Expected = Field(default=Expected(), description="What the trial must have used.")
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
        ever changes, as the worker would take its own; or the field is one of ``Workload.always_sent``.
        """
        wire = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        for path in self.workload.always_sent:
            place = wire["workload"]
            *outer, name = path.split(".")
            for part in outer:
                place = place.setdefault(part, {})
            place[name] = self.workload.field_value(path)
        return wire


class TrialMetadata(Metadata):
    """As an experiment's, with room for the experiment's name before the trial's."""

    name: SafeName


class ScalingTrial(Model):
    """The child object of an experiment, as Kubernetes stores it."""

    api_version: Literal["scalecurve.dev/v1alpha1"] = "scalecurve.dev/v1alpha1"
    kind: Literal["ScalingTrial"] = "ScalingTrial"
    metadata: TrialMetadata
    spec: TrialSpec
    status: dict[str, Any] | None = None
